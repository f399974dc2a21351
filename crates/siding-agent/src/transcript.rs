//! The transcript of a conversation: an append-only file with one JSON entry per line.
//!
//! The file is in the directory of its session. The process that holds the transcript's lock is the
//! only writer. A writer that is killed while it writes a line may leave a torn line; the next
//! writer terminates that line and appends a line that marks it as torn. Existing bytes are thus
//! never changed. Readers ignore only marked lines and an incomplete last line.

use std::io;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use siding_core::session::TRANSCRIPT_FILE as NAME;
use siding_core::store::{StateDir, StoreError};
use siding_core::sys::{clock, file};
use siding_model::id::SessionId;
use siding_model::process::UnixMs;

use crate::conversation::Entry;

/// The version of the format that is written. Version 1 is read as well ([`upgrade_line`]).
const FORMAT_VERSION: u32 = 2;
/// Maximum size in bytes of a transcript that can be read: many times the context of any model.
const MAX_TRANSCRIPT_BYTES: u64 = 1 << 30;
/// Maximum time that a caller waits for the lock, in milliseconds. The lock of an agent that was
/// killed while it started a command is held by the forked process until that process has closed
/// its descriptors.
const LOCK_TIMEOUT_MS: u64 = 500;

/// Maximum size in bytes of the first line, which contains a path and a model's name.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Why a transcript cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The state directory is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session has no transcript, or its transcript has no complete first line.
    #[error("there is no conversation `{session}`; `siding session list` shows the sessions")]
    Missing {
        /// The session that was asked for.
        session: SessionId,
    },
    /// Another process holds the transcript's lock.
    #[error("conversation `{session}` is open in another process; end that one first")]
    Busy {
        /// The session whose transcript is locked.
        session: SessionId,
    },
    /// A line cannot be parsed, or is not allowed in its place.
    #[error("conversation `{session}`, line {line} of its {NAME}: {why}")]
    Damaged {
        /// The session whose transcript is damaged.
        session: SessionId,
        /// The line number, from 1.
        line: usize,
        /// The parser's message, or the rule that the line violates.
        why: String,
    },
    /// A system call failed.
    #[error("conversation `{session}`: could not {doing} its {NAME}: {source}")]
    Io {
        /// The session whose transcript was accessed.
        session: SessionId,
        /// The failed action as a verb, such as `read`.
        doing: &'static str,
        /// The error that the system call returned.
        source: io::Error,
    },
}

/// The directory and the model with which a conversation was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptHeader {
    /// The working directory, which a resumed conversation uses again.
    pub cwd: String,
    /// The model's name, as given by the user.
    pub model: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum TranscriptLine {
    Opened {
        transcript: u32,
        session: SessionId,
        wall: UnixMs,
        #[serde(flatten)]
        opened: TranscriptHeader,
    },
    /// Marks the preceding line as torn.
    Torn { torn: bool, wall: UnixMs },
    Entry {
        wall: UnixMs,
        #[serde(flatten)]
        entry: Entry,
    },
}

/// A transcript that this process has locked for writing.
#[derive(Debug)]
pub struct Transcript {
    session: SessionId,
    fd: OwnedFd,
    len: u64,
}

impl Transcript {
    /// Creates and locks the transcript of a session, and writes its first line.
    ///
    /// # Errors
    ///
    /// [`TranscriptError`] if the session already has a transcript or the file cannot be written.
    pub fn create(
        root: &StateDir,
        session: &SessionId,
        opened: TranscriptHeader,
    ) -> Result<Self, TranscriptError> {
        let dir = root.session_dir(session.as_str(), true)?;
        let fd = file::open_at(&dir, NAME, file::OpenMode::CreateNew)
            .map_err(|source| io_error(session, "create", source))?;
        let mut transcript = Self { session: session.clone(), fd, len: 0 };
        transcript.lock()?;
        let session = session.clone();
        transcript.write_line(&TranscriptLine::Opened {
            transcript: FORMAT_VERSION,
            session,
            wall: clock::unix_now(),
            opened,
        })?;
        Ok(transcript)
    }

