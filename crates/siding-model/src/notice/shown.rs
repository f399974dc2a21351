//! What somebody who was shown a task need not be told.

use super::{News, Notice, NoticeId};

/// What somebody was shown of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// How it stands, or ended: an answer to a wait or a stop.
    Standing,
    /// All that it wrote, and how it ended.
    Output,
    /// Everything that is known of it, with a piece of its output.
    Sheet,
    /// What its own caller gets: all that it wrote, and everything that is known of it.
    Call,
}

impl Shown {
    /// Whether this news was in it. A line that somebody wanted is in the output, a limit is among
    /// what is known, and a host that was refused and a deadline that is near are told by their notice
    /// alone.
    #[must_use]
    pub const fn says(self, news: &News) -> bool {
        match news {
            News::Ended { .. }
            | News::Lingering { .. }
            | News::Stalled { .. }
            | News::Ready { .. } => true,
            News::Matched { .. } => matches!(self, Self::Output | Self::Call),
            News::Limit { .. } => matches!(self, Self::Sheet | Self::Call),
            News::Denied { .. } | News::Expiring { .. } => false,
        }
    }

    /// Returns the names of those notices that need not be told.
    pub fn names(self, notices: &[Notice]) -> impl Iterator<Item = NoticeId> {
        notices.iter().filter(move |notice| self.says(&notice.news)).map(|notice| notice.id)
    }
}
