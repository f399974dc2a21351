//! Counting the batches of a session's tool calls, and the tasks that its agent was reminded of.
//!
//! All three files are only appended to, under the lock of the session. One that has grown long
//! begins again: what it loses is a reminder told twice or ten minutes late.

use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use siding_model::id::{SessionId, TaskId};
use siding_model::reminder::ReturnedCall;

use super::{SessionError, io_error};
use crate::store::Root;
use crate::sys::{clock, file};

/// Counts the batches: a byte for each.
const BATCHES: &str = "batches";
/// Shell calls that have returned, a line for each.
const CALLS: &str = "calls";
/// Tasks that the agent was reminded of by name, a line for each.
const NAMED: &str = "named";
/// Longest file of lines, in bytes: about 3,000 calls.
const LINES_MAX: u64 = 64 << 10;

/// Counts a batch of tool calls of the session's agent. Returns its number, counted from 1.
///
/// # Errors
///
/// [`SessionError`].
pub fn count_batch(root: &Root, id: &SessionId) -> Result<u64, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    let _lock = root.lock_session(&dir)?;
    let count = || {
        let counter = file::open_or_make(&dir, BATCHES)?;
        let before = file::facts(&counter)?.len;
        file::write_all_at(&counter, b".", before)?;
        Ok(before + 1)
    };
    count().map_err(|source| io_error(id, "count batches of tool calls", source))
}

/// Records that shell calls of the host have returned, each with this command.
///
/// # Errors
///
/// [`SessionError`].
pub fn record_returned_calls<'c>(
    root: &Root,
    id: &SessionId,
    commands: impl Iterator<Item = &'c str>,
) -> Result<(), SessionError> {
    let now = clock::wall();
    let lines: String = commands.map(|command| ReturnedCall::new(command, now).to_line()).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let dir = root.session_dir(id.as_str(), false)?;
    let _lock = root.lock_session(&dir)?;
    append(&dir, CALLS, &lines).map_err(|source| io_error(id, "record returned calls", source))
}

/// Returns the shell calls of the host that have returned. A damaged line is left out.
///
/// # Errors
///
/// [`SessionError`].
pub fn returned_calls(root: &Root, id: &SessionId) -> Result<Vec<ReturnedCall>, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    let text = read(&dir, CALLS).map_err(|source| io_error(id, "read returned calls", source))?;
    Ok(text.lines().filter_map(ReturnedCall::parse).collect())
}

/// Returns the tasks that the session's agent was reminded of by name.
///
/// # Errors
///
/// [`SessionError`].
pub fn named_tasks(root: &Root, id: &SessionId) -> Result<Vec<TaskId>, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    named_in(&dir).map_err(|source| io_error(id, "read named tasks", source))
}

/// Records that the session's agent is about to be reminded of tasks by name. Returns those of them
/// of which it was not before: two concurrent calls never return the same task.
///
/// # Errors
///
/// [`SessionError`].
pub fn claim_naming(
    root: &Root,
    id: &SessionId,
    tasks: &[TaskId],
) -> Result<Vec<TaskId>, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    let _lock = root.lock_session(&dir)?;
    let io = |source| io_error(id, "record named tasks", source);
    let named = named_in(&dir).map_err(io)?;
    let new: Vec<TaskId> = tasks.iter().copied().filter(|task| !named.contains(task)).collect();
    if !new.is_empty() {
        let mut lines = String::new();
        for task in &new {
            let _a_string_takes_all = writeln!(lines, "{task}");
        }
        append(&dir, NAMED, &lines).map_err(io)?;
    }
    Ok(new)
}

fn named_in(dir: &OwnedFd) -> io::Result<Vec<TaskId>> {
    Ok(read(dir, NAMED)?.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Appends lines to a file, which begins again when it has grown long. The caller holds the lock.
fn append(dir: &OwnedFd, name: &str, lines: &str) -> io::Result<()> {
    let mut fd = file::open_or_make(dir, name)?;
    let mut end = file::facts(&fd)?.len;
    if end > LINES_MAX {
        file::remove(dir, name)?;
        fd = file::open_or_make(dir, name)?;
        end = 0;
    }
    file::write_all_at(&fd, lines.as_bytes(), end)
}

/// Returns the text of a file, empty when there is none.
fn read(dir: &OwnedFd, name: &str) -> io::Result<String> {
    let max = usize::try_from(LINES_MAX * 2).unwrap_or(usize::MAX);
    let bytes = match file::open_at(dir, name, file::Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        opened => file::read_whole(opened?.as_fd(), max)?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> (tempfile::TempDir, Root, SessionId) {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Root::open(&temporary.path().join("state")).expect("a state directory");
        let id: SessionId = "chat".parse().expect("a name");
        super::super::open(&root, &id, i32::try_from(std::process::id()).expect("small"))
            .expect("opened");
        (temporary, root, id)
    }

    #[test]
    fn batches_are_counted_from_one() {
        let (_temporary, root, id) = session();
        let numbers: Vec<u64> = (0..3).map(|_| count_batch(&root, &id).expect("counted")).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn a_task_is_claimed_once_however_many_claim_it() {
        let (_temporary, root, id) = session();
        let [one, other] =
            ["b-4k7q0n2m8x5t", "b-4k7q0n2m8x5v"].map(|name| name.parse::<TaskId>().expect("an id"));
        let claims: usize = std::thread::scope(|scope| {
            let claim = || claim_naming(&root, &id, &[one]).expect("claimed").len();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(claims, 1);
        assert_eq!(claim_naming(&root, &id, &[one, other]).expect("claimed"), [other]);
        assert_eq!(named_tasks(&root, &id).expect("read"), [one, other]);
    }

    #[test]
    fn a_long_file_begins_again() {
        let (_temporary, root, id) = session();
        assert_eq!(returned_calls(&root, &id).expect("none"), []);
        for _ in 0..40 {
            let many = std::iter::repeat_n("make", 100);
            record_returned_calls(&root, &id, many).expect("recorded");
        }
        let calls = returned_calls(&root, &id).expect("read");
        assert!((100..3_500).contains(&calls.len()), "{}", calls.len());
    }
}
