//! The messages between a mirror and siding on the remote machine.
//!
//! Each message is one line of JSON. The lines of [`RemoteMessage::Output`] and
//! [`RemoteRequest::Input`] are followed by the bytes that they announce.

use serde::{Deserialize, Serialize};

use crate::executor::SlurmOptions;
use crate::id::TaskId;
use crate::mirror::{JobEnd, JobStatus};
use crate::process::{MonotonicMs, UnixMs};
use crate::protocol::{ShimMessage, ShimRequest};
use crate::record::Record;
use crate::spec::TaskSpec;

use super::input::InputPosition;

/// Version of these messages. Both sides must have the same one.
pub const REMOTE_PROTOCOL: u32 = 2;

/// Maximum length of a line, in bytes. A specification contains the command's text, of which
/// execve(2) accepts at most 2 MiB.
pub const MAX_REMOTE_LINE_BYTES: usize = 4 << 20;

/// The part of a remote task that its mirror has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemotePosition {
    /// Number of the copied records, without the first record of the journal.
    pub records: u64,
    /// Number of the copied bytes of the output, including released ones.
    pub bytes: u64,
    /// Number of attempts of the job before the one to which both belong; 0 without a cluster.
    #[serde(default)]
    pub attempt: u32,
}

/// The request to run a task as a job in a Slurm cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobRequest {
    /// The options of the job.
    pub options: SlurmOptions,
    /// Path of siding on the nodes; `None` if it is copied to the directory that the nodes share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

/// A request of a client, for the task's shim on the remote machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedRequest {
    /// Number of the request, which the messages in response name.
    pub number: u64,
    /// Number of the client. The requests of one client [about its use of the
    /// terminal](ShimRequest::uses_terminal_lease) share a connection to the shim, because the lease
    /// of the terminal ends with the connection. `None` for a request of the mirror itself, and from
    /// an older mirror.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<u64>,
    /// The request.
    pub request: ShimRequest,
}

/// A message to the remote machine. The first one is [`Self::Start`] or [`Self::Follow`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum RemoteRequest {
    /// Start this task unless it exists, and follow it. The id of the task makes the request safe
    /// to repeat.
    Start {
        /// [`REMOTE_PROTOCOL`] of the sender.
        protocol: u32,
        /// The specification for the remote machine.
        spec: Box<TaskSpec>,
        /// Variables of the command, in addition to those of the remote login.
        env: Vec<(String, String)>,
        /// The part that the mirror already has.
        position: RemotePosition,
        /// The job that runs the task; `None` if the remote machine itself runs it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<Box<JobRequest>>,
    },
    /// Follow this task, which was accepted before.
    Follow {
        /// [`REMOTE_PROTOCOL`] of the sender.
        protocol: u32,
        /// The id of the task.
        task_id: TaskId,
        /// The part that the mirror already has.
        position: RemotePosition,
        /// The job that runs the task; `None` if the remote machine itself runs it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<Box<JobRequest>>,
    },
    /// Pass a request to the task's shim.
    Forward(ForwardedRequest),
    /// Write a part of the standard input, whose bytes follow this line.
    Input {
        /// Offset of the first byte.
        at: u64,
        /// Number of bytes.
        bytes: usize,
    },
    /// Close the standard input after all bytes before this offset.
    InputEnd {
        /// Number of bytes before the end.
        at: u64,
    },
}

impl RemoteRequest {
    /// Returns the version of the sender, which the first request names.
    #[must_use]
    pub const fn protocol(&self) -> Option<u32> {
        match self {
            Self::Start { protocol, .. } | Self::Follow { protocol, .. } => Some(*protocol),
            Self::Forward(_) | Self::Input { .. } | Self::InputEnd { .. } => None,
        }
    }
}

impl RemoteRequest {
    /// Returns the content of [`Self::Forward`].
    #[must_use]
    pub fn into_forwarded(self) -> Option<ForwardedRequest> {
        match self {
            Self::Forward(forwarded) => Some(forwarded),
            Self::Start { .. }
            | Self::Follow { .. }
            | Self::Input { .. }
            | Self::InputEnd { .. } => None,
        }
    }
}

/// A message of the remote machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum RemoteMessage {
    /// The remote machine has no siding at the expected path. No other message follows.
    Missing {
        /// The processor of the remote machine, as uname(1) calls it.
        processor: String,
    },
    /// The first message of siding.
    Hello {
        /// [`REMOTE_PROTOCOL`] of the remote siding.
        protocol: u32,
        /// Version of the remote siding.
        version: String,
        /// Name of the remote machine, as it calls itself.
        machine: String,
        /// The remote monotonic clock now.
        now: MonotonicMs,
        /// The remote wall clock now.
        wall: UnixMs,
    },
    /// The task waits in the queue of the cluster. The message is repeated when the status changes.
    Queued {
        /// The status of the job.
        status: JobStatus,
    },
    /// A node of the cluster runs the task, whose [`Self::Accepted`] follows. The name and the
    /// clocks of the node replace those of the first message.
    Node {
        /// Name of the node, as it calls itself.
        machine: String,
        /// The monotonic clock of the node now.
        now: MonotonicMs,
        /// The wall clock of the node now.
        wall: UnixMs,
    },
    /// The cluster has started the job again after an interruption. The records and the output of
    /// the new attempt follow from their beginning.
    Requeued {
        /// Number of earlier attempts; at least 1.
        attempt: u32,
        /// The reason, for a person.
        why: String,
    },
    /// The job has ended, and the records of the task do not decide its outcome. No other message
    /// follows except [`Self::End`].
    JobEnded {
        /// The end, as the cluster reports it.
        end: JobEnd,
    },
    /// The task is recorded. The records after the first and the output follow from the position
    /// that the request named.
    Accepted {
        /// Start of the task on the remote monotonic clock.
        at: MonotonicMs,
        /// Start of the task on the remote wall clock.
        wall: UnixMs,
    },
    /// A record of the journal.
    Record {
        /// The record, with the times of the remote clocks.
        record: Box<Record>,
    },
    /// A part of the output, whose bytes follow this line. Bytes before `at` that were not sent
    /// have been released.
    Output {
        /// Offset of the first byte.
        at: u64,
        /// Number of bytes.
        bytes: usize,
    },
    /// A message of the task's shim, in response to a forwarded request.
    Shim {
        /// Number of the request.
        number: u64,
        /// The message.
        message: ShimMessage,
    },
    /// The part of the standard input that was written to the FIFO of the task: once after
    /// [`Self::Accepted`], and whenever it has changed. Sent only if the input is a pipe.
    InputPosition(InputPosition),
    /// The remote machine has no such task.
    Unknown,
    /// The task was not started, and the remote machine has recorded nothing.
    Refused {
        /// The reason, for a person.
        why: String,
    },
    /// All records and all output of the ended task were sent.
    End,
}
