//! The phases of a task, and the reasons for stopping it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::{LeaderEnd, LimitKind, Outcome};
use crate::process::{LeaderRef, MonotonicMs};
use crate::signal::Signal;

/// The phase of a task, with the facts that determine the next phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The task is recorded; the leader may or may not exist yet.
    Starting {
        /// A stop that was decided on before the leader was known.
        stop: Option<StopIntent>,
    },
    /// The leader is running.
    Running {
        /// Pid and start time of the shell or program.
        leader: LeaderRef,
    },
    /// The leader has ended, and descendants of it are alive.
    Lingering {
        /// How the leader ended.
        ended: LeaderEnd,
    },
    /// All processes were sent the stop signal.
    Stopping {
        /// The reason for the stop, its signal and its grace.
        intent: StopIntent,
        /// How the leader ended; `None` while the leader runs.
        ended: Option<LeaderEnd>,
        /// Time at which the grace period ends.
        kill_at: MonotonicMs,
    },
    /// All processes are being killed.
    Killing {
        /// The reason for the stop, which determines the outcome.
        intent: StopIntent,
        /// How the leader ended; `None` while the leader runs.
        ended: Option<LeaderEnd>,
    },
    /// The tree is empty, except for survivors of the kill and the processes of a released task.
    Ended {
        /// How the task ended; for a stopped task usually the reason for the stop.
        outcome: Outcome,
        /// How the leader ended; `None` when the leader never ran, survived the kill, was released
        /// while it ran, or ended unobserved.
        leader: Option<LeaderEnd>,
    },
}

/// A decision to stop a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopIntent {
    /// The event that led to the decision.
    pub reason: StopReason,
    /// The signal that was last sent to all processes, before the kill.
    pub signal: Signal,
    /// The requested time between the first signal and the kill.
    pub grace: Duration,
    /// How the leader ended, if it ended before the decision. This end then determines the outcome.
    pub earlier_leader_end: Option<LeaderEnd>,
}

/// The reason for stopping a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StopReason {
    /// The deadline passed.
    Deadline {
        /// The time from the start to the deadline, in milliseconds.
        limit_ms: u64,
    },
    /// A stop was requested.
    Stop {
        /// Name of the requester, such as `user`, `session` or the name of a host.
        by: String,
    },
    /// The leader has ended, and the task is not configured to linger.
    LeaderExit,
    /// A limit was exceeded.
    Limit {
        /// The limit that was exceeded.
        limit_kind: LimitKind,
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
            StopReason::Limit { limit_kind } => Outcome::Limit { limit_kind },
            // A task is stopped for this reason only after its leader ended, so `ended` is set. The
            // fallback avoids a panic.
            StopReason::LeaderExit => ended.map_or_else(
                || Outcome::Lost { why: "the leader's end was not seen".to_owned() },
                Outcome::from,
            ),
        }
    }
}
