//! The standard input of a remote task: the decisions of both sides about its bytes, without
//! effects.
//!
//! ```text
//!  caller ──read──► InputSender ──Input, InputEnd──► InputReceiver ──write──► FIFO of the task
//!                        ▲                                 │
//!                        └────────── InputPosition ────────┘
//! ```
//!
//! The remote machine stores the number of bytes that it has written to the FIFO. The mirror keeps
//! each byte until that number includes it, and sends the kept bytes again over a new connection.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Maximum number of bytes that each side keeps until they are written to the FIFO.
pub const INPUT_WINDOW_BYTES: usize = 256 << 10;
/// Maximum number of bytes that one message carries.
pub const MAX_INPUT_MESSAGE_BYTES: usize = 64 << 10;

/// Maximum number of messages whose bytes are not accepted yet. Without this limit, many short
/// messages would fill the pipe to ssh with their lines.
const MAX_UNACCEPTED_MESSAGES: usize = 32;

/// The part of the input that the remote machine has written to the FIFO of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPosition {
    /// Number of written bytes.
    pub bytes: u64,
    /// Whether more bytes can be written.
    pub state: RemoteInputState,
}

/// The state of the input of a remote task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteInputState {
    /// More bytes can be written.
    Open,
    /// The remote side was killed during a write, so that the number of written bytes is a lower
    /// bound; or the remote shim, which kept the input open, was killed, so that the command reads
    /// an end of file after these bytes. The input can only be closed.
    Uncertain,
    /// The input is closed, or no process reads it.
    Closed,
}

/// The next step of the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputAction {
    /// Record that the rest of the input is lost.
    RecordLoss {
        /// Minimum number of bytes that were written to the FIFO.
        arrived_bytes: u64,
    },
    /// Send bytes of the input.
    Send {
        /// Offset of the first byte.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Send the end of the input.
    SendEnd {
        /// Number of bytes before the end.
        at: u64,
    },
}

/// The source of the input, as the mirror knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceState {
    /// More bytes may follow.
    Open,
    /// All bytes were read.
    Ended,
    /// The rest cannot be read or continued.
    Lost { is_recorded: bool },
}

/// The bytes in transit over the current connection.
#[derive(Debug)]
struct SentInput {
    /// Maximum number of bytes in transit.
    max_bytes: usize,
    /// Offset after the last sent byte.
    to: u64,
    /// The end of each message that is not accepted as a whole.
    message_ends: VecDeque<u64>,
    is_end_sent: bool,
}

/// The mirror's side: keeps the bytes that are not accepted, and decides which ones to send.
#[derive(Debug)]
pub struct InputSender {
    /// Number of bytes that the remote machine has written to the FIFO.
    accepted: u64,
    /// The bytes after the accepted ones.
    unaccepted: VecDeque<u8>,
    source: SourceState,
    /// `None` until the remote machine has reported its position over the current connection.
    sent: Option<SentInput>,
    is_closed: bool,
}

impl Default for InputSender {
    fn default() -> Self {
        Self::with_source(SourceState::Open)
    }
}

impl InputSender {
    /// Creates the sender of a mirror that took over: the source was a descriptor of the killed
    /// mirror. `is_recorded` tells whether the loss is recorded.
    #[must_use]
    pub fn without_source(is_recorded: bool) -> Self {
        Self::with_source(SourceState::Lost { is_recorded })
    }

    const fn with_source(source: SourceState) -> Self {
        let unaccepted = VecDeque::new();
        Self { accepted: 0, unaccepted, source, sent: None, is_closed: false }
    }