    /// Opens the existing transcript of a session for appending. Also returns the header and all
    /// entries of the transcript.
    ///
    /// # Errors
    ///
    /// [`TranscriptError`] if the transcript is missing, damaged, or open in another process.
    pub fn open(
        root: &StateDir,
        session: &SessionId,
    ) -> Result<(Self, TranscriptHeader, Vec<Entry>), TranscriptError> {
        let fd = open_existing(root, session, file::OpenMode::ReadWrite)?;
        let mut transcript = Self { session: session.clone(), fd, len: 0 };
        transcript.lock()?;
        let bytes = transcript.read_bytes()?;
        transcript.len = bytes.len() as u64;
        let (opened, entries) = parse(session, &bytes)?;
        if !bytes.ends_with(b"\n") {
            // The newline and the mark are one write: a crash between two writes would leave a
            // terminated line without a mark.
            transcript.write_line_after(
                b"\n",
                &TranscriptLine::Torn { torn: true, wall: clock::unix_now() },
            )?;
        }
        Ok((transcript, opened, entries))
    }

    /// Reads the transcript of a session without locking it, so readers and the writer do not block
    /// each other. Returns the header and the complete entries of the transcript.
    ///
    /// # Errors
    ///
    /// [`TranscriptError`] if the transcript is missing, damaged or unreadable.
    pub fn read_snapshot(
        root: &StateDir,
        session: &SessionId,
    ) -> Result<(TranscriptHeader, Vec<Entry>), TranscriptError> {
        let fd = open_existing(root, session, file::OpenMode::Read)?;
        let transcript = Self { session: session.clone(), fd, len: 0 };
        parse(session, &transcript.read_bytes()?)
    }

    /// Appends an entry with the current time. The entry is not yet synced to disk.
    ///
    /// # Errors
    ///
    /// [`TranscriptError::Io`] if the entry cannot be written.
    pub fn add_entry(&mut self, entry: &Entry) -> Result<(), TranscriptError> {
        self.write_line(&TranscriptLine::Entry { wall: clock::unix_now(), entry: entry.clone() })
    }

    /// Syncs the file to disk, so that entries appended so far survive a power failure.
    ///
    /// # Errors
    ///
    /// [`TranscriptError::Io`] if the file cannot be synced.
    pub fn sync(&self) -> Result<(), TranscriptError> {
        file::sync_data(&self.fd).map_err(|source| io_error(&self.session, "sync", source))
    }

    fn lock(&self) -> Result<(), TranscriptError> {
        let is_locked = file::lock_exclusive_within(&self.fd, LOCK_TIMEOUT_MS)
            .map_err(|source| io_error(&self.session, "lock", source))?;
        if is_locked {
            Ok(())
        } else {
            Err(TranscriptError::Busy { session: self.session.clone() })
        }
    }

