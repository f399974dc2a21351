//! The export of ended tasks: which tasks a receiver has accepted, and their journals.
//!
//! The ids of accepted tasks are appended to `exports/NAME` after the receiver has accepted them, so
//! a crash between the two sends a task again and never loses one. The journals of the tasks are the
//! only source: nothing is queued, and a task that retention removes before its export is not sent.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::otlp::{TaskSpan, span_context};
use siding_model::trace_parent::TraceParent;

use crate::store::journal_file;
use crate::store::{LIVE_DIR, StateDir, StoreError};
use crate::sys::file::{self, OpenMode};
use crate::sys::inotify::Inotify;
use crate::sys::poll;
use crate::task::listing::is_complete;

/// Directory below the root with a file for each receiver.
const EXPORTS_DIR: &str = "exports";
/// First line of a file, which names its format.
const EXPORT_HEADER: &str = "siding-exported-1";
/// Maximum size of a file, in bytes: more than a million ids.
const MAX_EXPORT_BYTES: usize = 32 << 20;
/// A file is rewritten without removed tasks when it has more than this many of them.
const MAX_REMOVED_TASKS: usize = 1_000;
/// Maximum number of tasks above a task that are read for its trace.
const MAX_TASK_DEPTH: usize = 32;

/// The reason why the record of an export cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A newer siding wrote the file, or another program.
    #[error("`{EXPORTS_DIR}/{name}` has an unknown format; upgrade siding, or remove the file")]
    UnknownFormat {
        /// Name of the file.
        name: String,
    },
    /// A file cannot be read or written.
    #[error("could not use the files in `{EXPORTS_DIR}`: {0}")]
    Io(#[from] io::Error),
    /// The tasks cannot be listed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The tasks that a receiver has accepted. This process is the only one that exports to the
/// receiver until the value is dropped.
#[derive(Debug)]
pub struct ExportLog {
    file: OwnedFd,
    len: u64,
    exported: HashSet<TaskId>,
    #[expect(dead_code, reason = "held for its lock only")]
    lock: OwnedFd,
}

impl ExportLog {
    /// Opens the log of the receiver `name`, which must be a file name. `None` if another process
    /// exports to the receiver.
    ///
    /// # Errors
    ///
    /// [`ExportError`].
    pub fn open(root: &StateDir, name: &str) -> Result<Option<Self>, ExportError> {
        match file::create_directory(root, EXPORTS_DIR) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result?,
        }
        let dir = file::open_at(root, EXPORTS_DIR, OpenMode::Directory)?;
        let lock = file::open_or_create(&dir, format!("{name}.lock"))?;
        if !file::try_lock_exclusive(&lock)? {
            return Ok(None);
        }
        let fd = file::open_or_create(&dir, name)?;
        let bytes = file::read_to_end(fd.as_fd(), MAX_EXPORT_BYTES)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        if lines.next().is_some_and(|header| header != EXPORT_HEADER) {
            return Err(ExportError::UnknownFormat { name: name.to_owned() });
        }
        // A line that a crash has cut is not an id: its task is sent again.
        let exported: HashSet<TaskId> = lines.filter_map(|line| line.parse().ok()).collect();
        let kept: HashSet<TaskId> = root.all_tasks()?.into_iter().collect();
        let removed = exported.difference(&kept).count();
        if !bytes.ends_with(b"\n") || removed > MAX_REMOVED_TASKS {
            let exported: HashSet<TaskId> = exported.intersection(&kept).copied().collect();
            let (file, len) = rewrite(&dir, name, &exported)?;
            return Ok(Some(Self { file, len, exported, lock }));
        }
        Ok(Some(Self { file: fd, len: bytes.len() as u64, exported, lock }))
    }

    /// Returns the ended tasks that the receiver has not accepted, in the order of their ends. A
    /// task whose journal cannot be read is left out.
    ///
    /// # Errors
    ///
    /// [`ExportError`].
    pub fn pending(&self, root: &StateDir) -> Result<Vec<TaskSpan>, ExportError> {
        let all = root.all_tasks()?;
        let is_new = |id: &&TaskId| !self.exported.contains(id);
        let mut spans: Vec<TaskSpan> =
            all.iter().filter(is_new).filter_map(|id| read_span(root, *id)).collect();
        spans.sort_by_key(|span| (span.state().ended_wall(), span.state().spec.task_id));
        Ok(spans)
    }

    /// Records that the receiver has accepted these tasks. When this function returns, the record is
    /// on the disk.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; the tasks are then sent again.
    pub fn record_accepted(&mut self, tasks: &[TaskId]) -> io::Result<()> {
        let lines: String = tasks.iter().map(|id| format!("{id}\n")).collect();
        file::write_all_at(&self.file, lines.as_bytes(), self.len)?;
        file::sync_data(&self.file)?;
        self.len += lines.len() as u64;
        self.exported.extend(tasks);
        Ok(())
    }
}

