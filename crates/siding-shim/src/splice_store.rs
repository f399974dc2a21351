//! Stores a burst of output, so that a shim that is killed meanwhile loses none of it.
//!
//! ```text
//! FIFO ─ tee ─► stage ─ splice ─► file, then as much is dropped from the FIFO
//! ```
//! A splice(2) from the FIFO directly into the file holds the FIFO's lock until the file is
//! written, so that the task's write(2) has to wait (101 MiB/s). A read(2) and a write(2) release
//! the lock in between, but a shim that is killed at that point loses the bytes that it has read
//! (190 MiB/s). The stage is a pipe of the shim: with it, shim and task write concurrently, and the
//! FIFO holds the bytes until they are in the file (250–310 MiB/s). The rates were measured with
//! lines of 128 bytes on Linux 6.18 and two cores.
//!
//! Between the last two steps the bytes are in both the file and the FIFO. A marker file next to
//! the FIFO identifies these bytes, and a takeover drops them from the FIFO
//! ([`discard_stored`]) after it has compared them with the bytes in the file. If the dead shim had
//! already dropped them, the comparison fails, unless the task has since written identical bytes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_core::sys::{file, pipe};

/// Maximum number of bytes that one step moves: the default size of a pipe, which needs no
/// fcntl(2).
const MAX_IN_FLIGHT_BYTES: usize = 64 << 10;
/// Bytes of the marker: an offset and a length.
const MARKER_BYTES: usize = 16;

/// The stage, which is a pipe, with the other descriptors that a step needs.
#[derive(Debug)]
pub(crate) struct SpliceStore {
    stage_read: OwnedFd,
    stage_write: OwnedFd,
    null: OwnedFd,
    marker: OwnedFd,
}

/// The number of bytes that [`SpliceStore::store`] moved, and the error that stopped the move.
#[derive(Debug)]
pub(crate) struct Transferred {
    /// Bytes that are in the file and no longer in the FIFO.
    pub(crate) bytes: usize,
    /// The reason why fewer bytes were transferred than the stage contained; `None` if all were.
    pub(crate) failure: Option<io::Error>,
}

impl SpliceStore {
    /// Creates the stage, and opens the marker file in `runtime_dir`, next to the FIFO. A missing
    /// marker file is created.
    pub(crate) fn prepare(runtime_dir: impl AsFd, marker_file: &str) -> io::Result<Self> {
        let (read, write) = pipe::create_pipe()?;
        let marker = match file::open_at(&runtime_dir, marker_file, file::OpenMode::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                file::open_at(&runtime_dir, marker_file, file::OpenMode::ReadWrite)
            }
            result => result,
        }?;
        Ok(Self { stage_read: read, stage_write: write, null: file::open_null()?, marker })
    }

    /// Copies at most `max_bytes` from the FIFO to the stage with tee(2), which does not remove
    /// them from the FIFO. Returns the number of copied bytes.
    pub(crate) fn tee_to_stage(&self, fifo: impl AsFd, max_bytes: usize) -> io::Result<usize> {
        pipe::tee(fifo, &self.stage_write, max_bytes.min(MAX_IN_FLIGHT_BYTES))
    }

    /// Moves `bytes` from the stage to `offset` of the file, and drops them from the FIFO. After a
    /// failure the stage may not be empty, and must not be used again.
    pub(crate) fn store(
        &self,
        fifo: impl AsFd,
        file: impl AsFd,
        offset: u64,
        bytes: usize,
    ) -> Transferred {
        let mut moved = Transferred { bytes: 0, failure: None };
        if let Err(error) = self.write_marker(offset, bytes as u64) {
            moved.failure = Some(error);
            return moved;
        }
        let mut stored = 0;
        while stored < bytes && moved.failure.is_none() {
            let at = offset + stored as u64;
            match pipe::splice_to_file(&self.stage_read, &file, at, bytes - stored) {
                Ok(count) => stored += count,
                Err(error) => moved.failure = Some(error),
            }
        }
        match pipe::discard(&fifo, &self.null, stored) {
            Ok(()) => moved.bytes = stored,
            Err(error) => moved.failure = Some(error),
        }
        // A marker that is not cleared seldom does harm: a takeover drops bytes from the FIFO only
        // if they equal the bytes in the file.
        let _best_effort = self.write_marker(0, 0);
        moved
    }

    fn write_marker(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut marker = [0; MARKER_BYTES];
        marker[..8].copy_from_slice(&offset.to_le_bytes());
        marker[8..].copy_from_slice(&bytes.to_le_bytes());
        file::write_all_at(&self.marker, &marker, 0)
    }
}

/// Drops from the FIFO the bytes that a killed shim had stored, but not yet dropped, and removes
/// the marker.
pub(crate) fn discard_stored(
    runtime_dir: impl AsFd,
    marker_file: &str,
    fifo: impl AsFd,
    stored: impl AsFd,
) -> io::Result<()> {
    let marker = match file::open_at(&runtime_dir, marker_file, file::OpenMode::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    let mut bytes = [0; MARKER_BYTES];
    if file::read_at(&marker, &mut bytes, 0)? == MARKER_BYTES {
        let number = |at: usize| {
            bytes[at..at + 8].iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte))
        };
        let (offset, in_flight) = (number(0), number(8));
        let duplicated = file::metadata(&stored)?.len.saturating_sub(offset);
        if duplicated > 0 && duplicated <= in_flight.min(MAX_IN_FLIGHT_BYTES as u64) {
            discard_if_equal(&fifo, &stored, offset, duplicated as usize)?;
        }
    }
    file::remove(runtime_dir, marker_file)
}

