//! The file of a to-do list.
//!
//! `.siding/todo.jsonl` in the project's directory, of mode 0600 in a directory of mode 0700. It only
//! grows. Whoever changes the list locks the file, reads it, decides on what it says, appends the
//! records in one write, and waits until they are on the disk. A line that a crash has torn is ended
//! with the next write and counts for nothing; a last line that lacks only its newline counts. A
//! process that dies loses the lock with its descriptor.

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
use crate::provider::CancelFlag;

/// The directory in the project's.
const SIDING_DIRECTORY: &str = ".siding";
/// The file in that.
const TODO_FILE_NAME: &str = "todo.jsonl";
/// Longest file that is read. [`super::commands`] allows about as much.
const MAX_JOURNAL_BYTES: usize = 32 << 20;
/// How long others may have the file. Whoever has it needs some milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest and the longest pause between two tries.
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
    /// The agent may not do that.
    #[error(transparent)]
    Refused(#[from] TodoRefusal),
    /// Somebody else has had the list for long.
    #[error("the to-do list is locked by another process for {} s; try again later", LOCK_TIMEOUT.as_secs())]
    Busy,
    /// Nobody wants it any more.
    #[error("given up while another process had the to-do list")]
    Cancelled,
    /// A newer siding has written it.
    #[error("`{}` has format {format}: it needs a newer siding, and is left alone", .path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// Something else is in its place.
    #[error("`{}` is no file that siding has made: a person should look at it", .path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// It is too long.
    #[error(
        "`{}` has more than {} MiB; a person can begin a new list by moving it away",
        .path.display(),
        MAX_JOURNAL_BYTES >> 20
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("could not {doing} `{}`: {source}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl From<TodoError> for String {
    fn from(error: TodoError) -> Self {
        error.to_string()
    }
}

impl TodoList {
    /// Returns the list of a project, by the project's directory. Nothing is opened or made yet.
    #[must_use]
    pub fn new(project: &Path) -> Self {
        Self { project: project.to_owned() }
    }

    /// Reads the list; one that is not there is empty.
    ///
    /// # Errors
    ///
    /// [`TodoError`].
    pub fn read(&self) -> Result<ReplayedTodos, TodoError> {
        match self.open_file(file::OpenMode::Read) {
            Ok(opened) => self.replay(&opened),
            Err(TodoError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(ReplayedTodos::default())
            }
            Err(error) => Err(error),
        }
    }

    /// Changes the list by what `decide` makes of it, while nobody else does. Returns what was done and
    /// the list after it; both are on the disk then.
    ///
    /// # Errors
    ///
    /// [`TodoError`], and then nothing was changed.
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
            // What was not promised must not be found later. Shortening needs no space.
            let _best_effort = opened.set_len(before);
            return Err(self.io_error("write")(error));
        }
        for record in records {
            let applies = board.apply(record);
            debug_assert!(applies, "what is decided on a board is possible there");
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

    /// Opens the file as the only one who may change it, made where it is missing.
    fn lock(&self, cancel: &CancelFlag) -> Result<File, TodoError> {
        let begun = Instant::now();
        let mut pause = LOCK_RETRY_PAUSES.0;
        loop {
            let opened = self.open_or_create()?;
            match opened.try_lock() {
                // It may have been put aside since it was opened: then the lock is worth nothing.
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
                make().map_err(self.io_error("make"))?;
                self.open_file(file::OpenMode::ReadWrite)
            }
            result => result,
        }
    }

    fn open_file(&self, how: file::OpenMode) -> Result<File, TodoError> {
        let foreign = || TodoError::NotOurs { path: self.path() };
        // Neither way waits for a FIFO that somebody has put there.
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

    /// Opens the directory of the file. A link in its place is not followed: a repository may bring
    /// one that leads anywhere.
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
