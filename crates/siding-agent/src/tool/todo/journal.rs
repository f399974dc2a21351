//! The journal file of a to-do list.
//!
//! The file is `.siding/todo.jsonl` in the project's directory. siding creates `.siding` with mode
//! 0700 and the file with mode 0600. Records are only appended. To change the list, a process locks
//! the file, replays it, appends the new records with one write, and syncs them to disk. The next
//! write terminates a line that a crash has torn, and readers ignore that line. A last line that
//! lacks only its newline is valid. The lock belongs to the open file description, so the kernel
//! releases the lock when the process ends.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use siding_core::sys::dir_entry::{self, FileKind};
use siding_core::sys::{clock, file};

use super::commands::TodoRefusal;
use super::record::{self, TodoChange};
use super::state::{ReplayedTodos, TodoState};
use crate::cancel_flag::CancelFlag;

/// Name of siding's directory in the project's directory.
const SIDING_DIRECTORY: &str = ".siding";
/// Name of the journal in [`SIDING_DIRECTORY`].
const TODO_FILE_NAME: &str = "todo.jsonl";
/// Maximum size of a journal in bytes; a larger one is not read. A list at the limits in
/// [`super::commands`] has about half this size, unless its texts need many JSON escapes.
const MAX_JOURNAL_BYTES: usize = 32 << 20;
/// Time after which a change gives up waiting for the lock, which a writer holds for a few
/// milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The first and the longest pause between two attempts to lock the file.
const LOCK_RETRY_PAUSES: (Duration, Duration) =
    (Duration::from_micros(200), Duration::from_millis(20));

/// The to-do list of a project.
#[derive(Debug, Clone)]
pub struct TodoList {
    project: PathBuf,
}

/// Why a list cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TodoError {
    /// The state of the list does not allow the operation.
    #[error(transparent)]
    Refused(#[from] TodoRefusal),
    /// The file could not be locked within ten seconds.
    #[error("the to-do list is locked by another process for {} s; try again later", LOCK_TIMEOUT.as_secs())]
    Busy,
    /// The call was canceled while it waited for the lock.
    #[error("cancelled while another process held the to-do list")]
    Cancelled,
    /// The journal has a format that only a newer version of siding can read.
    #[error("`{}` has format {format}: it requires a newer siding, and was not changed", .path.display())]
    TooNew {
        /// Path of the journal.
        path: PathBuf,
        /// The format version in the journal's header.
        format: u32,
    },
    /// The journal is not a regular file, or `.siding` is not a directory; a symbolic link is
    /// neither.
    #[error("`{}` was not created by siding: a person should check it", .path.display())]
    NotOurs {
        /// Path of the journal.
        path: PathBuf,
    },
    /// The journal is larger than 32 MiB.
    #[error(
        "`{}` has more than {} MiB; a person can start a new list by moving it away",
        .path.display(),
        MAX_JOURNAL_BYTES >> 20
    )]
    TooLarge {
        /// Path of the journal.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("could not {doing} `{}`: {source}", .path.display())]
    Io {
        /// The failed action as a verb, such as `read`.
        doing: &'static str,
        /// Path of the journal.
        path: PathBuf,
        /// The error that the system call returned.
        source: io::Error,
    },
}

impl From<TodoError> for String {
    fn from(error: TodoError) -> Self {
        error.to_string()
    }
}

impl TodoList {
    /// Returns the list of the project in this directory, without opening or creating a file.
    #[must_use]
    pub fn new(project: &Path) -> Self {
        Self { project: project.to_owned() }
    }

    /// Reads the list. A missing file counts as an empty list.
    ///
    /// # Errors
    ///
    /// [`TodoError`] if the file cannot be opened or read, is too large, or has a newer format.
    pub fn read(&self) -> Result<ReplayedTodos, TodoError> {
        match self.open_file(file::OpenMode::Read) {
            Ok(opened) => self.replay(&opened),
            Err(TodoError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(ReplayedTodos::default())
            }
            Err(error) => Err(error),
        }
    }

