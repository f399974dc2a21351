//! Which notice comes first.

use serde::Serialize;

use super::extract::{Notice, NoticeEvent, StallCertainty};
use crate::outcome::Outcome;

/// How soon a notice is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Before everything else: something waits for an answer, or siding had to step in.
    Next,
    /// When there is time: an ordinary end in the background.
    Later,
}

impl NoticeEvent {
    /// Returns how soon it is wanted.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        match self {
            Self::Ended { outcome: Outcome::Deadline { .. } | Outcome::Limit { .. }, .. }
            | Self::Stalled { certainty: StallCertainty::Hard, .. }
            | Self::Limit { .. }
            | Self::Denied { .. }
            // There is little time to move it.
            | Self::Expiring { .. }
            // Somebody waits for exactly this.
            | Self::Ready { .. } => Priority::Next,
            Self::Ended { .. }
            | Self::Lingering { .. }
            | Self::Stalled { certainty: StallCertainty::Soft, .. }
            | Self::Matched { .. } => Priority::Later,
        }
    }
}

impl Notice {
    /// Returns what notices are sorted by: `next` before `later`, then by time. The name decides
    /// among those of one millisecond, so that every look has the same order.
    #[must_use]
    pub const fn sort_key(&self) -> impl Ord + use<> {
        (self.event.priority(), self.wall, self.id)
    }
}
