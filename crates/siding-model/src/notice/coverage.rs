//! Decides which notices need no delivery, because the result of a call has already shown their
//! events.

use super::{Notice, NoticeEvent, NoticeId};

/// The part of a task's state that the result of a call has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// The task's phase or outcome: the result of a wait, a stop or a release.
    Status,
    /// The complete output and the outcome.
    Output,
    /// The complete state, and an excerpt of the output.
    Details,
    /// The complete output and the complete state: the result for the caller that started the task.
    FullResult,
}

impl Coverage {
    /// Returns whether the result has shown this event. A matched line is part of the output, and
    /// an exceeded limit is part of the state. A refused host and an approaching deadline are shown
    /// only by their notices, and so is a terminal that was given back. The state says who has it.
    #[must_use]
    pub const fn includes(self, news: &NoticeEvent) -> bool {
        match news {
            NoticeEvent::Ended { .. }
            | NoticeEvent::Lingering { .. }
            | NoticeEvent::Stalled { .. }
            | NoticeEvent::Ready { .. } => true,
            NoticeEvent::Matched { .. } => matches!(self, Self::Output | Self::FullResult),
            NoticeEvent::Limit { .. } | NoticeEvent::Terminal { is_taken: true, .. } => {
                matches!(self, Self::Details | Self::FullResult)
            }
            NoticeEvent::Denied { .. }
            | NoticeEvent::Expiring { .. }
            | NoticeEvent::Terminal { is_taken: false, .. } => false,
        }
    }

    /// Returns the ids of those notices whose events the result has shown.
    pub fn covered_ids(self, notices: &[Notice]) -> impl Iterator<Item = NoticeId> {
        notices.iter().filter(move |notice| self.includes(&notice.event)).map(|notice| notice.id)
    }
}
