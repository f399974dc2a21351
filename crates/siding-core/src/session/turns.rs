//! Counts the turns of a session's agent. Records whether hooks deliver notices to the agent, and
//! which one-time messages the agent has received.
//!
//! A counter is a file with one byte for each turn, so that counting only appends. The lock of the
//! session is held while a turn is counted, because hooks of one session may run concurrently.

use std::io;
use std::os::fd::OwnedFd;

use siding_model::id::SessionId;
use siding_model::process::UnixMs;

use super::{SessionError, io_error};
use crate::store::StateDir;
use crate::sys::{clock, file};

/// Name of the file that counts the consecutive turns that a hook has held open.
const HELD_TURNS_FILE: &str = "held_turns";
/// Name of [`HELD_TURNS_FILE`] in earlier versions.
const OLD_HELD_TURNS_FILE: &str = "holds";
/// Name of the file that counts the turns that a person has started. Its modification time is the
/// start of the last turn. The file exists as soon as a host's hooks deliver notices to the agent.
const TURNS_FILE: &str = "turns";
/// Name of the file whose length is that of [`TURNS_FILE`] when a turn ended last.
const ENDED_TURNS_FILE: &str = "ended_turns";
/// Maximum number of bytes that are appended to [`ENDED_TURNS_FILE`] at once.
const MAX_APPENDED_BYTES: u64 = 64 << 10;
/// Name of the file with the transcript of siding's own agent, in the directory of the agent's
/// session.
pub const TRANSCRIPT_FILE: &str = "transcript.jsonl";

/// The records of a session about its turns when a new turn starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnStart {
    /// The number of turns before this one.
    pub previous_turns: u64,
    /// The start of the previous turn; `None` for the first turn.
    pub last_started: Option<UnixMs>,
}

/// Returns whether a hook may hold the turn of the session's agent open, and counts the turn if so.
/// At most `max_in_a_row` consecutive turns may be held; `is_first` restarts the count.
///
/// # Errors
///
/// [`SessionError`].
pub fn count_hold(
    root: &StateDir,
    id: &SessionId,
    is_first: bool,
    max_in_a_row: u64,
) -> Result<bool, SessionError> {
    let io = |source| io_error(id, "count held turns", source);
    let dir = root.session_dir(id.as_str(), false)?;
    let _lock = root.lock_session(&dir)?;
    // The rename fails unless an earlier version has counted turns of this session.
    let _best_effort = file::rename_noreplace(&dir, OLD_HELD_TURNS_FILE, &dir, HELD_TURNS_FILE);
    if is_first {
        match file::remove(&dir, HELD_TURNS_FILE) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            Err(_) | Ok(()) => {}
        }
    }
    let (counter, before) = open_counter(&dir, HELD_TURNS_FILE).map_err(io)?;
    if before >= max_in_a_row {
        return Ok(false);
    }
    file::write_all_at(&counter, b".", before).map_err(io)?;
    Ok(true)
}

/// Records that a host's hooks deliver notices to the session's agent.
///
/// # Errors
///
/// [`SessionError`].
pub fn record_hooks(root: &StateDir, id: &SessionId) -> Result<(), SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    let counter = open_counter(&dir, TURNS_FILE);
    counter
        .map(drop)
        .map_err(|source| io_error(id, "record that hooks deliver its notices", source))
}

/// Returns whether a host's hooks deliver notices to the session's agent; these hooks also count
/// the agent's turns.
#[must_use]
pub fn has_hooks(root: &StateDir, id: &SessionId) -> bool {
    root.session_dir(id.as_str(), false).is_ok_and(|dir| file::metadata_at(dir, TURNS_FILE).is_ok())
}

/// Returns whether the session's agent receives notices without a request: from a host's hooks, or
/// as siding's own agent, which has a transcript.
#[must_use]
pub fn has_notice_channel(root: &StateDir, id: &SessionId) -> bool {
    let Ok(dir) = root.session_dir(id.as_str(), false) else { return false };
    [TURNS_FILE, TRANSCRIPT_FILE].iter().any(|name| file::metadata_at(&dir, name).is_ok())
}

/// Records that a session's agent receives a message, by creating a file of this name. Returns
/// false if the file existed, because the agent must receive such a message only once.
///
/// # Errors
///
/// [`SessionError`].
pub fn record_once(root: &StateDir, id: &SessionId, name: &str) -> Result<bool, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    match file::open_at(&dir, name, file::OpenMode::CreateNew) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(io_error(id, "record a message to its agent", error)),
    }
}

/// Records that all turns that were started have ended.
///
/// # Errors
///
/// [`SessionError`].
pub fn record_turn_end(root: &StateDir, id: &SessionId) -> Result<(), SessionError> {
    let io = |source| io_error(id, "count ended turns", source);
    let dir = root.session_dir(id.as_str(), false)?;
    let _lock = root.lock_session(&dir)?;
    let started = read_counter(&dir, TURNS_FILE).map_err(io)?;
    let (counter, before) = open_counter(&dir, ENDED_TURNS_FILE).map_err(io)?;
    // Usually one byte is missing. A damaged counter must not exhaust the memory.
    let missing = started.saturating_sub(before).min(MAX_APPENDED_BYTES);
    let missing = usize::try_from(missing).unwrap_or(0);
    file::write_all_at(&counter, &vec![b'.'; missing], before).map_err(io)
}

/// Returns whether no turn was started since the last [`record_turn_end`].
///
/// # Errors
///
/// [`SessionError`].
pub fn is_between_turns(root: &StateDir, id: &SessionId) -> Result<bool, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    let read = |name| read_counter(&dir, name).map_err(|error| io_error(id, "count turns", error));
    // The ends are read first, so that a turn that starts in between is seen.
    let ended = read(ENDED_TURNS_FILE)?;
    Ok(read(TURNS_FILE)? == ended)
}

/// Counts a turn that a person has started, and records the present time as its start.
///
/// # Errors
///
/// [`SessionError`].
pub fn start_turn(root: &StateDir, id: &SessionId) -> Result<TurnStart, SessionError> {
    let io = |source| io_error(id, "count turns", source);
    let dir = root.session_dir(id.as_str(), false)?;
    let _lock = root.lock_session(&dir)?;
    let (counter, before) = open_counter(&dir, TURNS_FILE).map_err(io)?;
    let last = match before {
        0 => None,
        _ => Some(UnixMs(file::modified_ms(&dir, TURNS_FILE).map_err(io)?)),
    };
    let now = clock::unix_now();
    file::write_all_at(&counter, b".", before).map_err(io)?;
    file::set_modified_ms(&counter, now.0).map_err(io)?;
    Ok(TurnStart { previous_turns: before, last_started: last })
}

/// Returns the value of a counter; zero if it does not exist.
fn read_counter(dir: &OwnedFd, name: &str) -> io::Result<u64> {
    match file::metadata_at(dir, name) {
        Ok(facts) => Ok(facts.len),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Opens a counter and returns its value.
fn open_counter(dir: &OwnedFd, name: &str) -> io::Result<(OwnedFd, u64)> {
    let counter = file::open_or_create(dir, name)?;
    let count = file::metadata(&counter)?.len;
    Ok((counter, count))
}
