//! Decides which notices need no delivery, because the result of a call has already shown their
//! events.

use super::{Notice, NoticeEvent, NoticeId};

/// The part of a task's state that the result of a call has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// The task's phase or outcome: the result of a wait, a stop or a release.
    Status,
    /// The screen of the running task, what it waits for, and who has its terminal.
    Screen,
    /// The complete output and the outcome.
    Output,
    /// The complete state, and an excerpt of the output.
    Details,
    /// The complete output and the complete state: the result for the caller that started the task.
    FullResult,
}

impl Coverage {
    /// Returns whether the result has shown this event. A matched line is part of the output, and
    /// an exceeded limit is part of the state. The state says who holds the terminal, but only the
    /// screen shows the keys typed into one that was given back. Only notices show a refused host
    /// and an approaching deadline.
    #[must_use]
    pub const fn includes(self, news: &NoticeEvent) -> bool {
        match news {
            NoticeEvent::Stalled { .. } => true,
            NoticeEvent::Ended { .. }
            | NoticeEvent::Lingering { .. }
            | NoticeEvent::Ready { .. } => !matches!(self, Self::Screen),
            NoticeEvent::Matched { .. } => matches!(self, Self::Output | Self::FullResult),
            NoticeEvent::Limit { .. } => matches!(self, Self::Details | Self::FullResult),
            NoticeEvent::Terminal { is_taken: true, .. } => {
                matches!(self, Self::Screen | Self::Details | Self::FullResult)
            }
            NoticeEvent::Terminal { is_taken: false, .. } => matches!(self, Self::Screen),
            NoticeEvent::Denied { .. } | NoticeEvent::Expiring { .. } => false,
        }
    }

    /// Returns the ids of those notices whose events the result has shown.
    pub fn covered_ids(self, notices: &[Notice]) -> impl Iterator<Item = NoticeId> {
        notices.iter().filter(move |notice| self.includes(&notice.event)).map(|notice| notice.id)
    }
}
