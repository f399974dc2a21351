//! The consumers that have received the notices of a task.

use siding_core::notices::Acks;
use siding_core::store::StateDir;
use siding_model::notice::Consumer;

use crate::task::{LiveNotice, LiveTask};

/// The receivers of one notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeReceipt {
    /// The receivers of the notice, as words for a person: the task's caller, which has the result
    /// of its call, or otherwise the consumers that have acknowledged the notice.
    pub receivers: Vec<&'static str>,
    /// Whether the notice is reserved for the task's caller, which usually receives the result.
    pub is_reserved: bool,
}

impl NoticeReceipt {
    /// Returns the receivers as a phrase.
    #[must_use]
    pub fn describe(&self) -> String {
        match (self.receivers.as_slice(), self.is_reserved) {
            ([], false) => "not received yet".to_owned(),
            ([], true) => "reserved for the caller".to_owned(),
            ([first @ .., last], _) if !first.is_empty() => {
                format!("received by {} and {last}", first.join(", "))
            }
            ([receiver, ..], _) => format!("received by {receiver}"),
        }
    }
}

/// Reads the receivers of each notice of a task, in the order of [`LiveTask::notices`].
#[must_use]
pub fn read_receipts(root: &StateDir, task: &LiveTask) -> Vec<NoticeReceipt> {
    // If the acknowledgements cannot be read, no receiver is named.
    let acks = Acks::read(root, &task.view.session_id).unwrap_or_default();
    let consumers = [
        (Consumer::agent(), "the agent"),
        (Consumer::terminal(), "a person at a terminal or page"),
        (Consumer::person(), "a person by notification"),
    ];
    let receipt = |notice: &LiveNotice| {
        let acknowledged =
            consumers.iter().filter(|(consumer, _)| acks.is_acknowledged(consumer, notice.id));
        let receivers = if acks.is_returned(notice.id) {
            vec!["the caller"]
        } else {
            acknowledged.map(|(_, name)| *name).collect()
        };
        NoticeReceipt { receivers, is_reserved: notice.is_reserved() }
    };
    task.notices.iter().map(receipt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_names_the_receivers() {
        let describe = |receivers: &[&'static str], is_reserved| {
            NoticeReceipt { receivers: receivers.to_vec(), is_reserved }.describe()
        };
        assert_eq!(describe(&[], false), "not received yet");
        assert_eq!(describe(&[], true), "reserved for the caller");
        assert_eq!(describe(&["the agent"], true), "received by the agent");
        assert_eq!(describe(&["a", "b"], false), "received by a and b");
        assert_eq!(describe(&["a", "b", "c"], false), "received by a, b and c");
    }
}