/// Replaces a log by a new one with these tasks.
fn rewrite(dir: &OwnedFd, name: &str, tasks: &HashSet<TaskId>) -> io::Result<(OwnedFd, u64)> {
    let lines: String = tasks.iter().map(|id| format!("{id}\n")).collect();
    let text = format!("{EXPORT_HEADER}\n{lines}");
    let new = format!("{name}.new");
    // The lock is held, so an existing file was left by a crash.
    let _already_removed = file::remove(dir, &new);
    let fd = file::open_at(dir, &new, OpenMode::CreateNew)?;
    file::write_all_at(&fd, text.as_bytes(), 0)?;
    file::sync_data(&fd)?;
    file::rename_over(dir, &new, name)?;
    Ok((fd, text.len() as u64))
}

/// Reads a task whose journal is complete; `None` if it is not, was removed, or cannot be read.
fn read_span(root: &StateDir, id: TaskId) -> Option<TaskSpan> {
    let dir = root.task_dir(id).ok()?;
    let span = TaskSpan::from_journal(&journal_file::read_bytes(&dir).ok()?).ok()??;
    Some(span).filter(|span| span.state().spec.task_id == id && is_complete(root, span.state()))
}

/// Returns the trace context of the task's parent, the task that started it. The context depends on
/// the journals of all tasks above. A task that was removed or cannot be read is left out, together
/// with the tasks above it. `None` if the task has no parent or the parent is left out.
#[must_use]
pub fn parent_context(root: &StateDir, state: &TaskState) -> Option<TraceParent> {
    let mut above = Vec::new();
    let mut next = state.spec.parent_task;
    while let Some(id) = next.filter(|_| above.len() < MAX_TASK_DEPTH) {
        let Ok(parent) = root.task_dir(id).map_err(drop).and_then(|dir| dir.read().map_err(drop))
        else {
            break;
        };
        next = parent.state.spec.parent_task;
        above.push(parent.state);
    }
    above.iter().rev().fold(None, |context, state| Some(span_context(state, context)))
}

/// Wakes when tasks have started or ended.
#[derive(Debug)]
pub struct EndWatch(Inotify);

impl EndWatch {
    /// Starts to watch. A task that ends after this call wakes [`Self::wait`].
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `EMFILE` if the user's inotify instances are exhausted.
    pub fn new(root: &StateDir) -> io::Result<Self> {
        let inotify = Inotify::new()?;
        inotify.watch_entries(&root.path().join(LIVE_DIR)).map(|_| ())?;
        Ok(Self(inotify))
    }

    /// Waits until a task has started or ended, or until the time is over.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn wait(&self, timeout_ms: Option<u64>) -> io::Result<()> {
        let _ready = poll::wait_readable(&[self.0.as_fd()], timeout_ms)?;
        // The names do not matter: the caller lists the tasks again.
        self.0.read_events().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use siding_model::id::TaskKind;

    use super::*;

    fn test_state_dir() -> (tempfile::TempDir, StateDir) {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
        (temporary, root)
    }

    fn new_ids(root: &StateDir, count: usize) -> Vec<TaskId> {
        (0..count).map(|_| root.new_id(TaskKind::LocalBash).expect("an id")).collect()
    }

    fn reopen(root: &StateDir) -> ExportLog {
        ExportLog::open(root, "r").expect("opens").expect("is free")
    }

    #[test]
    fn accepted_tasks_are_remembered_for_each_receiver() {
        let (_temporary, root) = test_state_dir();
        let ids = new_ids(&root, 3);
        let mut log = reopen(&root);
        log.record_accepted(&ids[..2]).expect("writes");
        log.record_accepted(&ids[2..]).expect("writes");
        assert!(ExportLog::open(&root, "r").expect("opens").is_none(), "it is in use");
        let other = ExportLog::open(&root, "other").expect("opens").expect("is free");
        assert!(other.exported.is_empty());
        drop(log);
        assert_eq!(reopen(&root).exported, ids.iter().copied().collect());
    }

    /// A crash leaves a cut line. Its task is sent again, and later records remain readable.
    #[test]
    fn a_cut_log_loses_only_its_last_task() {
        let (_temporary, root) = test_state_dir();
        let ids = new_ids(&root, 2);
        for id in &ids {
            // Tasks that do not exist are dropped when the log is rewritten.
            drop(root.create_task(*id).expect("creates"));
        }
        reopen(&root).record_accepted(&ids).expect("writes");
        let path = root.path().join("exports/r");
        let bytes = std::fs::read(&path).expect("own file");
        for len in 0..bytes.len() {
            std::fs::write(&path, &bytes[..len]).expect("own file");
            if len > 0 && len < EXPORT_HEADER.len() {
                assert!(ExportLog::open(&root, "r").is_err(), "{len}");
                continue;
            }
            let mut log = reopen(&root);
            let before = log.exported.clone();
            assert!(before.len() <= 2, "{len}");
            log.record_accepted(&ids).expect("writes");
            drop(log);
            assert_eq!(reopen(&root).exported, ids.iter().copied().collect(), "{len}");
        }
    }

    #[test]
    fn removed_tasks_are_forgotten() {
        let (_temporary, root) = test_state_dir();
        let ids = new_ids(&root, MAX_REMOVED_TASKS + 1);
        reopen(&root).record_accepted(&ids).expect("writes");
        assert!(reopen(&root).exported.is_empty());
        let text = std::fs::read_to_string(root.path().join("exports/r")).expect("own file");
        assert_eq!(text, format!("{EXPORT_HEADER}\n"));
    }
}
