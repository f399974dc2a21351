//! The journal as a file, with one writer and any number of readers.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::journal::{self, JournalError, Replayed};
use siding_model::notice::TaskNotices;
use siding_model::record::{self, NEWEST_FORMAT, Record};

use crate::sys::file;

/// Name of the file in a task's or a session's directory.
pub const JOURNAL_FILE: &str = "journal";

/// Bytes that stay allocated behind the last record, so that the end of a task can be recorded on a
/// full disk. The longest record without text from a caller is a stop report of 64 processes, about
/// 12 KiB.
const END_RESERVE_BYTES: u64 = 16 << 10;
/// Bytes allocated beyond that reserve, so that few appends need another call of fallocate(2).
const RESERVE_AHEAD_BYTES: u64 = 4 << 10;

/// Maximum size of a journal, in bytes. Reading a larger journal fails.
const MAX_JOURNAL_BYTES: usize = 64 << 20;

/// A journal to which only this process appends.
#[derive(Debug)]
pub struct JournalFile {
    fd: OwnedFd,
    offset: u64,
    next_seq: u64,
    /// The format in which every record of this journal is written.
    format: u32,
    /// Offset up to which space is known to be allocated.
    reserved: u64,
    /// Whether the last line lacks its newline. The newline is written together with the next
    /// record: if it were written alone, a crash afterwards would leave a damaged line at the end.
    is_torn: bool,
}

impl JournalFile {
    /// Creates a journal of the newest format.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `EEXIST` if the journal exists.
    pub fn create(dir: impl AsFd) -> io::Result<Self> {
        let fd = file::open_at(dir, JOURNAL_FILE, file::OpenMode::CreateNew)?;
        Ok(Self { fd, offset: 0, next_seq: 0, format: NEWEST_FORMAT, reserved: 0, is_torn: false })
    }

    /// Opens an existing journal to append after its replayed records. The first append terminates
    /// a torn last line.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn resume(dir: impl AsFd, folded: &Replayed) -> io::Result<Self> {
        let fd = file::open_at(dir, JOURNAL_FILE, file::OpenMode::ReadWrite)?;
        let offset = file::metadata(&fd)?.len;
        let (next_seq, format) = (folded.state.next_seq, folded.state.format);
        Ok(Self { fd, offset, next_seq, format, reserved: 0, is_torn: folded.is_torn })
    }

    /// Appends consecutively numbered records in one write. After a failed write, all of these
    /// records are treated as not written, and the next append overwrites the same offset.
    ///
    /// Keeps the reserve for the final record allocated behind these records.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call. The first append also fails with `ENOSPC` if the reserve
    /// cannot be allocated: a task must not start if its end could not be recorded.
    pub fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let mut lines = if self.is_torn { vec![b'\n'] } else { Vec::new() };
        for (seq, record) in (self.next_seq..).zip(records) {
            record::write_record(&mut lines, seq, record, self.format);
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

    /// Allocates space for `coming` bytes and for the reserve behind them.
    fn reserve_after(&mut self, coming: u64) -> io::Result<()> {
        let needed = self.offset + coming + END_RESERVE_BYTES;
        if self.reserved >= needed {
            return Ok(());
        }
        match file::reserve(&self.fd, needed + RESERVE_AHEAD_BYTES) {
            // Without support for fallocate(2), the final record may be lost on a full disk;
            // `siding doctor` reports such a file system.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            result => result?,
        }
        self.reserved = needed + RESERVE_AHEAD_BYTES;
        Ok(())
    }

    /// Allocates space for one short record and for the reserve behind it. Optional records are
    /// skipped when this fails, so that they never use up the reserve of the final record.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, usually `ENOSPC`.
    pub fn reserve_record(&mut self) -> io::Result<()> {
        self.reserve_after(RESERVE_AHEAD_BYTES)
    }

    /// Returns the sequence number of the next record.
    #[must_use]
    pub const fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Waits until all records are on disk (fdatasync(2)).
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn sync(&self) -> io::Result<()> {
        file::sync_data(&self.fd)
    }

    /// Releases the reserve. Called after the last record.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn release_reserve(&self) -> io::Result<()> {
        file::release_reserve(&self.fd)
    }
}

/// The reason why a journal could not be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalReadError {
    /// The file could not be opened or read, or exceeds the maximum size.
    #[error("could not read the journal")]
    Io(#[from] io::Error),
    /// The content is corrupt or has an unknown format.
    #[error(transparent)]
    Content(#[from] JournalError),
}

/// Reads and replays the journal in `dir`. A missing journal is [`JournalError::Empty`].
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

/// Reads the journal in `dir` and extracts its notices. A missing journal is
/// [`JournalError::Empty`].
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

/// Returns the size of the journal in `dir`, in bytes.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn size(dir: impl AsFd) -> io::Result<u64> {
    let fd = file::open_at(dir, JOURNAL_FILE, file::OpenMode::Read)?;
    file::metadata(&fd).map(|facts| facts.len)
}

/// Reads the bytes of the journal in `dir` without parsing them.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn read_bytes(dir: impl AsFd) -> io::Result<Vec<u8>> {
    let fd = file::open_at(dir, JOURNAL_FILE, file::OpenMode::Read)?;
    file::read_to_end(fd.as_fd(), MAX_JOURNAL_BYTES)
}

/// Reads the bytes of the journal in `dir` like [`read_bytes`]. Returns `None` if the journal has
/// `known_bytes` bytes: a journal grows with each record. The only exception is a record that
/// replaces one of the same length that a full disk has cut off.
///
/// # Errors
///
/// The errors of [`read_bytes`].
pub fn read_bytes_if_grown(dir: impl AsFd, known_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let fd = file::open_at(dir, JOURNAL_FILE, file::OpenMode::Read)?;
    if file::metadata(&fd)?.len == known_bytes {
        return Ok(None);
    }
    file::read_to_end(fd.as_fd(), MAX_JOURNAL_BYTES).map(Some)
}

#[cfg(test)]
mod tests {
    use siding_model::lifecycle::TaskEvent;
    use siding_model::process::MonotonicMs;

    use super::*;

    #[test]
    fn only_a_journal_that_has_grown_is_read_again() {
        let temporary = tempfile::tempdir().expect("a directory");
        let dir = std::fs::File::open(temporary.path()).expect("own directory");
        let missing = read_bytes_if_grown(&dir, 0).expect_err("there is no journal");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let mut journal = JournalFile::create(&dir).expect("own directory");
        let record = Record::Event { at: MonotonicMs(1), event: TaskEvent::TreeEmpty };
        let mut known_bytes = 0;
        for _ in 0..2 {
            journal.append(std::slice::from_ref(&record)).expect("there is space");
            let bytes = read_bytes_if_grown(&dir, known_bytes).expect("readable");
            let bytes = bytes.expect("it has grown");
            assert_eq!(bytes, read_bytes(&dir).expect("readable"));
            known_bytes = bytes.len() as u64;
            // The reserved space behind the record is not content.
            assert_eq!(read_bytes_if_grown(&dir, known_bytes).expect("readable"), None);
        }
    }
}