    /// Returns how many bytes may be read from the source now. Nothing is read without a
    /// connection.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        if self.is_closed || self.sent.is_none() || self.source != SourceState::Open {
            return 0;
        }
        INPUT_WINDOW_BYTES.saturating_sub(self.unaccepted.len())
    }

    /// Returns whether the remote task reads nothing more, so that the source can be closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Adds bytes that were read from the source; none at its end.
    pub fn on_read(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            self.source = SourceState::Ended;
        }
        self.unaccepted.extend(bytes);
    }

    /// Handles the loss of the rest of the source, which cannot be read.
    pub fn on_source_lost(&mut self) {
        self.source = SourceState::Lost { is_recorded: false };
    }

    /// Handles the position of the remote machine. `max_sent_bytes` is the maximum number of bytes
    /// in transit over this connection.
    pub fn on_position(&mut self, position: InputPosition, max_sent_bytes: usize) {
        if position.state == RemoteInputState::Closed {
            self.is_closed = true;
            self.unaccepted.clear();
            return;
        }
        let accepted = position.bytes.checked_sub(self.accepted);
        let accepted = accepted.and_then(|count| usize::try_from(count).ok());
        match accepted.filter(|count| *count <= self.unaccepted.len()) {
            Some(count) if position.state == RemoteInputState::Open => {
                self.unaccepted.drain(..count);
            }
            // The position is uncertain, or follows bytes that this sender does not have, so it
            // cannot continue.
            Some(_) | None => {
                if !matches!(self.source, SourceState::Lost { .. }) {
                    self.on_source_lost();
                }
                self.unaccepted.clear();
                self.sent = None;
            }
        }
        self.accepted = position.bytes;
        let sent = self.sent.get_or_insert_with(|| SentInput {
            max_bytes: max_sent_bytes.max(1),
            to: position.bytes,
            message_ends: VecDeque::new(),
            is_end_sent: false,
        });
        sent.message_ends.retain(|end| *end > position.bytes);
    }

    /// Handles the end of the connection.
    pub fn on_disconnected(&mut self) {
        self.sent = None;
    }

    /// Returns the next action; `None` until something changes.
    pub fn next_action(&mut self) -> Option<InputAction> {
        let sent = self.sent.as_mut().filter(|_| !self.is_closed)?;
        if let SourceState::Lost { is_recorded } = &mut self.source
            && !*is_recorded
        {
            *is_recorded = true;
            return Some(InputAction::RecordLoss { arrived_bytes: self.accepted });
        }
        let from = usize::try_from(sent.to.saturating_sub(self.accepted)).unwrap_or(usize::MAX);
        let unsent = self.unaccepted.len().saturating_sub(from);
        if unsent == 0 {
            if self.source == SourceState::Open || sent.is_end_sent {
                return None;
            }
            sent.is_end_sent = true;
            return Some(InputAction::SendEnd { at: sent.to });
        }
        let allowed = sent.max_bytes.saturating_sub(from).min(MAX_INPUT_MESSAGE_BYTES);
        if allowed == 0 || sent.message_ends.len() >= MAX_UNACCEPTED_MESSAGES {
            return None;
        }
        let bytes: Vec<u8> =
            self.unaccepted.range(from..from + unsent.min(allowed)).copied().collect();
        let at = sent.to;
        sent.to += bytes.len() as u64;
        sent.message_ends.push_back(sent.to);
        Some(InputAction::Send { at, bytes })
    }
}

/// A message about the input does not follow the ones before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the input at offset {at} does not follow the {received} bytes before it")]
pub struct MisplacedInput {
    at: u64,
    received: u64,
}

/// The remote side: keeps the bytes that do not fit into the FIFO yet.
#[derive(Debug)]
pub struct InputReceiver {
    position: InputPosition,
    /// The bytes after the position.
    pending: Vec<u8>,
    /// Whether no bytes follow the pending ones.
    has_end: bool,
}

impl InputReceiver {
    /// Creates the receiver of a connection that continues at the stored position.
    #[must_use]
    pub const fn new(position: InputPosition) -> Self {
        Self { position, pending: Vec::new(), has_end: false }
    }

    /// Returns the position to report.
    #[must_use]
    pub const fn position(&self) -> InputPosition {
        self.position
    }

    /// Returns the bytes to write next.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Returns whether the input must be closed now.
    #[must_use]
    pub fn must_close(&self) -> bool {
        self.has_end && self.pending.is_empty() && self.is_unclosed()
    }

    fn is_unclosed(&self) -> bool {
        self.position.state != RemoteInputState::Closed
    }

    fn is_open(&self) -> bool {
        self.position.state == RemoteInputState::Open
    }