    /// Locks the list, passes its state to `decide`, and appends the records of the changes that
    /// `decide` returns. Returns the changes and the new state once the records are synced to disk.
    ///
    /// # Errors
    ///
    /// [`TodoError`] if `decide` refuses, or if the file cannot be locked, read or written. After
    /// an error the list is unchanged, unless the part that a failed write has left cannot be
    /// removed.
    pub(super) fn update(
        &self,
        cancel: &CancelFlag,
        decide: impl FnOnce(&TodoState) -> Result<Vec<TodoChange>, TodoRefusal>,
    ) -> Result<(Vec<TodoChange>, TodoState), TodoError> {
        let opened = self.lock(cancel)?;
        let ReplayedTodos { state: mut board, is_torn, .. } = self.replay(&opened)?;
        let deeds = decide(&board)?;
        let at = clock::unix_now();
        if deeds.is_empty() {
            return Ok((deeds, board));
        }
        let before = opened.metadata().map_err(self.io_error("read"))?.len();
        let mut lines = if is_torn { vec![b'\n'] } else { Vec::new() };
        if before == 0 {
            lines.extend(record::header_line());
        }
        let records = record::records_at(at, &deeds);
        lines.extend(record::encode_records(&records));
        let written = file::write_all_at(&opened, &lines, before).and_then(|()| opened.sync_data());
        if let Err(error) = written {
            // The failed write may have left some of the records, which a later replay would apply.
            // Truncation removes them, and it also works on a full disk.
            let _best_effort = opened.set_len(before);
            return Err(self.io_error("write")(error));
        }
        for record in records {
            let applies = board.apply(record);
            debug_assert!(applies, "a change applies to the state for which it was decided");
        }
        Ok((deeds, board))
    }

    fn replay(&self, opened: &File) -> Result<ReplayedTodos, TodoError> {
        let bytes = file::read_to_end(opened.as_fd(), MAX_JOURNAL_BYTES).map_err(|error| {
            if error.kind() == io::ErrorKind::FileTooLarge {
                TodoError::TooLarge { path: self.path() }
            } else {
                self.io_error("read")(error)
            }
        })?;
        TodoState::replay(&bytes)
            .map_err(|too_new| TodoError::TooNew { path: self.path(), format: too_new.0 })
    }

    /// Opens the file, creates it if it is missing, and locks it exclusively.
    fn lock(&self, cancel: &CancelFlag) -> Result<File, TodoError> {
        let begun = Instant::now();
        let mut pause = LOCK_RETRY_PAUSES.0;
        loop {
            let opened = self.open_or_create()?;
            match opened.try_lock() {
                // The file may have been renamed or replaced since it was opened; a lock on it
                // would then protect nothing.
                Ok(()) if self.is_current_file(&opened) => return Ok(opened),
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(self.io_error("lock")(error)),
            }
            if cancel.is_set() {
                return Err(TodoError::Cancelled);
            }
            if begun.elapsed() > LOCK_TIMEOUT {
                return Err(TodoError::Busy);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOCK_RETRY_PAUSES.1);
        }
    }

    fn is_current_file(&self, opened: &File) -> bool {
        let place = self.open_directory().and_then(|dir| file::metadata_at(dir, TODO_FILE_NAME));
        let opened = file::metadata(opened);
        matches!((place, opened), (Ok(place), Ok(opened)) if place.identity == opened.identity)
    }

    fn open_or_create(&self) -> Result<File, TodoError> {
        let make = || {
            let project = file::open_directory(&self.project)?;
            ignore_already_exists(file::create_directory(&project, SIDING_DIRECTORY))?;
            let dir = self.open_directory()?;
            ignore_already_exists(
                file::open_at(&dir, TODO_FILE_NAME, file::OpenMode::CreateNew).map(drop),
            )?;
            dir_entry::sync_directory(dir);
            io::Result::Ok(())
        };
        match self.open_file(file::OpenMode::ReadWrite) {
            Err(TodoError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                make().map_err(self.io_error("create"))?;
                self.open_file(file::OpenMode::ReadWrite)
            }
            result => result,
        }
    }

    fn open_file(&self, how: file::OpenMode) -> Result<File, TodoError> {
        let foreign = || TodoError::NotOurs { path: self.path() };
        // Neither of the two modes blocks if the file is a FIFO.
        let opened = self.open_directory().and_then(|dir| file::open_at(dir, TODO_FILE_NAME, how));
        let opened = opened.map_err(|error| {
            let is_link = error.raw_os_error() == Some(file::SYMLINK_ERRNO);
            let is_other = is_link || error.kind() == io::ErrorKind::NotADirectory;
            if is_other { foreign() } else { self.io_error("open")(error) }
        })?;
        match dir_entry::entry_of_fd(&opened).map_err(self.io_error("open"))?.kind {
            FileKind::File => Ok(File::from(opened)),
            FileKind::Directory
            | FileKind::Link
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::Device => Err(foreign()),
        }
    }

    /// Opens the directory of the file. A symbolic link in place of the directory is not followed,
    /// because a repository may contain a link to any directory.
    fn open_directory(&self) -> io::Result<OwnedFd> {
        let project = file::open_directory(&self.project)?;
        file::open_at(project, SIDING_DIRECTORY, file::OpenMode::Directory)
    }

    fn path(&self) -> PathBuf {
        self.project.join(SIDING_DIRECTORY).join(TODO_FILE_NAME)
    }

    fn io_error(&self, doing: &'static str) -> impl Fn(io::Error) -> TodoError {
        move |source| TodoError::Io { doing, path: self.path(), source }
    }
}

fn ignore_already_exists(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}
