//! The protocol between clients and shims.
//!
//! One message is one packet of a `SOCK_SEQPACKET` socket and holds one JSON object. A shim
//! responds to every request after it has carried out or refused the request, with
//! [`ShimMessage::Done`] or [`ShimMessage::Refused`], and before with the requested facts, if the
//! request is for facts. These responses do not name their request:
//! they arrive in the order of the requests, except those that [`ShimRequest::is_answered_later`]
//! names. A shim pushes every journal record to the subscribers of the task after it has tried to
//! write the record; if the write fails, for example on a full disk, subscribers receive the record
//! before it is stored.

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::limits::PeakUsage;
use crate::outcome::BackgroundReason;
use crate::record::Record;
use crate::signal::Signal;

/// Largest packet, in bytes. A packet must fit into the kernel's default send buffer of 208 KiB,
/// otherwise it could not be sent.
pub const MAX_PACKET_BYTES: usize = 64 << 10;

/// The requester of a stop that a shim records when SIGTERM or SIGINT was sent to it.
pub const SHIM_SIGNAL_REQUESTER: &str = "signal to its shim";

/// A request that a client sends to a shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ShimRequest {
    /// Push every record that is written from now on.
    Subscribe {
        /// Whether to also push a message when the output grows.
        follow: bool,
        /// Offset up to which the client has shown the output. While the task is in the foreground,
        /// its writes block when too much output is not yet shown ([`crate::flow_control`]). With
        /// `None` they never block for this reason. Older builds ignore this field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown: Option<u64>,
    },
    /// Move the task to the background. The response is [`ShimMessage::Done`] even if the task was
    /// already there.
    Place {
        /// The reason to record for the move.
        why: BackgroundReason,
    },
    /// Stop the task. The response follows when the task has ended.
    Stop {
        /// Name of the requester, for the journal.
        by: String,
        /// Grace for this stop, in milliseconds; `None` selects the grace in the specification.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
        /// Signal for this stop; `None` selects the signal in the specification.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<Signal>,
    },
    /// Release an adopted task: its processes continue without supervision.
    Release {
        /// Name of the requester, for the journal.
        by: String,
    },
    /// Move the deadline.
    Extend {
        /// New deadline, in milliseconds after the start. A deadline beyond the cap is replaced by
        /// the cap.
        to_ms: u64,
        /// Milliseconds to add to the current deadline, used instead of `to_ms`. The shim adds
        /// them, so that two concurrent requests both extend the deadline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by_ms: Option<u64>,
        /// Name of the requester, for the journal; `None` from an older client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Report that a client wrote to the task's input, which may end the stall.
    InputWritten {
        /// Name of the writer, for the journal; `None` from an older client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Close the task's standard input. The task can still read what was written before.
    CloseStdin {
        /// Name of the requester, for the journal; `None` from an older client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Explain why the task is quiet. The responses, after two samples, are [`ShimMessage::Why`]
    /// and then [`ShimMessage::Done`].
    Why,
    /// Report the resource usage of the task. The responses are [`ShimMessage::Usage`] and then
    /// [`ShimMessage::Done`].
    Usage,
    /// Respond with [`ShimMessage::Done`], which proves that the shim handles requests.
    Ping,
}

impl ShimRequest {
    /// Returns whether the response may follow the responses to later requests, because the shim
    /// cannot respond immediately.
    #[must_use]
    pub const fn is_answered_later(&self) -> bool {
        match self {
            Self::Stop { .. } | Self::Why => true,
            Self::Subscribe { .. }
            | Self::Place { .. }
            | Self::Release { .. }
            | Self::Extend { .. }
            | Self::InputWritten { .. }
            | Self::CloseStdin { .. }
            | Self::Usage
            | Self::Ping => false,
        }
    }
}

/// A response to a client, or a message that a shim pushes to its subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum ShimMessage {
    /// A record was written.
    Record {
        /// Sequence number of the record.
        seq: u64,
        /// The record; `None` when it exceeds a packet and must be read from the journal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        record: Option<Box<Record>>,
    },
    /// The output has grown.
    Output {
        /// Bytes that the task has written so far.
        bytes: u64,
    },
    /// The explanation of why the task is quiet.
    Why {
        /// The verdict, with the facts from two samples.
        evidence: Box<Evidence>,
    },
    /// The resource usage of the task.
    Usage {
        /// The peaks up to now, including a sample taken for this request.
        peaks: PeakUsage,
    },
    /// The request was carried out.
    Done,
    /// The request is not possible in the current state.
    Refused {
        /// The reason, for a person.
        why: String,
    },
    /// The shim could not start, take over or adopt its task, or the host supervisor could not
    /// start. A new task has no process then; processes that ran before continue unsupervised.
    CannotStart {
        /// The operation that failed.
        doing: String,
        /// `errno`; zero for an error without one.
        errno: i32,
    },
}

impl ShimMessage {
    /// Returns whether the message says that a request was carried out or refused.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        match self {
            Self::Done | Self::Refused { .. } => true,
            Self::Record { .. }
            | Self::Output { .. }
            | Self::Why { .. }
            | Self::Usage { .. }
            | Self::CannotStart { .. } => false,
        }
    }
}
