//! Splits the bytes from the remote machine into messages.

use super::protocol::{MAX_REMOTE_LINE_BYTES, RemoteMessage};
use crate::text::one_line;

/// Maximum number of bytes that the startup files of the remote shell may print before the first
/// message.
const MAX_PREAMBLE_BYTES: usize = 64 << 10;
/// Maximum width of a line in an error, in columns.
const SHOWN_COLUMNS: usize = 80;

/// A message with the bytes that follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceivedMessage {
    /// Any message except for output.
    Message(RemoteMessage),
    /// A part of the output of the task.
    Output {
        /// Offset of the first byte.
        at: u64,
        /// The bytes; never empty.
        bytes: Vec<u8>,
    },
}

/// The remote machine sent a line that is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the remote machine sent a line that is not a message of siding: `{line}`")]
pub struct UnreadableMessage {
    /// The beginning of the line, escaped.
    line: String,
}

impl UnreadableMessage {
    fn new(line: &[u8]) -> Self {
        Self { line: one_line(&String::from_utf8_lossy(line), SHOWN_COLUMNS) }
    }
}

/// The bytes that were received and not yet returned as messages.
#[derive(Debug, Default)]
pub struct MessageDecoder {
    buffer: Vec<u8>,
    /// Offset and number of the output bytes that follow next.
    output: Option<(u64, usize)>,
    /// Whether the first message was received.
    has_begun: bool,
    /// Number of bytes before the first message.
    preamble_bytes: usize,
}

impl MessageDecoder {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next message; `None` until more bytes are received. Text before the first
    /// message is skipped, because the startup files of the remote shell may print some.
    ///
    /// # Errors
    ///
    /// [`UnreadableMessage`].
    pub fn next_message(&mut self) -> Result<Option<ReceivedMessage>, UnreadableMessage> {
        loop {
            if let Some((at, left)) = self.output {
                return Ok(self.take_output(at, left));
            }
            let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') else {
                if self.buffer.len() > self.max_line_bytes() {
                    return Err(UnreadableMessage::new(&self.buffer));
                }
                return Ok(None);
            };
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            match serde_json::from_slice(&line[..end]) {
                Ok(RemoteMessage::Output { at, bytes }) if bytes > 0 => {
                    self.output = Some((at, bytes));
                }
                Ok(message) => {
                    self.has_begun = true;
                    return Ok(Some(ReceivedMessage::Message(message)));
                }
                Err(_) if !self.has_begun && self.preamble_bytes < MAX_PREAMBLE_BYTES => {
                    self.preamble_bytes += line.len();
                }
                Err(_) => return Err(UnreadableMessage::new(&line[..end])),
            }
        }
    }

    const fn max_line_bytes(&self) -> usize {
        if self.has_begun { MAX_REMOTE_LINE_BYTES } else { MAX_PREAMBLE_BYTES }
    }

    /// Returns the output bytes that have arrived, so that a large part need not be collected.
    fn take_output(&mut self, at: u64, left: usize) -> Option<ReceivedMessage> {
        let count = left.min(self.buffer.len());
        if count == 0 {
            return None;
        }
        let bytes: Vec<u8> = self.buffer.drain(..count).collect();
        self.output = (left > count).then(|| (at + count as u64, left - count));
        Some(ReceivedMessage::Output { at, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Vec<u8> {
        let mut line = serde_json::to_vec(&RemoteMessage::Unknown).expect("a message is JSON");
        line.push(b'\n');
        line
    }

    fn output(at: u64, bytes: &[u8]) -> Vec<u8> {
        let message = RemoteMessage::Output { at, bytes: bytes.len() };
        let line = serde_json::to_vec(&message).expect("a message is JSON");
        [&line[..], b"\n", bytes].concat()
    }

    /// Feeds the bytes in pieces of this length, and joins consecutive output.
    fn decode(
        bytes: &[u8],
        piece: usize,
    ) -> Result<(Vec<RemoteMessage>, Vec<u8>), UnreadableMessage> {
        let mut decoder = MessageDecoder::default();
        let (mut messages, mut output) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            decoder.push(piece);
            while let Some(received) = decoder.next_message()? {
                match received {
                    ReceivedMessage::Message(message) => messages.push(message),
                    ReceivedMessage::Output { at, bytes } => {
                        assert_eq!(at, output.len() as u64);
                        output.extend(bytes);
                    }
                }
            }
        }
        Ok((messages, output))
    }

    #[test]
    fn messages_and_output_are_independent_of_the_pieces() {
        let text = b"line\n{\"say\":\"unknown\"}\nmore";
        let stream = [hello(), output(0, &text[..5]), output(5, &text[5..]), hello()].concat();
        for piece in 1..stream.len() {
            let decoded = decode(&stream, piece).expect("valid");
            assert_eq!(decoded, (vec![RemoteMessage::Unknown; 2], text.to_vec()), "{piece}");
        }
    }

    #[test]
    fn text_before_the_first_message_is_skipped() {
        let stream = [b"Welcome!\n{}\n".to_vec(), hello()].concat();
        assert_eq!(decode(&stream, 3).expect("valid").0, [RemoteMessage::Unknown]);
        let error = decode(&[hello(), b"Welcome!\x1b\n".to_vec()].concat(), 3).expect_err("late");
        assert!(error.to_string().contains("`Welcome!"), "{error}");
        assert!(!error.to_string().contains('\x1b'), "{error:?}");
        assert!(decode(&vec![b'x'; MAX_PREAMBLE_BYTES + 2], 4096).is_err(), "no end");
        assert!(decode(&b"x\n".repeat(MAX_PREAMBLE_BYTES), 4096).is_err(), "too much");
    }
}
