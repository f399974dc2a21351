//! The terminal of a task from a client's side: typed input, the size, and the state that only the
//! kernel knows.

use std::ffi::CStr;
use std::time::Duration;

use siding_model::advice::{
    Dialect, keys_refusal_reason, keys_refusal_text, partly_typed_text, unconfirmed_keys_text,
    unconfirmed_secret_text,
};
use siding_model::id::TaskId;
use siding_model::protocol::{MAX_TERMINAL_WRITE_BYTES, ShimMessage, ShimRequest};
use siding_model::size::size_in_words;
use siding_model::terminal::{KeysRefusal, TerminalFacts, TerminalUser};

use crate::store::{StateDir, TaskDir};
use crate::sys::clock;
use crate::task::shim_client::{ShimConnection, ShimRequestError};
use crate::task::watch::{TaskWatch, WatchError};

/// Timeout for the shim's reply, in milliseconds.
const REPLY_TIMEOUT_MS: u64 = 10_000;
/// Time for which a program may leave its input unread, in milliseconds.
const UNREAD_MS: u64 = 10_000;
/// Pause before another attempt to write to a terminal that has accepted no byte.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Timeout for the shim's reply to [`request_facts`], in milliseconds. The timeout is short,
/// because callers do not depend on the reply.
const FACTS_TIMEOUT_MS: u64 = 1_000;
/// Maximum length of a secret, in bytes. The kernel delivers lines of at most 4,095 bytes
/// (termios(3)), and the shim accepts at most [`MAX_TERMINAL_WRITE_BYTES`] in one request.
pub const MAX_SECRET_BYTES: usize = MAX_TERMINAL_WRITE_BYTES - 1;

/// The reason why a secret would not reach a program unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The secret has more than [`MAX_SECRET_BYTES`] bytes.
    #[error("the secret has more than {} bytes; nothing was typed", MAX_SECRET_BYTES)]
    TooLong,
    /// The secret contains a control character. One such as Ctrl-R would show the part of the
    /// secret before it.
    #[error("the secret contains a control character; nothing was typed")]
    ControlCharacter,
}

/// Returns the bytes that type a secret: the secret and a line end. An empty secret is allowed.
///
/// # Errors
///
/// [`SecretError`].
pub fn encode_secret(secret: &[u8]) -> Result<Vec<u8>, SecretError> {
    if secret.len() > MAX_SECRET_BYTES {
        return Err(SecretError::TooLong);
    }
    if secret.iter().any(u8::is_ascii_control) {
        return Err(SecretError::ControlCharacter);
    }
    Ok([secret, b"\n"].concat())
}

/// Returns the state of a terminal, and changes nothing: a task whose shim was killed is not
/// recovered.
///
/// # Errors
///
/// [`ShimRequestError::Disconnected`] if there is no shim: the task has ended or needs recovery.
pub fn request_facts(dir: &TaskDir) -> Result<TerminalFacts, ShimRequestError> {
    let link = ShimConnection::connect_within(dir, FACTS_TIMEOUT_MS)?;
    let mut facts = None;
    link.ok_or(ShimRequestError::Disconnected)?.request(
        &ShimRequest::Terminal,
        FACTS_TIMEOUT_MS,
        |message| {
            if let ShimMessage::Terminal { facts: reported } = message {
                facts = Some(reported);
            }
        },
    )?;
    facts.ok_or(ShimRequestError::Disconnected)
}

