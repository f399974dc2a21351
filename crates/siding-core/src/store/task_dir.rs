//! The directory of a task, with its lock and its journal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use siding_model::id::TaskId;
use siding_model::journal::{JournalError, Replayed};
use siding_model::notice::TaskNotices;

use crate::store::journal_file::{self, JournalReadError};
use crate::store::runtime_dir::{self, TaskRuntimeDir};
use crate::sys::file;

/// The open directory of one task, and the task's runtime directory if there is one.
#[derive(Debug)]
pub struct TaskDir {
    id: TaskId,
    path: PathBuf,
    fd: OwnedFd,
    /// The directory of the task's FIFOs, socket and lock, if that is not the task's own directory.
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

    /// Wraps directories that another process opened: the task's directory, and the task's runtime
    /// directory if there is one. The path is unknown and therefore empty.
    #[must_use]
    pub fn from_fd(id: TaskId, fd: OwnedFd, away: Option<OwnedFd>) -> Self {
        Self { id, path: PathBuf::new(), fd, runtime_dir: away.map(TaskRuntimeDir::from_fd) }
    }

    /// Returns the id of the task.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Returns the path; empty after [`Self::from_fd`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory of the FIFOs and the socket.
    ///
    /// # Errors
    ///
    /// `NotFound` if the directory could not be opened, for example because it was removed, or if
    /// it is on another machine.
    pub fn endpoint_dir(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.runtime_dir {
            None => Ok(self.fd.as_fd()),
            Some(away) => {
                away.endpoint_dir(self.fd.as_fd()).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        }
    }

    /// Returns the separate runtime directory, which carries the task's lock. `None` if the task
    /// has none, or if it could not be opened on this machine.
    #[must_use]
    pub fn runtime_dir(&self) -> Option<BorrowedFd<'_>> {
        self.runtime_dir.as_ref().and_then(TaskRuntimeDir::dir)
    }

    /// Returns the machine that supervises the task, or `None` if it is this machine. Of a task on
    /// another machine, only the files are visible here.
    #[must_use]
    pub fn other_machine(&self) -> Option<&str> {
        self.runtime_dir.as_ref().and_then(TaskRuntimeDir::other_machine)
    }

    /// Removes the files that are needed only while a shim supervises the task, and the separate
    /// runtime directory if it is then empty.
    pub fn remove_transient(&self) {
        runtime_dir::remove_transient(self.fd.as_fd(), self.runtime_dir.as_ref());
    }

    /// Reads and replays the task's journal.
    ///
    /// # Errors
    ///
    /// [`JournalReadError`].
    pub fn read(&self) -> Result<Replayed, JournalReadError> {
        journal_file::read(&self.fd)
    }

    /// Reads the task's journal and extracts its notices.
    ///
    /// # Errors
    ///
    /// [`JournalReadError`].
    pub fn read_notices(&self) -> Result<TaskNotices, JournalReadError> {
        journal_file::read_notices(&self.fd)
    }

    /// Acquires the task's lock without waiting; `None` if another process, usually the task's
    /// shim, holds the lock, or if another machine supervises the task.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn try_lock(mut self) -> io::Result<Option<LockedTask>> {
        let locked = match &mut self.runtime_dir {
            None => file::try_lock_exclusive(&self.fd)?,
            Some(away) => away.try_lock(&self.fd, self.id)?,
        };
        Ok(locked.then_some(LockedTask(self)))
    }

    /// Returns whether the task has no first record, which means that its command never ran.
    #[must_use]
    pub fn is_unrecorded(&self) -> bool {
        matches!(self.read(), Err(JournalReadError::Content(JournalError::Empty)))
    }
}

/// A task whose lock this process holds, so no shim supervises the task, and no other process may
/// write its journal or its output.
#[derive(Debug)]
pub struct LockedTask(TaskDir);

impl LockedTask {
    /// Returns the directory of the locked task.
    #[must_use]
    pub const fn dir(&self) -> &TaskDir {
        &self.0
    }

    pub(super) fn into_dir(self) -> TaskDir {
        self.0
    }
}
