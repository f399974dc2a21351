//! What somebody who was shown a task need not be told.

use super::{Notice, NoticeEvent, NoticeId};

/// What somebody was shown of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// How it stands, or ended: an answer to a wait or a stop.
    Status,
    /// All that it wrote, and how it ended.
    Output,
    /// Everything that is known of it, with a piece of its output.
    Details,
    /// What its own caller gets: all that it wrote, and everything that is known of it.
    FullResult,
}

impl Coverage {
    /// Whether this news was in it. A line that somebody wanted is in the output, a limit is among
    /// what is known, and a host that was refused and a deadline that is near are told by their notice
    /// alone.
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

    /// Returns the names of those notices that need not be told.
    pub fn covered_ids(self, notices: &[Notice]) -> impl Iterator<Item = NoticeId> {
        notices.iter().filter(move |notice| self.includes(&notice.event)).map(|notice| notice.id)
    }
}