/// Drops the first `bytes` bytes from the FIFO if they equal those at `offset` of the file.
fn discard_if_equal(
    fifo: impl AsFd,
    stored: impl AsFd,
    offset: u64,
    bytes: usize,
) -> io::Result<()> {
    let (read, write) = pipe::create_pipe()?;
    let shared = match pipe::tee(&fifo, &write, bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        result => result?,
    };
    let (mut here, mut there) = (vec![0; bytes], vec![0; bytes]);
    let read = if shared == bytes { file::read(read, &mut here)? } else { 0 };
    if read == bytes && file::read_at(stored, &mut there, offset)? == bytes && here == there {
        pipe::discard(fifo, file::open_null()?, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task's runtime directory with a FIFO and a file.
    struct Fixture {
        _directory: tempfile::TempDir,
        runtime_dir: OwnedFd,
        fifo: OwnedFd,
        file: OwnedFd,
    }

    impl Fixture {
        fn new(stored: &[u8], in_fifo: &[u8]) -> Self {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let runtime_dir = file::open_directory(directory.path()).expect("was created");
            file::create_fifo(&runtime_dir, "fifo").expect("own directory");
            let fifo = file::open_at(&runtime_dir, "fifo", file::OpenMode::FifoReadWrite)
                .expect("was created");
            let file = file::open_at(&runtime_dir, "file", file::OpenMode::CreateNew)
                .expect("own directory");
            file::write_all_at(&file, stored, 0).expect("own file");
            assert_eq!(file::write(&fifo, in_fifo).expect("room for a page"), in_fifo.len());
            Self { _directory: directory, runtime_dir, fifo, file }
        }

        /// Writes a marker, like the one that a killed shim leaves behind.
        fn with_marker(self, offset: u64, bytes: u64) -> Self {
            SpliceStore::prepare(&self.runtime_dir, "marker")
                .and_then(|store| store.write_marker(offset, bytes))
                .expect("own directory");
            self
        }

        /// Returns the content of the FIFO after two takeovers: the first new shim was killed, too.
        fn fifo_after_recovery(&self) -> String {
            for _ in 0..2 {
                discard_stored(&self.runtime_dir, "marker", &self.fifo, &self.file)
                    .expect("own files");
            }
            self.fifo_content()
        }

        fn fifo_content(&self) -> String {
            let mut bytes = [0; 4096];
            let count = file::read(&self.fifo, &mut bytes).unwrap_or(0);
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        }
    }

    #[test]
    fn bytes_in_both_file_and_fifo_are_dropped_once() {
        // The shim is killed before the first byte is stored, in the middle, and after the last.
        for stored in 0..=4 {
            let file = &b"one\ntwo\n"[..4 + stored];
            let fixture = Fixture::new(file, b"two\nthree\n").with_marker(4, 4);
            assert_eq!(fixture.fifo_after_recovery(), &"two\nthree\n"[stored..], "{stored} stored");
        }
    }

    #[test]
    fn bytes_only_in_the_fifo_stay() {
        // The bytes were dropped, and the shim was killed before it cleared the marker.
        let dropped = Fixture::new(b"one\ntwo\n", b"three\n").with_marker(4, 4);
        assert_eq!(dropped.fifo_after_recovery(), "three\n");
        let silent_since = Fixture::new(b"one\ntwo\n", b"").with_marker(4, 4);
        assert_eq!(silent_since.fifo_after_recovery(), "");
        let moved_on = Fixture::new(b"one\ntwo\nthree\n", b"two\n").with_marker(4, 4);
        assert_eq!(moved_on.fifo_after_recovery(), "two\n");
        assert_eq!(
            Fixture::new(b"one\n", b"one\n").with_marker(0, 0).fifo_after_recovery(),
            "one\n"
        );
        assert_eq!(Fixture::new(b"one\n", b"one\n").fifo_after_recovery(), "one\n");
    }

    #[test]
    fn stored_bytes_move_from_the_fifo_to_the_file() {
        let fixture = Fixture::new(b"one\n", b"two\nthree\n");
        let store = SpliceStore::prepare(&fixture.runtime_dir, "marker").expect("own directory");
        let shared = store.tee_to_stage(&fixture.fifo, 4).expect("the stage is empty");
        let moved = store.store(&fixture.fifo, &fixture.file, 4, shared);
        assert!(moved.failure.is_none() && moved.bytes == 4, "{moved:?}");
        let mut bytes = [0; 16];
        let count = file::read_at(&fixture.file, &mut bytes, 0).expect("own file");
        assert_eq!(&bytes[..count], b"one\ntwo\n");
        assert_eq!(fixture.fifo_content(), "three\n");
    }

    /// On a full disk the bytes that were not stored are still in the FIFO.
    #[test]
    fn a_failed_store_leaves_the_bytes_in_the_fifo() {
        let fixture = Fixture::new(b"", b"two\n");
        let store = SpliceStore::prepare(&fixture.runtime_dir, "marker").expect("own directory");
        let shared = store.tee_to_stage(&fixture.fifo, 64).expect("the stage is empty");
        let full = std::fs::File::options().write(true).open("/dev/full").expect("always exists");
        let moved = store.store(&fixture.fifo, &full, 0, shared);
        assert!(moved.failure.is_some() && moved.bytes == 0, "{moved:?}");
        assert_eq!(fixture.fifo_content(), "two\n");
    }
}