    fn read_bytes(&self) -> Result<Vec<u8>, TranscriptError> {
        let cannot = |source| io_error(&self.session, "read", source);
        let len = file::metadata(&self.fd).map_err(cannot)?.len;
        if len > MAX_TRANSCRIPT_BYTES {
            return Err(cannot(io::ErrorKind::FileTooLarge.into()));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let count = file::read_at(&self.fd, &mut bytes, 0).map_err(cannot)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn write_line(&mut self, line: &TranscriptLine) -> Result<(), TranscriptError> {
        self.write_line_after(b"", line)
    }

    fn write_line_after(
        &mut self,
        before: &[u8],
        line: &TranscriptLine,
    ) -> Result<(), TranscriptError> {
        let mut text = before.to_vec();
        serde_json::to_writer(&mut text, line)
            .map_err(|error| io_error(&self.session, "write", error.into()))?;
        text.push(b'\n');
        self.append(&text)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), TranscriptError> {
        file::write_all_at(&self.fd, bytes, self.len)
            .map_err(|source| io_error(&self.session, "write", source))?;
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// Returns the header of a session's transcript without locking the transcript.
///
/// # Errors
///
/// [`TranscriptError`] if the transcript is missing or its first line is damaged.
pub fn read_header(
    root: &StateDir,
    session: &SessionId,
) -> Result<TranscriptHeader, TranscriptError> {
    let fd = open_existing(root, session, file::OpenMode::Read)?;
    let mut bytes = vec![0; MAX_HEADER_BYTES];
    let count =
        file::read_at(&fd, &mut bytes, 0).map_err(|source| io_error(session, "read", source))?;
    let first = bytes[..count].split_inclusive(|&byte| byte == b'\n').next();
    Ok(parse(session, first.unwrap_or_default())?.0)
}

fn open_existing(
    root: &StateDir,
    session: &SessionId,
    how: file::OpenMode,
) -> Result<OwnedFd, TranscriptError> {
    let missing = || TranscriptError::Missing { session: session.clone() };
    let is_missing = |source: &io::Error| source.kind() == io::ErrorKind::NotFound;
    let dir = match root.session_dir(session.as_str(), false) {
        Err(StoreError::Io { source, .. }) if is_missing(&source) => return Err(missing()),
        result => result?,
    };
    match file::open_at(&dir, NAME, how) {
        Err(source) if is_missing(&source) => Err(missing()),
        result => result.map_err(|source| io_error(session, "open", source)),
    }
}

/// Parses a transcript into its header and its entries.
fn parse(
    session: &SessionId,
    bytes: &[u8],
) -> Result<(TranscriptHeader, Vec<Entry>), TranscriptError> {
    let (mut opened, mut entries) = (None, Vec::new());
    let mut torn: Option<TranscriptError> = None;
    let mut before = None;
    let mut format = FORMAT_VERSION;
    for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let damaged = |why: String| TranscriptError::Damaged {
            session: session.clone(),
            line: number + 1,
            why,
        };
        let is_whole = line.ends_with(b"\n");
        let parsed = match format {
            1 => upgrade_line(line),
            _ => serde_json::from_slice(line),
        };
        let entries_before = before.replace(entries.len());
        match (torn.take(), parsed) {
            (Some(_), Ok(TranscriptLine::Torn { .. })) => {}
            // The preceding line can be parsed, because only its newline was missing. Earlier
            // readers ignored that line as torn, so the line's entry is dropped here as well.
            (None, Ok(TranscriptLine::Torn { .. })) => {
                entries.truncate(entries_before.unwrap_or(0))
            }
            // The next writer was killed as well, while it marked the torn line.
            (Some(before), Err(_)) => torn = Some(before),
            // After a crash the next writer marks the torn line before it appends an entry. A torn
            // line without a mark before another entry is therefore damage.
            (Some(before), Ok(_)) => return Err(before),
            (None, Ok(TranscriptLine::Opened { transcript, opened: first, .. })) if number == 0 => {
                if !(1..=FORMAT_VERSION).contains(&transcript) {
                    return Err(damaged(format!(
                        "it has format {transcript}, and this siding reads 1 to {FORMAT_VERSION}"
                    )));
                }
                format = transcript;
                opened = Some(first);
            }
            (None, Ok(TranscriptLine::Entry { entry, .. })) if is_whole && number > 0 => {
                entries.push(entry);
            }
            // A last line without a newline is ignored: the writer may still be writing the line,
            // or was killed.
            (None, Ok(_)) if !is_whole => {}
            (None, Ok(_)) => return Err(damaged("the line is not allowed here".to_owned())),
            (None, Err(error)) => torn = Some(damaged(error.to_string())),
        }
        if !is_whole {
            torn = None;
        }
    }
    match (torn, opened) {
        (Some(torn), _) => Err(torn),
        (None, Some(opened)) => Ok((opened, entries)),
        (None, None) => Err(TranscriptError::Missing { session: session.clone() }),
    }
}

/// Parses a line after a header of format 1, which had other names for the same entries and fields.
/// Lines that a newer siding has appended to such a transcript have the names of format 2 and parse
/// as well.
fn upgrade_line(line: &[u8]) -> serde_json::Result<TranscriptLine> {
    const ENTRIES: [(&str, &str); 8] = [
        ("told", "input"),
        ("asked", "request_sent"),
        ("answered", "response"),
        ("failed", "request_failed"),
        ("started", "call_started"),
        ("bound", "task_bound"),
        ("done", "call_finished"),
        ("summarised", "summary"),
    ];
    let mut line: Value = serde_json::from_slice(line)?;
    if let Some(fields) = line.as_object_mut() {
        let named = |(old, _): &&(&str, &str)| fields.get("entry").is_some_and(|name| name == old);
        if let Some((_, new)) = ENTRIES.iter().find(named) {
            let _old_name = fields.insert("entry".to_owned(), Value::from(*new));
        }
        for old in ["told", "said"] {
            let Some(mut content) = fields.remove(old) else { continue };
            for part in
                content.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
            {
                if let Some(kind) = part.remove(old) {
                    let _none = part.insert("type".to_owned(), kind);
                }
            }
            let _none = fields.insert("content".to_owned(), content);
        }
    }
    serde_json::from_value(line)
}

fn io_error(session: &SessionId, doing: &'static str, source: io::Error) -> TranscriptError {
    TranscriptError::Io { session: session.clone(), doing, source }
}

#[cfg(test)]
mod tests;
