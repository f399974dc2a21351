//! The directory of a task.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use siding_model::id::TaskId;
use siding_model::journal::{JournalError, Replayed};
use siding_model::notice::TaskNotices;

use crate::journal_file::{self, JournalReadError};
use crate::runtime_dir::{self, TaskRuntimeDir};
use crate::sys::file;

/// The directory of one task.
#[derive(Debug)]
pub struct TaskDir {
    id: TaskId,
    path: PathBuf,
    fd: OwnedFd,
    /// Where its FIFOs, its socket and its lock are, when not in the directory itself.
    runtime_dir: Option<TaskRuntimeDir>,
}

impl AsFd for TaskDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl TaskDir {
    pub(super) const fn new(
        id: TaskId,
        path: PathBuf,
        fd: OwnedFd,
        away: Option<TaskRuntimeDir>,
    ) -> Self {
        Self { id, path, fd, runtime_dir: away }
    }

    /// Takes over a directory that another process opened, and the task's place when that is
    /// outside. Its path is not known.
    #[must_use]
    pub fn from_fd(id: TaskId, fd: OwnedFd, away: Option<OwnedFd>) -> Self {
        Self { id, path: PathBuf::new(), fd, runtime_dir: away.map(TaskRuntimeDir::from_fd) }
    }

    /// Returns whose it is.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory in which its FIFOs and its socket are.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is none any more, or it is on another machine.
    pub fn endpoint_dir(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.runtime_dir {
            None => Ok(self.fd.as_fd()),
            Some(away) => {
                away.endpoint_dir(self.fd.as_fd()).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        }
    }

    /// Returns the task's place when that is outside its directory. It carries the lock then.
    #[must_use]
    pub fn runtime_dir(&self) -> Option<BorrowedFd<'_>> {
        self.runtime_dir.as_ref().and_then(TaskRuntimeDir::dir)
    }

    /// Returns the machine that keeps the task, when it is not this one: nothing of the task can
    /// be seen from here but its files.
    #[must_use]
    pub fn other_machine(&self) -> Option<&str> {
        self.runtime_dir.as_ref().and_then(TaskRuntimeDir::other_machine)
    }

    /// Removes what exists only while a shim keeps the task.
    pub fn remove_transient(&self) {
        runtime_dir::remove_transient(self.fd.as_fd(), self.runtime_dir.as_ref());
    }

    /// Reads the task's journal.
    ///
    /// # Errors
    ///
    /// [`JournalReadError`].
    pub fn read(&self) -> Result<Replayed, JournalReadError> {
        journal_file::read(&self.fd)
    }

    /// Reads the task's journal and what it has to tell.
    ///
    /// # Errors
    ///
    /// [`JournalReadError`].
    pub fn read_notices(&self) -> Result<TaskNotices, JournalReadError> {
        journal_file::read_notices(&self.fd)
    }

    /// Takes the task's lock, `None` while its shim has it, or when it is another machine's.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn try_lock(mut self) -> io::Result<Option<LockedTask>> {
        let locked = match &mut self.runtime_dir {
            None => file::try_lock_exclusive(&self.fd)?,
            Some(away) => away.try_lock(&self.fd, self.id)?,
        };
        Ok(locked.then_some(LockedTask(self)))
    }

    /// Whether nothing was ever recorded for the task, so nothing was ever started.
    #[must_use]
    pub fn is_unrecorded(&self) -> bool {
        matches!(self.read(), Err(JournalReadError::Content(JournalError::Empty)))
    }
}

/// A task whose lock this process holds: its shim is dead, and nobody else may write.
#[derive(Debug)]
pub struct LockedTask(TaskDir);

impl LockedTask {
    /// Returns the directory.
    #[must_use]
    pub const fn dir(&self) -> &TaskDir {
        &self.0
    }

    pub(super) fn into_dir(self) -> TaskDir {
        self.0
    }
}
