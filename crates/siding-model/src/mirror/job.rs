//! The status and the end of a task's job, as its cluster reports them.

use serde::{Deserialize, Serialize};

use crate::process::{MonotonicMs, UnixMs};

/// The status of a job that waits in the queue. The texts are untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Number of the job; `None` until the cluster has accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// State of the job as the cluster names it, such as `PENDING`.
    pub state: String,
    /// The reason why the job waits as the cluster names it, such as `Resources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time at which the cluster expects to start the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<UnixMs>,
}

/// The time of a job in the queue, over all of its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueTime {
    /// Total of the waits that have ended, in milliseconds.
    earlier_ms: u64,
    /// Start of the current wait; `None` while the job runs. A task that ends in the queue keeps
    /// it.
    since: Option<MonotonicMs>,
}

impl QueueTime {
    /// Begins a wait, unless the job waits already.
    pub(super) fn begin(&mut self, at: MonotonicMs) {
        self.since.get_or_insert(at);
    }

    /// Ends the current wait at the start of the job.
    pub(super) fn end(&mut self, at: MonotonicMs) {
        self.earlier_ms = self.total_ms(at);
        self.since = None;
    }

    /// Returns whether the job waits, or the task ended while it did.
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        self.since.is_some()
    }

    /// Returns the total of all waits, the current one up to `now`, in milliseconds.
    #[must_use]
    pub fn total_ms(self, now: MonotonicMs) -> u64 {
        self.earlier_ms.saturating_add(self.since.map_or(0, |since| now.ms_since(since)))
    }
}

/// The end of a job, for a task whose own records do not decide its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobEnd {
    /// The job was canceled.
    Cancelled {
        /// Name of the requester.
        by: String,
    },
    /// The time limit of the job passed.
    TimeLimit,
    /// The processes of the job exceeded its memory.
    OutOfMemory,
    /// The command was never started.
    NotStarted {
        /// The reason, for a person.
        why: String,
    },
    /// The end is unknown.
    Lost {
        /// The reason, for a person.
        why: String,
    },
}
