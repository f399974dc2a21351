//! The consumers that have received the notices of a task.

use siding_core::notices::Acks;
use siding_core::store::StateDir;
use siding_model::notice::Consumer;

use crate::task::{LiveNotice, LiveTask};

/// Number of consumers that are named. When a caller has received the result of its call, all of
/// them count as receivers of the notice.
const CONSUMER_COUNT: usize = 3;

/// The receivers of one notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeReceipt {
    /// The consumers that have acknowledged the notice, as words for a person.
    pub receivers: Vec<&'static str>,
    /// Whether no reader of [`LiveOptions::readers`](crate::LiveOptions::readers) has acknowledged
    /// the notice, and it is not reserved for the task's caller.
    pub is_unread: bool,
}

impl NoticeReceipt {
    /// Returns the receivers as a phrase.
    #[must_use]
    pub fn describe(&self) -> String {
        match (self.receivers.len(), self.is_unread) {
            (0, true) => "not received yet".to_owned(),
            (0, false) => "reserved for the caller".to_owned(),
            (CONSUMER_COUNT, _) => "received by the caller".to_owned(),
            (_, _) => format!("received by {}", self.receivers.join(" and ")),
        }
    }
}

/// Reads the receivers of each notice of a task, in the order of [`LiveTask::notices`].
#[must_use]
pub fn read_receipts(root: &StateDir, task: &LiveTask) -> Vec<NoticeReceipt> {
    // If the acknowledgements cannot be read, no receiver is named.
    let acks = Acks::read(root, &task.view.session_id).unwrap_or_default();
    let consumers: [(Consumer, &'static str); CONSUMER_COUNT] = [
        (Consumer::agent(), "the agent"),
        (Consumer::terminal(), "a person at a terminal or page"),
        (Consumer::person(), "a person by notification"),
    ];
    let receipt = |notice: &LiveNotice| {
        let acknowledged =
            consumers.iter().filter(|(consumer, _)| acks.is_acknowledged(consumer, notice.id));
        let receivers = acknowledged.map(|(_, name)| *name).collect();
        NoticeReceipt { receivers, is_unread: notice.is_unread }
    };
    task.notices.iter().map(receipt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_names_the_receivers() {
        let describe = |receivers: &[&'static str], is_unread| {
            NoticeReceipt { receivers: receivers.to_vec(), is_unread }.describe()
        };
        assert_eq!(describe(&[], true), "not received yet");
        assert_eq!(describe(&[], false), "reserved for the caller");
        assert_eq!(describe(&["the agent"], false), "received by the agent");
        assert_eq!(describe(&["a", "b"], true), "received by a and b");
        assert_eq!(describe(&["a", "b", "c"], false), "received by the caller");
    }
}
