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
//! they are, and a rescuer drops them ([`settle`]). It knows them by what they are: had they been
//! dropped already, only a task that has since written the very same, byte for byte, loses that.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_core::output::SPLICE_MARKER_FILE;
use siding_core::sys::{file, pipe};

/// Most bytes that are under way at once: a pipe of the default size, which nobody has to ask for.
const MOST: usize = 64 << 10;
/// Bytes of a mark: an offset and a length.
const MARK: usize = 16;

/// What a flow through the stage needs.
#[derive(Debug)]
pub(crate) struct Flood {
    read: OwnedFd,
    write: OwnedFd,
    null: OwnedFd,
    mark: OwnedFd,
}

/// What came of a step.
#[derive(Debug)]
pub(crate) struct Moved {
    /// Bytes that the file has and the FIFO no longer.
    pub(crate) bytes: usize,
    /// Why it was not all that was under way.
    pub(crate) failure: Option<io::Error>,
}

impl Flood {
    /// Prepares, with the mark in `place`, beside the FIFO.
    pub(crate) fn begin(place: impl AsFd) -> io::Result<Self> {
        let (read, write) = pipe::create_pipe()?;
        let mark = match file::open_at(&place, SPLICE_MARKER_FILE, file::OpenMode::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                file::open_at(&place, SPLICE_MARKER_FILE, file::OpenMode::ReadWrite)
            }
            result => result,
        }?;
        Ok(Self { read, write, null: file::open_null()?, mark })
    }

    /// Has the stage share what is in the FIFO, at most `most` bytes. Returns how many those are.
    pub(crate) fn share(&self, fifo: impl AsFd, most: usize) -> io::Result<usize> {
        pipe::tee(fifo, &self.write, most.min(MOST))
    }

    /// Moves `bytes` that the stage shares to `offset` of the file, and drops them from the FIFO.
    /// After a failure this flood is over.
    pub(crate) fn store(
        &self,
        fifo: impl AsFd,
        file: impl AsFd,
        offset: u64,
        bytes: usize,
    ) -> Moved {
        let mut moved = Moved { bytes: 0, failure: None };
        if let Err(error) = self.note(offset, bytes as u64) {
            moved.failure = Some(error);
            return moved;
        }
        let mut stored = 0;
        while stored < bytes && moved.failure.is_none() {
            let at = offset + stored as u64;
            match pipe::splice_to_file(&self.read, &file, at, bytes - stored) {
                Ok(count) => stored += count,
                Err(error) => moved.failure = Some(error),
            }
        }
        match pipe::discard(&fifo, &self.null, stored) {
            Ok(()) => moved.bytes = stored,
            Err(error) => moved.failure = Some(error),
        }
        // One that stays is compared with what is there, and found to be over.
        let _stays = self.note(0, 0);
        moved
    }

    fn note(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut mark = [0; MARK];
        mark[..8].copy_from_slice(&offset.to_le_bytes());
        mark[8..].copy_from_slice(&bytes.to_le_bytes());
        file::write_all_at(&self.mark, &mark, 0)
    }
}

/// Drops from the FIFO what a shim that was killed had stored and not yet dropped.
pub(crate) fn settle(place: impl AsFd, fifo: impl AsFd, stored: impl AsFd) -> io::Result<()> {
    let mark = match file::open_at(&place, SPLICE_MARKER_FILE, file::OpenMode::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    let mut bytes = [0; MARK];
    if file::read_at(&mark, &mut bytes, 0)? == MARK {
        let number = |at: usize| {
            bytes[at..at + 8].iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte))
        };
        let (offset, under_way) = (number(0), number(8));
        let twice = file::metadata(&stored)?.len.saturating_sub(offset);
        if twice > 0 && twice <= under_way.min(MOST as u64) {
            drop_twice(&fifo, &stored, offset, twice as usize)?;
        }
    }
    file::remove(place, SPLICE_MARKER_FILE)
}

/// Drops so many bytes from the FIFO if they are those at `offset` of the file.
fn drop_twice(fifo: impl AsFd, stored: impl AsFd, offset: u64, bytes: usize) -> io::Result<()> {
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
    struct Scene {
        _directory: tempfile::TempDir,
        place: OwnedFd,
        fifo: OwnedFd,
        file: OwnedFd,
    }

    impl Scene {
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
            Self { _directory: directory, place, fifo, file }
        }

        /// Marks `bytes` at `offset`, as a shim does that is killed then.
        fn killed_at(self, offset: u64, bytes: u64) -> Self {
            Flood::begin(&self.place).and_then(|flood| flood.note(offset, bytes)).expect("marked");
            self
        }

        /// What the FIFO holds once that is settled, by two rescuers of whom one was killed.
        fn settled(&self) -> String {
            for _ in 0..2 {
                settle(&self.place, &self.fifo, &self.file).expect("settled");
            }
            self.held()
        }

        fn held(&self) -> String {
            let mut bytes = [0; 4096];
            let count = file::read(&self.fifo, &mut bytes).unwrap_or(0);
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        }
    }

    #[test]
    fn what_is_in_both_places_is_dropped_once() {
        // Killed before the first byte, within, and after the last was stored.
        for stored in 0..=4 {
            let file = &b"one\ntwo\n"[..4 + stored];
            let scene = Scene::new(file, b"two\nthree\n").killed_at(4, 4);
            assert_eq!(scene.settled(), &"two\nthree\n"[stored..], "{stored} stored");
        }
    }

    #[test]
    fn what_is_in_the_fifo_alone_stays() {
        // It was dropped, and the mark was not cleared any more.
        let dropped = Scene::new(b"one\ntwo\n", b"three\n").killed_at(4, 4);
        assert_eq!(dropped.settled(), "three\n");
        let nothing_since = Scene::new(b"one\ntwo\n", b"").killed_at(4, 4);
        assert_eq!(nothing_since.settled(), "");
        let moved_on = Scene::new(b"one\ntwo\nthree\n", b"two\n").killed_at(4, 4);
        assert_eq!(moved_on.settled(), "two\n");
        assert_eq!(Scene::new(b"one\n", b"one\n").killed_at(0, 0).settled(), "one\n");
        assert_eq!(Scene::new(b"one\n", b"one\n").settled(), "one\n");
    }

    #[test]
    fn a_flood_ends_in_the_file() {
        let scene = Scene::new(b"one\n", b"two\nthree\n");
        let flood = Flood::begin(&scene.place).expect("begins");
        let shared = flood.share(&scene.fifo, 4).expect("shared");
        let moved = flood.store(&scene.fifo, &scene.file, 4, shared);
        assert!(moved.failure.is_none() && moved.bytes == 4, "{moved:?}");
        let mut bytes = [0; 16];
        let count = file::read_at(&scene.file, &mut bytes, 0).expect("own file");
        assert_eq!(&bytes[..count], b"one\ntwo\n");
        assert_eq!(scene.held(), "three\n");
    }

    /// A full disk: what it has not taken is still in the FIFO.
    #[test]
    fn a_failure_leaves_the_rest_where_it_was() {
        let scene = Scene::new(b"", b"two\n");
        let flood = Flood::begin(&scene.place).expect("begins");
        let shared = flood.share(&scene.fifo, 64).expect("shared");
        let full = std::fs::File::options().write(true).open("/dev/full").expect("is there");
        let moved = flood.store(&scene.fifo, &full, 0, shared);
        assert!(moved.failure.is_some() && moved.bytes == 0, "{moved:?}");
        assert_eq!(scene.held(), "two\n");
    }
}
