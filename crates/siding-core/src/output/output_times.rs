//! The times at which the output of a task's terminal was stored.
//!
//! The file [`OUTPUT_TIMES_FILE`] of a task with a terminal consists of entries of two numbers: an
//! output offset, and the time (`CLOCK_MONOTONIC`, in milliseconds) at which the output from this
//! offset was stored. An entry applies up to the next one. The shim adds an entry after it has
//! stored output, at most one per [`MIN_INTERVAL_MS`]. A quiet task therefore writes nothing, and
//! output that follows within the interval gets the time of the preceding entry. A file with
//! [`MAX_ENTRIES`] entries is thinned out: every second entry is removed, and the interval is
//! doubled.
//!
//! The thinning overwrites the file from its start. If the shim is killed during the thinning, the
//! file contains some entries twice. A reader ignores an entry that is not later than its
//! predecessor.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::process::MonotonicMs;

use super::number_pair::{self, PAIR_BYTES};
use crate::store::TaskDir;
use crate::store::task_files::OUTPUT_TIMES_FILE;
use crate::sys::file;

/// Minimum time between two entries until the first thinning, in milliseconds.
const MIN_INTERVAL_MS: u64 = 50;
/// Maximum number of entries: a file of 256 KiB, for at least 13 minutes of continuous output
/// before the first thinning.
const MAX_ENTRIES: u64 = 16 << 10;
/// Number of entries that one step of the thinning reads. Must be even.
const ENTRIES_PER_STEP: usize = 256;

/// Appends the times of a task's output. Only the shim of the task writes them.
#[derive(Debug)]
pub struct OutputTimesWriter {
    file: OwnedFd,
    /// Number of entries in the file.
    entries: u64,
    /// Time of the last entry of this shim.
    last_at: Option<MonotonicMs>,
    interval_ms: u64,
}

impl OutputTimesWriter {
    /// Creates the file of a new task.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn create(task_dir: impl AsFd) -> io::Result<Self> {
        let file = file::open_at(task_dir, OUTPUT_TIMES_FILE, file::OpenMode::CreateNew)?;
        Ok(Self { file, entries: 0, last_at: None, interval_ms: MIN_INTERVAL_MS })
    }

    /// Opens the file of a task that another shim started. A removed file is created again.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn resume(task_dir: impl AsFd) -> io::Result<Self> {
        let file = file::open_or_create(task_dir, OUTPUT_TIMES_FILE)?;
        let stored = file::metadata(&file)?.len / PAIR_BYTES as u64;
        let entries = stored.min(MAX_ENTRIES);
        Ok(Self { file, entries, last_at: None, interval_ms: MIN_INTERVAL_MS })
    }

    /// Records that the stored output from `offset` on was stored at the time `at`.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call. The output then gets the time of the preceding entry.
    pub fn append(&mut self, offset: u64, at: MonotonicMs) -> io::Result<()> {
        if self.last_at.is_some_and(|last| at.ms_since(last) < self.interval_ms) {
            return Ok(());
        }
        // After a failed write, for example on a full disk, the next write also waits for the
        // interval.
        self.last_at = Some(at);
        if self.entries >= MAX_ENTRIES {
            self.thin_out()?;
        }
        let entry = number_pair::encode(offset, at.0);
        file::write_all_at(&self.file, &entry, self.entries * PAIR_BYTES as u64)?;
        self.entries += 1;
        Ok(())
    }

    /// Removes every second entry, and doubles the interval.
    ///
    /// This function is not inlined, because its buffer would enlarge the stack of the shim's loop.
    #[inline(never)]
    fn thin_out(&mut self) -> io::Result<()> {
        let mut bytes = [0; ENTRIES_PER_STEP * PAIR_BYTES];
        let (mut next, mut kept) = (0, 0);
        while next < self.entries {
            let count = file::read_at(&self.file, &mut bytes, next * PAIR_BYTES as u64)?;
            let pairs = bytes[..count].chunks_exact(PAIR_BYTES);
            let read = pairs.len() as u64;
            if read == 0 {
                break;
            }
            next += read;
            let remaining: Vec<u8> = pairs.step_by(2).flatten().copied().collect();
            file::write_all_at(&self.file, &remaining, kept * PAIR_BYTES as u64)?;
            kept += (remaining.len() / PAIR_BYTES) as u64;
        }
        file::truncate(&self.file, kept * PAIR_BYTES as u64)?;
        self.entries = kept;
        self.interval_ms = self.interval_ms.saturating_mul(2);
        Ok(())
    }
}

/// The time at which the output from an offset on was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputTime {
    /// Offset of the first byte.
    pub offset: u64,
    /// The time.
    pub at: MonotonicMs,
}

/// Reads the times at which the output of a task was stored, in ascending order. Returns an empty
/// list if the task has no terminal, or if the file is missing or unreadable.
#[must_use]
pub fn read_output_times(dir: &TaskDir) -> Vec<OutputTime> {
    read_entries(dir).unwrap_or_default()
}

