//! The order in which notices are delivered.

use serde::Serialize;

use super::extract::{Notice, NoticeEvent, StallCertainty};
use crate::outcome::Outcome;

/// The urgency of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Delivered before all others: the task may need action, siding intervened, or the caller
    /// asked for the notice.
    Next,
    /// Delivered after all `next` notices; for example an ordinary end or a matched line.
    Later,
}

impl NoticeEvent {
    /// Returns the urgency of the notice.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        match self {
            Self::Ended { outcome: Outcome::Deadline { .. } | Outcome::Limit { .. }, .. }
            | Self::Stalled { certainty: StallCertainty::Hard, .. }
            | Self::Limit { .. }
            | Self::Denied { .. }
            // Little time remains to move the deadline.
            | Self::Expiring { .. }
            // The agent's keys may have been refused, so the agent waits for the terminal.
            | Self::Terminal { is_taken: false, .. }
            // The caller asked for this notice with `--wait-for`.
            | Self::Ready { .. } => Priority::Next,
            Self::Ended { .. }
            | Self::Lingering { .. }
            | Self::Stalled { certainty: StallCertainty::Soft, .. }
            | Self::Terminal { is_taken: true, .. }
            | Self::Matched { .. } => Priority::Later,
        }
    }
}

impl Notice {
    /// Returns the sort key of notices: `next` before `later`, then by time. The id orders notices
    /// of the same millisecond, so that the order is stable.
    #[must_use]
    pub const fn sort_key(&self) -> impl Ord + use<> {
        (self.event.priority(), self.wall, self.id)
    }
}
