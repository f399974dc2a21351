//! The journal as a file: appended by one writer, read by everybody.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::Serialize;
use siding_model::journal::{self, JournalError, Replayed};
use siding_model::notice::TaskNotices;
use siding_model::record;

use crate::sys::file;

/// Name of the file in a task's or a session's directory.
pub const JOURNAL_FILE: &str = "journal";

/// Bytes kept set aside behind what is written, so that the end can be recorded on a full disk. The
/// longest record without a caller's text is a stop report of 64 processes, about 12 KiB.
const END_RESERVE_BYTES: u64 = 16 << 10;
/// Bytes set aside beyond that, so that few records have to set more aside.
const RESERVE_AHEAD_BYTES: u64 = 4 << 10;

/// Longest journal that is read.
const MAX_JOURNAL_BYTES: usize = 64 << 20;

/// A journal that this process alone may append to.
#[derive(Debug)]
pub struct JournalFile {
    fd: OwnedFd,
    offset: u64,
    next_seq: u64,
    /// End of what is known to be set aside.
    reserved: u64,
    /// Whether the last line lacks its newline. It is written together with the next record: a
    /// crash in between would leave a damaged line that nothing follows.
    is_torn: bool,
}

impl JournalFile {
    /// Creates a journal.
    ///
    /// # Errors
    ///
    /// The operating system's, `EEXIST` when there is one.
    pub fn create(dir: impl AsFd) -> io::Result<Self> {
        let fd = file::open_at(dir, JOURNAL_FILE, file::OpenMode::CreateNew)?;
        Ok(Self { fd, offset: 0, next_seq: 0, reserved: 0, is_torn: false })
    }

    /// Opens an existing journal after `whole` bytes of whole lines, to go on with `next_seq`.
    /// A torn line behind them is ended with the first append.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn resume(dir: impl AsFd, folded: &Replayed) -> io::Result<Self> {
        let fd = file::open_at(dir, JOURNAL_FILE, file::OpenMode::ReadWrite)?;
        let offset = file::metadata(&fd)?.len;
        let next_seq = folded.state.next_seq;
        Ok(Self { fd, offset, next_seq, reserved: 0, is_torn: folded.is_torn })
    }

    /// Appends records in one write. They are numbered on. When the write fails nothing counts as
    /// written, and the same place is written again next time.
    ///
    /// Space for the end of the task stays set aside behind them.
    ///
    /// # Errors
    ///
    /// The operating system's; for the first record also `ENOSPC` when there is no space for the
    /// end: better not to start than to end without a record.
    pub fn append<R: Serialize>(&mut self, records: &[R]) -> io::Result<()> {
        let mut lines = if self.is_torn { vec![b'\n'] } else { Vec::new() };
        for (seq, record) in (self.next_seq..).zip(records) {
            record::write_line(&mut lines, seq, record);
        }
        let reserved = self.reserve_after(lines.len() as u64);
        if self.next_seq == 0 {
            reserved?;
        }
        file::write_all_at(&self.fd, &lines, self.offset)?;
        self.is_torn = false;
        self.offset += lines.len() as u64;
        self.next_seq += records.len() as u64;
        Ok(())
    }

    /// Sets space aside for `coming` bytes and for the end behind them.
    fn reserve_after(&mut self, coming: u64) -> io::Result<()> {
        let needed = self.offset + coming + END_RESERVE_BYTES;
        if self.reserved >= needed {
            return Ok(());
        }
        match file::reserve(&self.fd, needed + RESERVE_AHEAD_BYTES) {
            // A file system that cannot reserve is used without that guarantee (`siding doctor`).
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            result => result?,
        }
        self.reserved = needed + RESERVE_AHEAD_BYTES;
        Ok(())
    }

    /// Sets space aside for one more record that is not long, and for the end behind it. What need
    /// not be written is left out when this fails, so that it never takes the place of the end.
    ///
    /// # Errors
    ///
    /// The operating system's, `ENOSPC` above all.
    pub fn reserve_record(&mut self) -> io::Result<()> {
        self.reserve_after(RESERVE_AHEAD_BYTES)
    }

    /// Returns the number of the next record.
    #[must_use]
    pub const fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Waits until all records are on the disk.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn sync(&self) -> io::Result<()> {
        file::sync_data(&self.fd)
    }

    /// Gives back the reserve. After the last record.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn release_reserve(&self) -> io::Result<()> {
        file::release_reserve(&self.fd)
    }
}

/// Why a journal could not be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalReadError {
    /// The operating system refused.
    #[error("could not read the journal")]
    Io(#[from] io::Error),
    /// Its content is not what this build understands.
    #[error(transparent)]
    Content(#[from] JournalError),
}

/// Reads and folds the journal in `dir`. A missing one is [`JournalError::Empty`].
///
/// # Errors
///
/// [`JournalReadError`].
pub fn read(dir: impl AsFd) -> Result<Replayed, JournalReadError> {
    match read_bytes(dir) {
        Ok(bytes) => Ok(journal::replay(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(JournalError::Empty.into()),
        Err(error) => Err(error.into()),
    }
}

/// Reads the journal in `dir` and what it has to tell. A missing one is [`JournalError::Empty`].
///
/// # Errors
///
/// [`JournalReadError`].
pub fn read_notices(dir: impl AsFd) -> Result<TaskNotices, JournalReadError> {
    match read_bytes(dir) {
        Ok(bytes) => Ok(TaskNotices::from_journal(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(JournalError::Empty.into()),
        Err(error) => Err(error.into()),
    }
}

/// Reads the bytes of the journal in `dir`.
///
/// # Errors
///
/// The operating system's.
pub fn read_bytes(dir: impl AsFd) -> io::Result<Vec<u8>> {
    let fd = file::open_at(dir, JOURNAL_FILE, file::OpenMode::Read)?;
    file::read_to_end(fd.as_fd(), MAX_JOURNAL_BYTES)
}
