//! Counting the turns of a session's agent.
//!
//! A file for each count, with one byte for each turn: nothing is ever rewritten.

use std::io;
use std::os::fd::OwnedFd;

use siding_model::id::SessionId;
use siding_model::process::UnixMs;

use super::{SessionError, io_error};
use crate::store::StateDir;
use crate::sys::{clock, file};

/// Counts the turns that were held in a row.
const HOLDS_FILE: &str = "holds";
/// Counts the turns that a person began.
const TURNS_FILE: &str = "turns";
/// The conversation of siding's own agent, in the directory of its session.
pub const TRANSCRIPT_FILE: &str = "transcript.jsonl";

/// A turn that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnStart {
    /// How many there were before it.
    pub previous_turns: u64,
    /// When the one before it began.
    pub last_started: Option<UnixMs>,
}

/// Counts a turn of the session's agent that is held open, `anew` when the one before was not.
/// Returns whether it may be: not more than `most` in a row.
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
    if is_first {
        match file::remove(&dir, HOLDS_FILE) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            Err(_) | Ok(()) => {}
        }
    }
    let (counter, before) = open_counter(&dir, HOLDS_FILE).map_err(io)?;
    if before >= max_in_a_row {
        return Ok(false);
    }
    file::write_all_at(&counter, b".", before).map_err(io)?;
    Ok(true)
}

/// Notes that a host's hooks tell the session's agent what is new.
///
/// # Errors
///
/// [`SessionError`].
pub fn record_hooks(root: &StateDir, id: &SessionId) -> Result<(), SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    let counter = open_counter(&dir, TURNS_FILE);
    counter.map(drop).map_err(|source| io_error(id, "note that hooks tell it", source))
}

/// Whether a host's hooks tell the session's agent what is new: they count its turns.
#[must_use]
pub fn has_hooks(root: &StateDir, id: &SessionId) -> bool {
    root.session_dir(id.as_str(), false).is_ok_and(|dir| file::metadata_at(dir, TURNS_FILE).is_ok())
}

/// Returns whether an agent of the session is told of its tasks without asking: by hooks of a host, or
/// as siding's own agent, which has a transcript.
#[must_use]
pub fn has_notice_channel(root: &StateDir, id: &SessionId) -> bool {
    let Ok(dir) = root.session_dir(id.as_str(), false) else { return false };
    [TURNS_FILE, TRANSCRIPT_FILE].iter().any(|name| file::metadata_at(&dir, name).is_ok())
}

/// Notes something that a session's agent is told once, by a name of the file that says so. Returns
/// whether it was not noted before.
///
/// # Errors
///
/// [`SessionError`].
pub fn record_once(root: &StateDir, id: &SessionId, name: &str) -> Result<bool, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    match file::open_at(&dir, name, file::OpenMode::CreateNew) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(io_error(id, "note what its agent was told", error)),
    }
}

/// Returns how many turns a person has begun.
///
/// # Errors
///
/// [`SessionError`].
pub fn count_turns(root: &StateDir, id: &SessionId) -> Result<u64, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    match file::metadata_at(&dir, TURNS_FILE) {
        Ok(facts) => Ok(facts.len),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(io_error(id, "count turns", error)),
    }
}

/// Counts a turn that a person has begun.
///
/// # Errors
///
/// [`SessionError`].
pub fn start_turn(root: &StateDir, id: &SessionId) -> Result<TurnStart, SessionError> {
    let io = |source| io_error(id, "count turns", source);
    let dir = root.session_dir(id.as_str(), false)?;
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

/// Opens a count, and returns how far it has come.
fn open_counter(dir: &OwnedFd, name: &str) -> io::Result<(OwnedFd, u64)> {
    let counter = file::open_or_create(dir, name)?;
    let count = file::metadata(&counter)?.len;
    Ok((counter, count))
}
