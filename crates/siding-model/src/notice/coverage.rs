//! Which notices the result of a call makes redundant.

use super::{Notice, NoticeEvent, NoticeId};

/// The part of a task's state that the result of a call has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// The task's phase or outcome: the result of a wait or a stop.
    Status,
    /// The complete output and the outcome.
    Output,
    /// The complete state, and an excerpt of the output.
    Details,
    /// The complete output and the complete state: the result for the task's own caller.
    FullResult,
}

impl Coverage {
    /// Returns whether the result included this event. A matched line is part of the output, and a
    /// limit is part of the state. No result shows a refused host or a near deadline, so these
    /// notices are always delivered.
    #[must_use]
    pub const fn includes(self, news: &NoticeEvent) -> bool {
        match news {
            NoticeEvent::Ended { .. }
            | NoticeEvent::Lingering { .. }
            | NoticeEvent::Stalled { .. }
            | NoticeEvent::Ready { .. } => true,
            NoticeEvent::Matched { .. } => matches!(self, Self::Output | Self::FullResult),
            NoticeEvent::Limit { .. } => matches!(self, Self::Details | Self::FullResult),
            NoticeEvent::Denied { .. } | NoticeEvent::Expiring { .. } => false,
        }
    }

    /// Returns the ids of the notices that need no delivery.
    pub fn covered_ids(self, notices: &[Notice]) -> impl Iterator<Item = NoticeId> {
        notices.iter().filter(move |notice| self.includes(&notice.event)).map(|notice| notice.id)
    }
}
