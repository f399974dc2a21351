//! The protocol between clients and shims.
//!
//! One message is one packet of a `SOCK_SEQPACKET` socket and holds one JSON object. A shim
//! responds to every request with [`ShimMessage::Done`] once it has carried out the request, or
//! with [`ShimMessage::Refused`]. If the request asks for facts, a message with the facts precedes
//! this response. These responses do not name their request: they arrive in the order of the
//! requests, except those that [`ShimRequest::is_answered_later`] names. A shim pushes every
//! journal record to the subscribers of the task after it has tried to write the record; if the
//! write fails, for example on a full disk, subscribers receive the record before it is stored.

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::lifecycle::JobLimitAnswer;
use crate::limits::PeakUsage;
use crate::outcome::BackgroundReason;
use crate::record::Record;
use crate::signal::Signal;
use crate::terminal::{KeysRefusal, TerminalFacts, TerminalSize, TerminalUser};

/// Largest packet, in bytes. A packet must fit into the kernel's default send buffer of 208 KiB,
/// otherwise it could not be sent.
pub const MAX_PACKET_BYTES: usize = 64 << 10;

/// Maximum number of bytes of one [`ShimRequest::TerminalWrite`]. Written as JSON, twice as many
/// characters must fit into a request.
pub const MAX_TERMINAL_WRITE_BYTES: usize = 1024;

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
        /// The answer of the cluster about the time limit of the task's job. Only the siding on the
        /// submitting machine sets it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job_limit: Option<JobLimitAnswer>,
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
    /// Write to the task's terminal as a keyboard would. The responses are
    /// [`ShimMessage::TerminalWritten`] and then [`ShimMessage::Done`], or
    /// [`ShimMessage::KeysRefused`] or [`ShimMessage::OutputDiffers`], after which nothing was
    /// written. For a shim on another machine, the response can also be
    /// [`ShimMessage::WriteUnconfirmed`].
    TerminalWrite {
        /// The bytes, at most [`MAX_TERMINAL_WRITE_BYTES`].
        #[serde(with = "hex_bytes")]
        bytes: Vec<u8>,
        /// The writer's relation to the lease of the terminal.
        user: TerminalUser,
        /// Name of the writer, for the journal.
        by: String,
        /// Refuses the bytes unless this is still the length of the output in bytes, so that they
        /// cannot answer a screen that the writer has not seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        if_output: Option<u64>,
        /// Refuses the bytes unless the terminal hides typed lines at this moment, because they are a
        /// secret.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_secret: bool,
    },
    /// Change the size of the task's terminal. A refusal is [`ShimMessage::ResizeRefused`], so that
    /// it is not taken for the refusal of keys that were typed at the same time.
    TerminalResize {
        /// The new size.
        size: TerminalSize,
    },
    /// Take the terminal for this client's person before the first key, also from other persons who
    /// have typed. The others may type again, and then share the terminal; an agent is refused.
    /// Only a person's client sends this.
    TerminalTake {
        /// Name of the person's program, for the journal.
        by: String,
        /// Whether the person waits for the command in the foreground of this client. The lease then
        /// lasts until the client disconnects, however long the person does not type, and does not
        /// affect other persons. Older builds ignore this field.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_foreground: bool,
    },
    /// Give back the terminal that this client's person has taken. The end of the connection has
    /// the same effect.
    TerminalReturn,
    /// Report the state of the task's terminal. The responses are [`ShimMessage::Terminal`] and then
    /// [`ShimMessage::Done`].
    Terminal,
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
    /// Returns whether a person uses the terminal with this request, so that it belongs to the
    /// connection that has or takes the lease of the terminal.
    #[must_use]
    pub const fn uses_terminal_lease(&self) -> bool {
        match self {
            Self::TerminalWrite { user: TerminalUser::Person, .. }
            | Self::TerminalResize { .. }
            | Self::TerminalTake { .. }
            | Self::TerminalReturn => true,
            Self::TerminalWrite { user: TerminalUser::Agent, .. }
            | Self::Subscribe { .. }
            | Self::Place { .. }
            | Self::Stop { .. }
            | Self::Release { .. }
            | Self::Extend { .. }
            | Self::InputWritten { .. }
            | Self::CloseStdin { .. }
            | Self::Terminal
            | Self::Why
            | Self::Usage
            | Self::Ping => false,
        }
    }

    /// Returns whether the request writes to the terminal, so that a repetition would type the keys
    /// twice.
    #[must_use]
    pub const fn is_terminal_write(&self) -> bool {
        matches!(self, Self::TerminalWrite { .. })
    }

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
            | Self::TerminalWrite { .. }
            | Self::TerminalResize { .. }
            | Self::TerminalTake { .. }
            | Self::TerminalReturn
            | Self::Terminal
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
    /// The state of the task's terminal.
    Terminal {
        /// The facts at this moment.
        facts: TerminalFacts,
    },
    /// The terminal has accepted bytes of a client.
    TerminalWritten {
        /// Number of the accepted bytes, counted from the first. The remaining bytes were not
        /// written, because the program does not read its terminal.
        accepted: usize,
    },
    /// The terminal has accepted no byte of the client.
    KeysRefused {
        /// The reason.
        refusal: KeysRefusal,
    },
    /// The output has another length than the writer to the terminal requires.
    OutputDiffers {
        /// Length of the output in bytes.
        bytes: u64,
    },
    /// It is unknown whether the terminal has accepted the bytes of the client: the request was
    /// sent, and its response is lost.
    WriteUnconfirmed {
        /// The reason, for a person.
        why: String,
    },
    /// The size of the terminal was not changed.
    ResizeRefused {
        /// The reason, for a person.
        why: String,
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
    /// Returns the response to a request that was sent to the shim, and whose own response is lost.
    /// A request other than a write may be repeated; typed keys would arrive twice.
    #[must_use]
    pub fn from_lost_response(is_terminal_write: bool, why: &str) -> Self {
        if is_terminal_write {
            Self::WriteUnconfirmed { why: why.to_owned() }
        } else {
            Self::Refused { why: format!("{why}; try again") }
        }
    }

    /// Returns whether the message responds to a request: the request was carried out or refused,
    /// or its outcome is unknown.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        match self {
            Self::Done
            | Self::Refused { .. }
            | Self::KeysRefused { .. }
            | Self::OutputDiffers { .. }
            | Self::WriteUnconfirmed { .. }
            | Self::ResizeRefused { .. } => true,
            Self::Record { .. }
            | Self::Output { .. }
            | Self::Why { .. }
            | Self::Usage { .. }
            | Self::Terminal { .. }
            | Self::TerminalWritten { .. }
            | Self::CannotStart { .. } => false,
        }
    }
}

