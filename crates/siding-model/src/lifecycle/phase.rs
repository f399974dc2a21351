//! Where a task stands, and why it is ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::{LeaderEnd, LimitKind, Outcome};
use crate::process::{LeaderRef, MonotonicMs};
use crate::signal::Signal;

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Recorded; the leader may or may not exist yet.
    Starting {
        /// A stop that was asked for before the leader was known.
        stop: Option<StopIntent>,
    },
    /// The leader runs.
    Running {
        /// The shell or program itself.
        leader: LeaderRef,
    },
    /// The leader has ended, descendants live.
    Lingering {
        /// How the leader ended.
        ended: LeaderEnd,
    },
    /// Everything was asked to end.
    Stopping {
        /// Why, and who asked.
        intent: StopIntent,
        /// How the leader ended, if it has.
        ended: Option<LeaderEnd>,
        /// When asking is over.
        kill_at: MonotonicMs,
    },
    /// Everything is being killed.
    Killing {
        /// Why, and who asked.
        intent: StopIntent,
        /// How the leader ended, if it has.
        ended: Option<LeaderEnd>,
    },
    /// The tree is gone, or what is left of it cannot be ended and is named in the report.
    Ended {
        /// The one outcome.
        outcome: Outcome,
        /// How the leader ended; `None` when it never ran or survived.
        leader: Option<LeaderEnd>,
    },
}

/// A decision to end a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopIntent {
    /// Why.
    pub reason: StopReason,
    /// First signal sent.
    pub signal: Signal,
    /// Time between that signal and the kill.
    pub grace: Duration,
    /// The leader's own end, when it came before the decision. It stays the outcome.
    pub earlier_leader_end: Option<LeaderEnd>,
}

/// Why a task is ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StopReason {
    /// The deadline passed.
    Deadline {
        /// The limit in force, in milliseconds since the start.
        limit_ms: u64,
    },
    /// Somebody asked.
    Stop {
        /// Who.
        by: String,
    },
    /// The leader is gone and the task does not want to linger.
    LeaderExit,
    /// A limit was passed.
    Limit {
        /// Which.
        which: LimitKind,
    },
}

impl StopIntent {
    pub(super) fn into_outcome(self, ended: Option<LeaderEnd>) -> Outcome {
        if let Some(natural) = self.earlier_leader_end {
            return natural.into();
        }
        match self.reason {
            StopReason::Deadline { limit_ms } => Outcome::Deadline { limit_ms },
            StopReason::Stop { by } => Outcome::Stopped { by },
            StopReason::Limit { which } => Outcome::Limit { which },
            // Decided only after the leader's end, so `natural` was there; kept total all the same.
            StopReason::LeaderExit => ended.map_or_else(
                || Outcome::Lost { why: "the leader's end was not seen".to_owned() },
                Outcome::from,
            ),
        }
    }
}