/// The reason why a terminal could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// The task has ended.
    #[error(
        "task {id} has ended, and its terminal is closed; `siding screen {id}` shows the last screen"
    )]
    Ended {
        /// The id of the task.
        id: TaskId,
    },
    /// The terminal does not accept the keys at present.
    #[error("{}", keys_refusal_text(refusal, *id, Dialect::Commands))]
    Refused {
        /// The id of the task.
        id: TaskId,
        /// The reason.
        refusal: KeysRefusal,
    },
    /// The first part of the input was typed, and the rest was not, or may not have been.
    #[error("{}", partly_typed_text(*characters, &cause.format_reason(Dialect::Commands)))]
    PartlyTyped {
        /// Number of the typed characters.
        characters: usize,
        /// The reason why the rest was not typed.
        cause: Box<Self>,
    },
    /// It is unknown whether the keys were typed, because the answer of the shim is lost.
    #[error("{}", unconfirmed_keys_text(why, *id, Dialect::Commands))]
    Unconfirmed {
        /// The id of the task.
        id: TaskId,
        /// The reason, as untrusted text.
        why: String,
    },
    /// It is unknown whether the secret was typed, because the answer of the shim is lost.
    #[error("{}", unconfirmed_secret_text(why, *id, Dialect::Commands))]
    SecretUnconfirmed {
        /// The id of the task.
        id: TaskId,
        /// The reason, as untrusted text.
        why: String,
    },
    /// The output does not have the length that the caller requires, so nothing was typed.
    #[error("the output of task {id} has changed")]
    OutputDiffers {
        /// The id of the task.
        id: TaskId,
        /// Length of the output in bytes.
        bytes: u64,
    },
    /// The program does not read its terminal.
    #[error(
        "task {id} has not read its terminal for {} s; {} of the input were not written",
        UNREAD_MS / 1000,
        size_in_words(*left_bytes as u64)
    )]
    Unread {
        /// The id of the task.
        id: TaskId,
        /// Number of bytes that were not written.
        left_bytes: usize,
    },
    /// The shim could not be reached, or refused the request.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

impl TerminalError {
    /// Returns the error of an input of which this many characters were typed before the part that
    /// caused the error.
    #[must_use]
    pub fn after_typed(self, characters: usize) -> Self {
        match self {
            Self::PartlyTyped { characters: later, cause } => {
                Self::PartlyTyped { characters: characters.saturating_add(later), cause }
            }
            // The message contains the size of the rest.
            Self::Unread { .. } => self,
            cause @ (Self::Ended { .. }
            | Self::Refused { .. }
            | Self::Unconfirmed { .. }
            | Self::SecretUnconfirmed { .. }
            | Self::OutputDiffers { .. }
            | Self::Watch(_)) => match characters {
                0 => cause,
                _ => Self::PartlyTyped { characters, cause: Box::new(cause) },
            },
        }
    }

    /// Returns the message in the terms of `dialect`.
    #[must_use]
    pub fn format(&self, dialect: Dialect) -> String {
        match self {
            Self::Refused { id, refusal } => keys_refusal_text(refusal, *id, dialect),
            Self::Ended { id } => keys_refusal_text(&KeysRefusal::Ended, *id, dialect),
            Self::PartlyTyped { characters, cause } => {
                partly_typed_text(*characters, &cause.format_reason(dialect))
            }
            Self::Unconfirmed { id, why } => unconfirmed_keys_text(why, *id, dialect),
            Self::SecretUnconfirmed { id, why } => unconfirmed_secret_text(why, *id, dialect),
            Self::OutputDiffers { .. } | Self::Unread { .. } | Self::Watch(_) => self.to_string(),
        }
    }

    /// Returns the message like [`Self::format`], without the statement that no key was sent.
    fn format_reason(&self, dialect: Dialect) -> String {
        match self {
            Self::Refused { id, refusal } => keys_refusal_reason(refusal, *id, dialect),
            Self::Ended { id } => keys_refusal_reason(&KeysRefusal::Ended, *id, dialect),
            Self::PartlyTyped { .. }
            | Self::Unconfirmed { .. }
            | Self::SecretUnconfirmed { .. }
            | Self::OutputDiffers { .. }
            | Self::Unread { .. }
            | Self::Watch(_) => self.format(dialect),
        }
    }
}

/// Returns the number of characters in typed bytes. A character belongs to the part with its first
/// byte; another byte that is not UTF-8 counts as one.
#[must_use]
pub fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// A connection to the shim of a task with a terminal. The lease of a person who has typed over the
/// connection lasts at most as long as the connection.
#[derive(Debug)]
pub struct TerminalClient<'r> {
    watch: TaskWatch<'r>,
    user: TerminalUser,
    /// Name of the writer, for the journal.
    requester: String,
    /// Whether the shim reported growth of the output during a wait for a response.
    has_grown: bool,
}

