//! The status and the end of a task's job, as its cluster reports them.

use serde::{Deserialize, Serialize};

use crate::process::UnixMs;

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
