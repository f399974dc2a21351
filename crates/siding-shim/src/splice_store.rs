//! Storing a flood, so that a shim that is killed meanwhile loses nothing.
//!
//! ```text
//! FIFO ─ tee ─► stage ─ splice ─► file, then as much is dropped from the FIFO
//! ```
//! To move bytes from the FIFO straight into the file takes the FIFO's lock for as long as the file is
//! written, and the task must wait to write: 101 MiB/s for lines. To read them and write them lets go
//! of the lock, and loses what was read when the shim is killed in between: 190 MiB/s. Through the
//! stage both write at the same time, and the FIFO has everything until the file has it: 250–310 MiB/s
//! (lines of 128 bytes, Linux 6.18, 2 cores).
//!
//! Between the last two steps the same bytes are in both places. A mark beside the FIFO says which
//! they are, and a rescuer drops them ([`discard_stored`]). It knows them by what they are: had they been
//! dropped already, only a task that has since written the very same, byte for byte, loses that.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_core::output::SPLICE_MARKER_FILE;
use siding_core::sys::{file, pipe};

/// Most bytes that are under way at once: a pipe of the default size, which nobody has to ask for.
const MAX_IN_FLIGHT_BYTES: usize = 64 << 10;
/// Bytes of a mark: an offset and a length.
const MARKER_BYTES: usize = 16;

/// What a flow through the stage needs.
#[derive(Debug)]
pub(crate) struct SpliceStore {
    stage_read: OwnedFd,
    stage_write: OwnedFd,
    null: OwnedFd,
    marker: OwnedFd,
}

/// What came of a step.
#[derive(Debug)]
pub(crate) struct Transferred {
    /// Bytes that the file has and the FIFO no longer.
    pub(crate) bytes: usize,
    /// Why it was not all that was under way.
    pub(crate) failure: Option<io::Error>,
}

impl SpliceStore {
    /// Prepares, with the mark in `place`, beside the FIFO.
    pub(crate) fn prepare(runtime_dir: impl AsFd) -> io::Result<Self> {
        let (read, write) = pipe::create_pipe()?;
        let mark = match file::open_at(&runtime_dir, SPLICE_MARKER_FILE, file::OpenMode::CreateNew)
        {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                file::open_at(&runtime_dir, SPLICE_MARKER_FILE, file::OpenMode::ReadWrite)
            }
            result => result,
        }?;
        Ok(Self { stage_read: read, stage_write: write, null: file::open_null()?, marker: mark })
    }

    /// Has the stage share what is in the FIFO, at most `most` bytes. Returns how many those are.
    pub(crate) fn tee_to_stage(&self, fifo: impl AsFd, most: usize) -> io::Result<usize> {
        pipe::tee(fifo, &self.stage_write, most.min(MAX_IN_FLIGHT_BYTES))
    }

    /// Moves `bytes` that the stage shares to `offset` of the file, and drops them from the FIFO.
    /// After a failure this flood is over.
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
        // One that stays is compared with what is there, and found to be over.
        let _best_effort = self.write_marker(0, 0);
        moved
    }

    fn write_marker(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut mark = [0; MARKER_BYTES];
        mark[..8].copy_from_slice(&offset.to_le_bytes());
        mark[8..].copy_from_slice(&bytes.to_le_bytes());
        file::write_all_at(&self.marker, &mark, 0)
    }
}

/// Drops from the FIFO what a shim that was killed had stored and not yet dropped.
pub(crate) fn discard_stored(
    runtime_dir: impl AsFd,
    fifo: impl AsFd,
    stored: impl AsFd,
) -> io::Result<()> {
    let marker = match file::open_at(&runtime_dir, SPLICE_MARKER_FILE, file::OpenMode::ReadWrite) {
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
    file::remove(runtime_dir, SPLICE_MARKER_FILE)
}

/// Drops so many bytes from the FIFO if they are those at `offset` of the file.
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

    /// A task's place with a FIFO that holds `held` and a file that holds `stored`.
    struct Fixture {
        _directory: tempfile::TempDir,
        runtime_dir: OwnedFd,
        fifo: OwnedFd,
        file: OwnedFd,
    }

    impl Fixture {
        fn new(stored: &[u8], held: &[u8]) -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let place = file::open_directory(directory.path()).expect("it was made");
            file::create_fifo(&place, "fifo").expect("own directory");
            let fifo =
                file::open_at(&place, "fifo", file::OpenMode::FifoReadWrite).expect("it was made");
            let file =
                file::open_at(&place, "file", file::OpenMode::CreateNew).expect("own directory");
            file::write_all_at(&file, stored, 0).expect("own file");
            assert_eq!(file::write(&fifo, held).expect("room for a page"), held.len());
            Self { _directory: directory, runtime_dir: place, fifo, file }
        }

        /// Marks `bytes` at `offset`, as a shim does that is killed then.
        fn with_marker(self, offset: u64, bytes: u64) -> Self {
            SpliceStore::prepare(&self.runtime_dir)
                .and_then(|flood| flood.write_marker(offset, bytes))
                .expect("marked");
            self
        }

        /// What the FIFO holds once that is settled, by two rescuers of whom one was killed.
        fn fifo_after_recovery(&self) -> String {
            for _ in 0..2 {
                discard_stored(&self.runtime_dir, &self.fifo, &self.file).expect("settled");
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
        // Killed before the first byte, within, and after the last was stored.
        for stored in 0..=4 {
            let file = &b"one\ntwo\n"[..4 + stored];
            let scene = Fixture::new(file, b"two\nthree\n").with_marker(4, 4);
            assert_eq!(scene.fifo_after_recovery(), &"two\nthree\n"[stored..], "{stored} stored");
        }
    }

    #[test]
    fn bytes_only_in_the_fifo_stay() {
        // It was dropped, and the mark was not cleared any more.
        let dropped = Fixture::new(b"one\ntwo\n", b"three\n").with_marker(4, 4);
        assert_eq!(dropped.fifo_after_recovery(), "three\n");
        let nothing_since = Fixture::new(b"one\ntwo\n", b"").with_marker(4, 4);
        assert_eq!(nothing_since.fifo_after_recovery(), "");
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
        let scene = Fixture::new(b"one\n", b"two\nthree\n");
        let flood = SpliceStore::prepare(&scene.runtime_dir).expect("begins");
        let shared = flood.tee_to_stage(&scene.fifo, 4).expect("shared");
        let moved = flood.store(&scene.fifo, &scene.file, 4, shared);
        assert!(moved.failure.is_none() && moved.bytes == 4, "{moved:?}");
        let mut bytes = [0; 16];
        let count = file::read_at(&scene.file, &mut bytes, 0).expect("own file");
        assert_eq!(&bytes[..count], b"one\ntwo\n");
        assert_eq!(scene.fifo_content(), "three\n");
    }

    /// A full disk: what it has not taken is still in the FIFO.
    #[test]
    fn a_failed_store_leaves_the_bytes_in_the_fifo() {
        let scene = Fixture::new(b"", b"two\n");
        let flood = SpliceStore::prepare(&scene.runtime_dir).expect("begins");
        let shared = flood.tee_to_stage(&scene.fifo, 64).expect("shared");
        let full = std::fs::File::options().write(true).open("/dev/full").expect("is there");
        let moved = flood.store(&scene.fifo, &full, 0, shared);
        assert!(moved.failure.is_some() && moved.bytes == 0, "{moved:?}");
        assert_eq!(scene.fifo_content(), "two\n");
    }
}