impl<'r> TerminalClient<'r> {
    /// Connects to the shim of a task, or to a new shim if the old one was killed.
    ///
    /// # Errors
    ///
    /// [`TerminalError::Ended`] and [`TerminalError::Watch`].
    pub fn open(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
        user: TerminalUser,
        requester: &str,
    ) -> Result<Self, TerminalError> {
        let watch = TaskWatch::open(root, program, id)?;
        if watch.is_finished() {
            return Err(TerminalError::Ended { id });
        }
        Ok(Self { watch, user, requester: requester.to_owned(), has_grown: false })
    }

    /// Returns the watch over the task, whose messages arrive between the requests.
    pub const fn watch(&mut self) -> &mut TaskWatch<'r> {
        &mut self.watch
    }

    /// Returns whether, since the last call, the shim reported growth of the output during a wait
    /// for a response. The shim reports no further growth until the client subscribes again.
    pub const fn take_growth(&mut self) -> bool {
        std::mem::replace(&mut self.has_grown, false)
    }

    /// Returns the state of the terminal.
    ///
    /// # Errors
    ///
    /// [`TerminalError::Ended`] and [`TerminalError::Watch`]: a task without a terminal refuses.
    pub fn facts(&mut self) -> Result<TerminalFacts, TerminalError> {
        let mut facts = None;
        self.request(&ShimRequest::Terminal, |message| {
            if let ShimMessage::Terminal { facts: reported } = message {
                facts = Some(reported);
            }
        })?;
        facts.ok_or(TerminalError::Ended { id: self.watch.id() })
    }

    /// Types `bytes`. If the program leaves its input unread, waits up to 10 s each time. With
    /// `if_output`, types only if this is still the length of the output; later parts of a long
    /// input do not depend on the output.
    ///
    /// # Errors
    ///
    /// [`TerminalError`]. After [`TerminalError::Refused`] and [`TerminalError::OutputDiffers`]
    /// nothing was typed. If at least one part was typed, the error is
    /// [`TerminalError::PartlyTyped`] or [`TerminalError::Unread`].
    pub fn write(&mut self, bytes: &[u8], if_output: Option<u64>) -> Result<(), TerminalError> {
        let (mut left, mut if_output) = (bytes, if_output);
        let mut until = clock::monotonic_now().plus_ms(UNREAD_MS);
        while !left.is_empty() {
            let part = &left[..left.len().min(MAX_TERMINAL_WRITE_BYTES)];
            let typed = &bytes[..bytes.len() - left.len()];
            let written = self.write_part(part, if_output);
            match written.map_err(|error| error.after_typed(count_characters(typed)))? {
                0 if clock::monotonic_now() >= until => {
                    let id = self.watch.id();
                    return Err(TerminalError::Unread { id, left_bytes: left.len() });
                }
                0 => std::thread::sleep(RETRY_PAUSE),
                accepted => {
                    left = &left[accepted.min(left.len())..];
                    if_output = None;
                    until = clock::monotonic_now().plus_ms(UNREAD_MS);
                }
            }
        }
        Ok(())
    }

    /// Types a secret in the form of [`encode_secret`], unless the terminal echoes typed lines at
    /// this moment.
    ///
    /// # Errors
    ///
    /// [`TerminalError`], including the case that the program no longer asks; nothing was typed
    /// then. [`TerminalError::SecretUnconfirmed`] if the secret may have been typed.
    pub fn write_secret(&mut self, secret: &[u8]) -> Result<(), TerminalError> {
        let request = ShimRequest::TerminalWrite {
            bytes: secret.to_vec(),
            user: self.user,
            by: self.requester.clone(),
            if_output: None,
            is_secret: true,
        };
        let written = self.request_write(&request).map_err(|error| match error {
            TerminalError::Unconfirmed { id, why } => TerminalError::SecretUnconfirmed { id, why },
            other @ (TerminalError::Ended { .. }
            | TerminalError::Refused { .. }
            | TerminalError::PartlyTyped { .. }
            | TerminalError::SecretUnconfirmed { .. }
            | TerminalError::OutputDiffers { .. }
            | TerminalError::Unread { .. }
            | TerminalError::Watch(_)) => other,
        });
        match written? {
            accepted if accepted == secret.len() => Ok(()),
            accepted => {
                let left_bytes = secret.len() - accepted.min(secret.len());
                Err(TerminalError::Unread { id: self.watch.id(), left_bytes })
            }
        }
    }

    fn write_part(&mut self, part: &[u8], if_output: Option<u64>) -> Result<usize, TerminalError> {
        self.request_write(&ShimRequest::TerminalWrite {
            bytes: part.to_vec(),
            user: self.user,
            by: self.requester.clone(),
            if_output,
            is_secret: false,
        })
    }

    /// Sends a request to write. Returns the number of the accepted bytes.
    fn request_write(&mut self, request: &ShimRequest) -> Result<usize, TerminalError> {
        let mut written = None;
        let result = self.request(request, |message| {
            if let ShimMessage::TerminalWritten { accepted } = message {
                written = Some(accepted);
            }
        });
        match result {
            // Only the end of the answer is lost.
            Err(TerminalError::Unconfirmed { .. }) if written.is_some() => {}
            result => result?,
        }
        Ok(written.unwrap_or(0))
    }

    fn request(
        &mut self,
        request: &ShimRequest,
        mut seen: impl FnMut(ShimMessage),
    ) -> Result<(), TerminalError> {
        let id = self.watch.id();
        let has_grown = &mut self.has_grown;
        let seen = |message| {
            *has_grown |= matches!(message, ShimMessage::Output { .. });
            seen(message);
        };
        // The keys must not be typed twice, so the request is not repeated with another shim.
        match self.watch.request_once(request, REPLY_TIMEOUT_MS, seen) {
            Ok(true) => Ok(()),
            Ok(false) => Err(TerminalError::Ended { id }),
            Err(WatchError::Ask { source: ShimRequestError::KeysRefused { refusal }, .. }) => {
                Err(TerminalError::Refused { id, refusal })
            }
            Err(WatchError::Ask { source: ShimRequestError::OutputDiffers { bytes }, .. }) => {
                Err(TerminalError::OutputDiffers { id, bytes })
            }
            Err(WatchError::Ask { source: ShimRequestError::WriteUnconfirmed { why }, .. }) => {
                Err(TerminalError::Unconfirmed { id, why })
            }
            // The shim may have typed the keys before it was killed, or may still type them.
            Err(WatchError::Ask {
                source:
                    source @ (ShimRequestError::Disconnected | ShimRequestError::TimedOut { .. }),
                ..
            }) if request.is_terminal_write() => {
                Err(TerminalError::Unconfirmed { id, why: source.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_after_a_typed_part_names_the_typed_characters() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        let refusal = KeysRefusal::PersonHasTerminal { since_ms: 12_000 };
        let refused = || TerminalError::Refused { id, refusal: refusal.clone() };
        let text = refused().after_typed(0).to_string();
        assert!(text.starts_with("no key was sent: a person"), "{text}");
        let text = refused().after_typed(1024).after_typed(7).to_string();
        assert!(text.starts_with("the first 1031 characters were typed"), "{text}");
        assert!(text.contains("a person has had the terminal"), "{text}");
        let text = TerminalError::Ended { id }.after_typed(2).format(Dialect::Tools);
        assert!(text.contains("typed; for the rest: the task has ended"), "{text}");
        let unread = TerminalError::Unread { id, left_bytes: 5 }.after_typed(9).to_string();
        assert!(unread.contains("5 bytes of the input were not written"), "{unread}");
    }

    #[test]
    fn a_character_counts_in_the_part_with_its_first_byte() {
        let text = "añ€";
        assert_eq!(count_characters(text.as_bytes()), 3);
        let (left, right) = text.as_bytes().split_at(2);
        assert_eq!((count_characters(left), count_characters(right)), (2, 1));
    }

    #[test]
    fn only_a_secret_that_arrives_unchanged_is_encoded() {
        assert_eq!(encode_secret(b"hunter2"), Ok(b"hunter2\n".to_vec()));
        assert_eq!(encode_secret(b""), Ok(b"\n".to_vec()), "an empty password");
        let longest = [b'x'; MAX_SECRET_BYTES];
        assert_eq!(encode_secret(&longest).map(|line| line.len()), Ok(MAX_TERMINAL_WRITE_BYTES));
        assert_eq!(encode_secret(&[b'x'; MAX_SECRET_BYTES + 1]), Err(SecretError::TooLong));
        for typed in [&b"a\x12b"[..], b"a\nb", b"\x7f"] {
            assert_eq!(encode_secret(typed), Err(SecretError::ControlCharacter));
        }
    }
}