fn read_entries(dir: impl AsFd) -> io::Result<Vec<OutputTime>> {
    const MAX_FILE_BYTES: usize = MAX_ENTRIES as usize * PAIR_BYTES;
    let file = file::open_at(dir, OUTPUT_TIMES_FILE, file::OpenMode::Read)?;
    let bytes = file::read_to_end(file.as_fd(), MAX_FILE_BYTES)?;
    let mut times: Vec<OutputTime> = Vec::with_capacity(bytes.len() / PAIR_BYTES);
    for entry in bytes.chunks_exact(PAIR_BYTES) {
        let (offset, at) = number_pair::decode(entry);
        let time = OutputTime { offset, at: MonotonicMs(at) };
        let follows =
            times.last().is_none_or(|last| last.offset < time.offset && last.at <= time.at);
        if follows {
            times.push(time);
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        directory: tempfile::TempDir,
        fd: OwnedFd,
    }

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let fd = file::open_directory(directory.path()).expect("was created");
            Self { directory, fd }
        }

        fn times(&self) -> Vec<(u64, u64)> {
            let times = read_entries(&self.fd).unwrap_or_default();
            times.into_iter().map(|time| (time.offset, time.at.0)).collect()
        }

        fn path(&self) -> std::path::PathBuf {
            self.directory.path().join(OUTPUT_TIMES_FILE)
        }
    }

    fn append(writer: &mut OutputTimesWriter, offset: u64, at: u64) {
        writer.append(offset, MonotonicMs(at)).expect("own file");
    }

    #[test]
    fn output_within_the_interval_gets_no_entry() {
        let fixture = Fixture::new();
        let mut writer = OutputTimesWriter::create(&fixture.fd).expect("own directory");
        for (offset, at) in [(0, 1_000), (5, 1_049), (9, 1_050), (12, 1_060), (13, 9_000)] {
            append(&mut writer, offset, at);
        }
        assert_eq!(fixture.times(), [(0, 1_000), (9, 1_050), (13, 9_000)]);
    }

    #[test]
    fn another_shim_continues_a_file_and_replaces_a_missing_one() {
        let fixture = Fixture::new();
        let mut writer = OutputTimesWriter::create(&fixture.fd).expect("own directory");
        append(&mut writer, 0, 1_000);
        // The first shim was killed during a write.
        let torn = [std::fs::read(fixture.path()).expect("exists"), vec![1; 5]].concat();
        std::fs::write(fixture.path(), torn).expect("own file");
        let mut writer = OutputTimesWriter::resume(&fixture.fd).expect("own file");
        append(&mut writer, 7, 1_010);
        assert_eq!(fixture.times(), [(0, 1_000), (7, 1_010)]);
        std::fs::remove_file(fixture.path()).expect("exists");
        let mut writer = OutputTimesWriter::resume(&fixture.fd).expect("own directory");
        append(&mut writer, 9, 1_020);
        assert_eq!(fixture.times(), [(9, 1_020)]);
    }

    #[test]
    fn a_full_file_is_thinned_out_and_stays_bounded() {
        let fixture = Fixture::new();
        let mut writer = OutputTimesWriter::create(&fixture.fd).expect("own directory");
        for number in 0..=MAX_ENTRIES {
            append(&mut writer, number, number * MIN_INTERVAL_MS);
        }
        let times = fixture.times();
        assert_eq!(times.len() as u64, MAX_ENTRIES / 2 + 1);
        assert_eq!(times[..2], [(0, 0), (2, 2 * MIN_INTERVAL_MS)]);
        assert_eq!(times.last(), Some(&(MAX_ENTRIES, MAX_ENTRIES * MIN_INTERVAL_MS)));
        // From now on, the interval is twice as long.
        append(&mut writer, MAX_ENTRIES + 1, (MAX_ENTRIES + 1) * MIN_INTERVAL_MS);
        append(&mut writer, MAX_ENTRIES + 2, (MAX_ENTRIES + 2) * MIN_INTERVAL_MS);
        assert_eq!(fixture.times().len(), times.len() + 1);
        let bytes = std::fs::metadata(fixture.path()).expect("exists").len();
        assert_eq!(bytes, (MAX_ENTRIES / 2 + 2) * PAIR_BYTES as u64);
    }

    /// A kill during the thinning leaves the first entries thinned out and the others unchanged.
    #[test]
    fn entries_that_do_not_follow_are_ignored() {
        let fixture = Fixture::new();
        let pairs = [(0, 10), (8, 30), (4, 20), (8, 30), (12, 25), (12, 40)];
        let bytes: Vec<u8> =
            pairs.into_iter().flat_map(|(offset, at)| number_pair::encode(offset, at)).collect();
        std::fs::write(fixture.path(), bytes).expect("own directory");
        assert_eq!(fixture.times(), [(0, 10), (8, 30), (12, 40)]);
    }

    #[test]
    fn a_file_that_is_too_long_says_nothing() {
        let fixture = Fixture::new();
        let bytes = vec![7; (MAX_ENTRIES as usize + 1) * PAIR_BYTES];
        std::fs::write(fixture.path(), bytes).expect("own directory");
        assert_eq!(fixture.times(), []);
    }
}
