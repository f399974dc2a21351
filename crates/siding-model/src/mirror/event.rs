//! The records that only the journal of a mirror contains.

use serde::{Deserialize, Serialize};

use super::clock::RemoteClock;
use super::job::JobStatus;
use crate::file_sync::{FetchFailure, SkippedLinks};
use crate::process::{BootId, MonotonicMs, UnixMs};
use crate::signal::Signal;

/// An event between a task on a remote machine and its local mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RemoteEvent {
    /// The mirror is about to send the task for the first time. Without this record the remote
    /// machine cannot have the task.
    Sent {
        /// Time of the record.
        at: MonotonicMs,
    },
    /// The remote machine has recorded the task.
    Accepted {
        /// Start of the task there, as a local time. The deadline counts from it.
        at: MonotonicMs,
        /// Start of the task there on the local wall clock.
        wall: UnixMs,
        /// Name of the remote machine, as it calls itself. The text is untrusted.
        machine: String,
        /// The clocks of the remote machine.
        #[serde(flatten)]
        clock: RemoteClock,
    },
    /// The job of the task waits in the queue of a cluster, or its status there has changed.
    Queued {
        /// Time of the record.
        at: MonotonicMs,
        /// The status of its job.
        #[serde(flatten)]
        status: JobStatus,
    },
    /// The cluster has interrupted the job and started it again. The records and the output of the
    /// new attempt follow, from their beginning.
    Requeued {
        /// Time of the record.
        at: MonotonicMs,
        /// Number of earlier attempts; at least 1.
        attempt: u32,
        /// Number of output bytes of the earlier attempts.
        output_bytes: u64,
        /// The reason. The text is untrusted.
        why: String,
    },
    /// The connection broke, or could not be established.
    Unreachable {
        /// Time of the record.
        at: MonotonicMs,
        /// Time of the record on the wall clock.
        wall: UnixMs,
        /// The last message of ssh, or the reason. The text is untrusted.
        why: String,
    },
    /// The connection is established again.
    Reachable {
        /// Time of the record.
        at: MonotonicMs,
    },
    /// A client requested a stop, and the mirror is about to pass the request on. It repeats the
    /// request over each new connection until the remote task has recorded the stop.
    StopPending {
        /// Time of the request.
        at: MonotonicMs,
        /// Name of the requester.
        by: String,
        /// Grace for this stop, in milliseconds; `None` selects the grace in the specification.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
        /// Signal for this stop; `None` selects the signal in the specification.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<Signal>,
    },
    /// A shim took over the mirror after a restart of this machine. The shim's pid and start time
    /// are those of this boot; the times of later records still follow the clock of the first boot.
    Rebooted {
        /// Time of the last event before the restart.
        at: MonotonicMs,
        /// The present boot.
        boot: BootId,
    },
    /// The remote task moved to the background, or another shim took it over there: its deadline
    /// counts from then on, if it did not before.
    DeadlineCounted {
        /// Time of the remote record.
        at: MonotonicMs,
    },
    /// The rest of the standard input is lost, for example because the mirror that read it was
    /// killed. The input of the remote task is closed after this record.
    InputLost {
        /// Time of the record.
        at: MonotonicMs,
        /// Minimum number of bytes that the remote machine had written to the command's input;
        /// missing in records of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arrived_bytes: Option<u64>,
    },
    /// The mirror has copied the files of the specification's `fetch` back, after the command had
    /// ended and before its end is recorded.
    Fetched {
        /// Time of the record.
        at: MonotonicMs,
        /// The paths that could not be copied.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        failed: Vec<FetchFailure>,
        /// The symbolic links that were not copied. The names are untrusted.
        #[serde(default, skip_serializing_if = "SkippedLinks::is_empty")]
        skipped_links: SkippedLinks,
    },
}

impl RemoteEvent {
    /// Returns the time of the event.
    #[must_use]
    pub const fn time(&self) -> MonotonicMs {
        match self {
            Self::Sent { at }
            | Self::Accepted { at, .. }
            | Self::Queued { at, .. }
            | Self::Requeued { at, .. }
            | Self::Unreachable { at, .. }
            | Self::Reachable { at }
            | Self::StopPending { at, .. }
            | Self::Rebooted { at, .. }
            | Self::DeadlineCounted { at }
            | Self::InputLost { at, .. }
            | Self::Fetched { at, .. } => *at,
        }
    }

    /// Returns whether the event stands for a record of the remote journal.
    #[must_use]
    pub const fn is_copied(&self) -> bool {
        matches!(self, Self::DeadlineCounted { .. })
    }
}
