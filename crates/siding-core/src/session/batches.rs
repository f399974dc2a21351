//! Counts the batches of a session's tool calls, and records the shell calls that have returned and
//! the tasks about which the session's agent was reminded. A batch is all tool calls of one
//! response of the model.
//!
//! All three files are appended to under the lock of the session. A file of lines that exceeds its
//! maximum is replaced by an empty one. After that, a reminder may be repeated, or be late by up to
//! ten minutes, the longest duration of a foreground call.

use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use siding_model::id::{SessionId, TaskId};
use siding_model::reminder::ReturnedCall;

use super::{SessionError, io_error};
use crate::store::StateDir;
use crate::sys::{clock, file};

/// Name of the file that counts batches: one byte for each batch.
const BATCHES_FILE: &str = "batches";
/// Name of the file with one line for each shell call that has returned.
const CALLS_FILE: &str = "calls";
/// Name of the file with one line for each task about which the agent was reminded by name.
const REMINDED_TASKS_FILE: &str = "named";
/// Size in bytes after which a file of lines is replaced by an empty one: about 3,000 calls.
const MAX_LINES_BYTES: u64 = 64 << 10;

/// Counts a batch of tool calls of the session's agent. Returns the number of the batch, starting
/// with 1.
///
/// # Errors
///
/// [`SessionError`].
pub fn count_batch(root: &StateDir, id: &SessionId) -> Result<u64, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    let _lock = root.lock_session(&dir)?;
    let count = || {
        let counter = file::open_or_create(&dir, BATCHES_FILE)?;
        let before = file::metadata(&counter)?.len;
        file::write_all_at(&counter, b".", before)?;
        Ok(before + 1)
    };
    count().map_err(|source| io_error(id, "count batches of tool calls", source))
}

/// Records that shell calls of the host have returned: the time, and a checksum of each command.
///
/// # Errors
///
/// [`SessionError`].
pub fn record_returned_calls<'c>(
    root: &StateDir,
    id: &SessionId,
    commands: impl Iterator<Item = &'c str>,
) -> Result<(), SessionError> {
    let now = clock::unix_now();
    let lines: String = commands.map(|command| ReturnedCall::new(command, now).to_line()).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let dir = root.session_dir(id.as_str(), false)?;
    let _lock = root.lock_session(&dir)?;
    append_lines(&dir, CALLS_FILE, &lines)
        .map_err(|source| io_error(id, "record returned calls", source))
}

/// Returns the shell calls of the host that have returned. Damaged lines are skipped.
///
/// # Errors
///
/// [`SessionError`].
pub fn returned_calls(root: &StateDir, id: &SessionId) -> Result<Vec<ReturnedCall>, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    let text = read_text(&dir, CALLS_FILE)
        .map_err(|source| io_error(id, "read returned calls", source))?;
    Ok(text.lines().filter_map(ReturnedCall::parse).collect())
}

/// Returns the tasks that the session's agent was reminded about by name.
///
/// # Errors
///
/// [`SessionError`].
pub fn reminded_tasks(root: &StateDir, id: &SessionId) -> Result<Vec<TaskId>, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    read_reminded_tasks(&dir).map_err(|source| io_error(id, "read the reminders", source))
}

/// Records that the session's agent is about to be reminded about tasks by name. Returns the tasks
/// that were not recorded before. Of two concurrent calls, only one returns a given task.
///
/// # Errors
///
/// [`SessionError`].
pub fn claim_reminders(
    root: &StateDir,
    id: &SessionId,
    tasks: &[TaskId],
) -> Result<Vec<TaskId>, SessionError> {
    let dir = root.session_dir(id.as_str(), false)?;
    let _lock = root.lock_session(&dir)?;
    let io = |source| io_error(id, "record the reminders", source);
    let named = read_reminded_tasks(&dir).map_err(io)?;
    let new: Vec<TaskId> = tasks.iter().copied().filter(|task| !named.contains(task)).collect();
    if !new.is_empty() {
        let mut lines = String::new();
        for task in &new {
            let _writing_to_string = writeln!(lines, "{task}");
        }
        append_lines(&dir, REMINDED_TASKS_FILE, &lines).map_err(io)?;
    }
    Ok(new)
}

fn read_reminded_tasks(dir: &OwnedFd) -> io::Result<Vec<TaskId>> {
    Ok(read_text(dir, REMINDED_TASKS_FILE)?.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Appends lines to a file; a file that is too long is replaced by an empty one first. The caller
/// holds the lock.
fn append_lines(dir: &OwnedFd, name: &str, lines: &str) -> io::Result<()> {
    let mut fd = file::open_or_create(dir, name)?;
    let mut end = file::metadata(&fd)?.len;
    if end > MAX_LINES_BYTES {
        file::remove(dir, name)?;
        fd = file::open_or_create(dir, name)?;
        end = 0;
    }
    file::write_all_at(&fd, lines.as_bytes(), end)
}

/// Returns the text of a file, or an empty text if the file does not exist.
fn read_text(dir: &OwnedFd, name: &str) -> io::Result<String> {
    let max = usize::try_from(MAX_LINES_BYTES * 2).unwrap_or(usize::MAX);
    let bytes = match file::open_at(dir, name, file::OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        opened => file::read_to_end(opened?.as_fd(), max)?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> (tempfile::TempDir, StateDir, SessionId) {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
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
    fn concurrent_claims_return_each_task_once() {
        let (_temporary, root, id) = session();
        let [one, other] =
            ["b-4k7q0n2m8x5t", "b-4k7q0n2m8x5v"].map(|name| name.parse::<TaskId>().expect("an id"));
        let claims: usize = std::thread::scope(|scope| {
            let claim = || claim_reminders(&root, &id, &[one]).expect("claimed").len();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(claims, 1);
        assert_eq!(claim_reminders(&root, &id, &[one, other]).expect("claimed"), [other]);
        assert_eq!(reminded_tasks(&root, &id).expect("read"), [one, other]);
    }

    #[test]
    fn a_file_over_its_maximum_starts_again() {
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