/// Bytes as hexadecimal digits: JSON has no type for bytes that are not text.
mod hex_bytes {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
        let text: String =
            bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|digit| digit.to_digit(16).and_then(|value| value.try_into().ok()))
            .collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0);
        let digits = digits.ok_or_else(|| de::Error::custom("not pairs of hexadecimal digits"))?;
        Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_a_terminal_survive_json() {
        let request = ShimRequest::TerminalWrite {
            bytes: (0..=255).collect(),
            user: TerminalUser::Agent,
            by: "agent".to_owned(),
            if_output: Some(7),
            is_secret: true,
        };
        let json = serde_json::to_string(&request).expect("serializes");
        assert_eq!(serde_json::from_str::<ShimRequest>(&json).expect("is a request"), request);
        let broken = json.replace("0001", "000");
        assert!(serde_json::from_str::<ShimRequest>(&broken).is_err());
    }

    #[test]
    fn only_a_request_that_types_no_keys_is_repeated_after_a_lost_response() {
        let why = "the connection broke";
        let lost = |is_write| ShimMessage::from_lost_response(is_write, why);
        assert_eq!(lost(true), ShimMessage::WriteUnconfirmed { why: why.to_owned() });
        let refused = ShimMessage::Refused { why: "the connection broke; try again".to_owned() };
        assert_eq!(lost(false), refused);
        assert!(lost(true).is_response() && lost(false).is_response());
    }

    #[test]
    fn the_longest_write_fits_into_a_request() {
        let bytes = vec![255; MAX_TERMINAL_WRITE_BYTES];
        let (user, by, if_output) = (TerminalUser::Agent, "x".repeat(256), Some(u64::MAX));
        let is_secret = true;
        let request = ShimRequest::TerminalWrite { bytes, user, by, if_output, is_secret };
        assert!(serde_json::to_vec(&request).expect("serializes").len() < 4096);
    }
}
