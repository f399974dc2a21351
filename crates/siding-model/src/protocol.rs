//! What a client and a shim say to each other.
//!
//! One message is one packet of a `SOCK_SEQPACKET` socket and holds one JSON object. A shim
//! answers every request once it was carried out, and pushes every journal record to those who
//! subscribed, after it was written.

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::limits::PeakUsage;
use crate::outcome::BackgroundReason;
use crate::record::Record;
use crate::signal::Signal;

/// Largest packet, in bytes. Well under the kernel's default send buffer of 208 KiB.
pub const MAX_PACKET_BYTES: usize = 64 << 10;

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ShimRequest {
    /// Push every record from now on; with `follow` also say when output has grown.
    Subscribe {
        /// Whether output growth is told.
        follow: bool,
    },
    /// Move the task to the background. Answered with where it is placed, whoever was first.
    Place {
        /// Why.
        why: BackgroundReason,
    },
    /// End the task. Answered when it has ended.
    Stop {
        /// Who asks.
        by: String,
        /// Grace to use instead of the task's own, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
        /// Signal to use instead of the task's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<Signal>,
    },
    /// Give an adopted task back: its processes go on, and nothing keeps them.
    Release {
        /// Who asks.
        by: String,
    },
    /// Set the deadline to this many milliseconds after the start.
    Extend {
        /// Milliseconds after the start; what lies beyond the cap is cut.
        to_ms: u64,
        /// How much later than now set, in place of that: of two who ask at once neither is lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by_ms: Option<u64>,
    },
    /// Know that the task was given input: what it waited for may be over.
    InputWritten,
    /// Close the task's standard input. What was written before is read first.
    CloseStdin,
    /// Say why the task is quiet. Answered with [`Message::Why`], once it was looked at twice.
    Why,
    /// Say how much the task has used. Answered with [`ShimMessage::Usage`].
    Usage,
    /// Answer.
    Ping,
}

/// What a shim says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum ShimMessage {
    /// A record was written.
    Record {
        /// Its number.
        seq: u64,
        /// The record, whole; `None` when it is longer than a packet, then read the journal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        record: Option<Box<Record>>,
    },
    /// Output has grown to this many bytes.
    Output {
        /// Bytes the task has written so far.
        bytes: u64,
    },
    /// Why the task is quiet.
    Why {
        /// What was found.
        evidence: Box<Evidence>,
    },
    /// How much the task has used.
    Usage {
        /// The most that was seen, this moment included.
        peaks: PeakUsage,
    },
    /// The request was carried out.
    Done,
    /// The request makes no sense now.
    Refused {
        /// Why, for a person.
        why: String,
    },
    /// The shim could not begin; nothing was recorded and nothing runs.
    CannotStart {
        /// What it did when it failed.
        doing: String,
        /// `errno`, zero when there is none.
        errno: i32,
    },
}