    /// Handles input bytes that the mirror has sent. Bytes that cannot be written, because the input
    /// is closed or was cut, are dropped: the mirror may have sent them before it learned this.
    ///
    /// # Errors
    ///
    /// [`MisplacedInput`], also for more bytes than the window allows.
    pub fn on_bytes(&mut self, at: u64, bytes: &[u8]) -> Result<(), MisplacedInput> {
        if !self.is_open() {
            return Ok(());
        }
        let fits = self.pending.len() + bytes.len() <= INPUT_WINDOW_BYTES;
        if !fits || self.has_end || at != self.received() {
            return Err(MisplacedInput { at, received: self.received() });
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Handles the end of the input after `at` bytes.
    ///
    /// # Errors
    ///
    /// [`MisplacedInput`].
    pub fn on_end(&mut self, at: u64) -> Result<(), MisplacedInput> {
        if self.is_open() && at != self.received() {
            return Err(MisplacedInput { at, received: self.received() });
        }
        self.has_end = true;
        Ok(())
    }

    fn received(&self) -> u64 {
        self.position.bytes + self.pending.len() as u64
    }

    /// Handles the write of the first `count` pending bytes.
    pub fn on_written(&mut self, count: usize) {
        self.position.bytes += self.pending.drain(..count).len() as u64;
    }

    /// Returns whether the input would be incomplete if it ended now.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.is_open() && !self.must_close()
    }

    /// Handles that the input was cut after the written bytes. The mirror has to close it.
    pub fn on_cut(&mut self) {
        self.position.state = RemoteInputState::Uncertain;
        self.pending = Vec::new();
    }

    /// Handles the end of the input: it was closed, or no process reads it.
    pub fn on_closed(&mut self) {
        self.position.state = RemoteInputState::Closed;
        self.pending = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_at(bytes: u64) -> InputPosition {
        InputPosition { bytes, state: RemoteInputState::Open }
    }

    #[test]
    fn many_small_messages_are_joined_until_earlier_ones_are_accepted() {
        let mut sender = InputSender::default();
        sender.on_position(open_at(0), 1 << 20);
        let mut sent = 0;
        for _ in 0..1_000 {
            sender.on_read(b"x");
            sent += usize::from(sender.next_action().is_some());
        }
        assert_eq!(sent, MAX_UNACCEPTED_MESSAGES);
        sender.on_position(open_at(1), 1 << 20);
        let Some(InputAction::Send { at: 32, bytes }) = sender.next_action() else {
            panic!("a message was accepted");
        };
        assert_eq!(bytes.len(), 1_000 - MAX_UNACCEPTED_MESSAGES);
    }

    #[test]
    fn a_source_is_read_only_while_the_window_has_space() {
        let mut sender = InputSender::default();
        assert_eq!(sender.free_bytes(), 0, "there is no connection");
        sender.on_position(open_at(0), 1 << 20);
        assert_eq!(sender.free_bytes(), INPUT_WINDOW_BYTES);
        sender.on_read(&vec![0; INPUT_WINDOW_BYTES]);
        assert_eq!(sender.free_bytes(), 0);
        sender.on_position(open_at(5), 1 << 20);
        assert_eq!(sender.free_bytes(), 5);
        let closed = InputPosition { bytes: 5, state: RemoteInputState::Closed };
        sender.on_position(closed, 1 << 20);
        assert_eq!((sender.free_bytes(), sender.next_action()), (0, None));
    }

    #[test]
    fn an_uncertain_position_ends_the_input_with_a_recorded_loss() {
        let mut sender = InputSender::default();
        sender.on_position(open_at(0), 1 << 20);
        sender.on_read(b"text");
        sender.on_disconnected();
        let uncertain = InputPosition { bytes: 0, state: RemoteInputState::Uncertain };
        sender.on_position(uncertain, 1 << 20);
        let loss = InputAction::RecordLoss { arrived_bytes: 0 };
        assert_eq!(sender.next_action(), Some(loss));
        assert_eq!(sender.next_action(), Some(InputAction::SendEnd { at: 0 }));
        assert_eq!((sender.next_action(), sender.free_bytes()), (None, 0));
    }

    #[test]
    fn the_loss_after_a_takeover_names_the_bytes_that_arrived() {
        let mut sender = InputSender::without_source(false);
        assert_eq!(sender.next_action(), None, "the position is not known");
        sender.on_position(open_at(292), 1 << 20);
        let loss = InputAction::RecordLoss { arrived_bytes: 292 };
        assert_eq!(sender.next_action(), Some(loss));
        assert_eq!(sender.next_action(), Some(InputAction::SendEnd { at: 292 }));
    }

    /// The mirror has sent bytes and the end before it learns of the loss.
    #[test]
    fn a_cut_input_drops_what_is_in_transit_and_is_closed_by_its_end() {
        let mut receiver = InputReceiver::new(open_at(7));
        assert_eq!(receiver.on_bytes(7, b"abc"), Ok(()));
        assert!(receiver.is_incomplete());
        receiver.on_cut();
        assert_eq!((receiver.position().bytes, receiver.pending()), (7, &b""[..]));
        assert_eq!(receiver.on_bytes(10, b"d"), Ok(()));
        assert_eq!(receiver.pending(), b"");
        assert!(!receiver.must_close() && !receiver.is_incomplete());
        assert_eq!(receiver.on_end(11), Ok(()));
        assert!(receiver.must_close());

        let mut complete = InputReceiver::new(open_at(7));
        assert_eq!(complete.on_end(7), Ok(()));
        assert!(!complete.is_incomplete(), "only the close is missing");
    }

    #[test]
    fn misplaced_input_is_rejected() {
        let mut receiver = InputReceiver::new(open_at(7));
        assert!(receiver.on_bytes(6, b"x").is_err() && receiver.on_end(8).is_err());
        assert_eq!(receiver.on_bytes(7, b"abc"), Ok(()));
        receiver.on_written(2);
        assert_eq!((receiver.position(), receiver.pending()), (open_at(9), &b"c"[..]));
        assert_eq!(receiver.on_end(10), Ok(()));
        assert!(!receiver.must_close() && receiver.on_bytes(10, b"x").is_err());
        receiver.on_written(1);
        assert!(receiver.must_close());
        receiver.on_closed();
        assert!(!receiver.must_close() && receiver.on_bytes(0, b"x").is_ok());
    }
}
