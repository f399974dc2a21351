//! The output of an adopted task: a file of its host, or a pipe or terminal that siding cannot
//! read.
//!
//! poll(2) does not report the growth of a regular file. The shim therefore checks the length of
//! the file or, without a file of the host, how many bytes the task's processes have written. It
//! checks before each diagnosis of a silence, and ten times a second while a client follows the
//! output. The host's file is also checked once a minute while a stall is recorded.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use siding_core::output;
use siding_core::store::{TaskDir, task_files};
use siding_core::sys::{file, procfs};
use siding_model::process::MonotonicMs;
use siding_model::record::AdoptionInfo;

/// Time between two polls while a client follows the output, in milliseconds.
const FOLLOWED_POLL_MS: u64 = 100;
/// Time between two polls while a stall is recorded, in milliseconds. The first growth ends the
/// stall.
const STALLED_POLL_MS: u64 = 60_000;

/// The file that receives the output of an adopted task, and its state at the last poll.
#[derive(Debug)]
pub(crate) struct AdoptedOutput {
    /// The file, opened for reading and appending; `None` if it could not be opened. If the file is
    /// not the host's, only siding writes to it.
    file: Option<OwnedFd>,
    /// Whether the file is the host's. A file of siding's own never contains output of the task.
    is_host_file: bool,
    /// The value of the last poll, for comparison with the next poll: the length of the host's
    /// file or, without such a file, the number of bytes that the processes had written to any
    /// file. Opening the host's file counts as a poll. `None` before the first poll without a file
    /// of the host, so that earlier writes do not count as growth.
    last_bytes: Option<u64>,
    /// The time at which the output was last polled.
    last_poll: MonotonicMs,
}

impl AdoptedOutput {
    /// Links the host's file into the task's directory. Without a file of the host, creates a file
    /// there for siding's own lines.
    pub(crate) fn create(
        dir: &TaskDir,
        host: Option<&OwnedFd>,
        adopted: &AdoptionInfo,
    ) -> io::Result<Self> {
        match (host, &adopted.output) {
            (Some(file), Some(path)) => {
                file::create_symlink(path, dir, task_files::OUTPUT_FILE)?;
                Ok(Self::from_file(Some(file.try_clone()?), true))
            }
            _ => {
                let file = file::open_at(dir, task_files::OUTPUT_FILE, file::OpenMode::CreateNew)?;
                Ok(Self::from_file(Some(file), false))
            }
        }
    }

    /// Returns the output of a task whose host's file is already open. `None` if the descriptor
    /// cannot be duplicated.
    pub(crate) fn from_host_file(file: &OwnedFd) -> Option<Self> {
        Some(Self::from_file(Some(file.try_clone().ok()?), true))
    }

    /// Opens the output of a task that was adopted by another shim. If the file cannot be opened,
    /// for example because the host has removed it, the value has no file.
    pub(crate) fn resume(dir: &TaskDir, adopted: &AdoptionInfo) -> Self {
        match &adopted.output {
            Some(path) => Self::from_file(output::open_user_file(Path::new(path), true).ok(), true),
            None => Self::from_file(
                file::open_at(dir, task_files::OUTPUT_FILE, file::OpenMode::ReadWrite).ok(),
                false,
            ),
        }
    }

    fn from_file(file: Option<OwnedFd>, is_host_file: bool) -> Self {
        let mut output = Self { file, is_host_file, last_bytes: None, last_poll: MonotonicMs(0) };
        output.last_bytes = is_host_file.then(|| output.bytes());
        output
    }

    /// Returns whether the file receives the task's output.
    pub(crate) const fn sees_output(&self) -> bool {
        self.is_host_file
    }

    /// Returns the length of the file; zero without a file, or if its length cannot be read.
    pub(crate) fn bytes(&self) -> u64 {
        let facts = self.file.as_ref().and_then(|file| file::metadata(file).ok());
        facts.map_or(0, |facts| facts.len)
    }

    /// Returns the last bytes of the file, at most `max` of them.
    pub(crate) fn tail(&self, max: usize) -> Vec<u8> {
        let Some(file) = &self.file else { return Vec::new() };
        let mut bytes = vec![0; max];
        let from = self.bytes().saturating_sub(max as u64);
        let count = file::read_at(file, &mut bytes, from).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    /// Appends a line of siding's own.
    pub(crate) fn append_siding_line(&mut self, text: &str) {
        let ends_line = self.tail(1).last().is_none_or(|byte| *byte == b'\n');
        let start = if ends_line { "" } else { "\n" };
        let end = self.bytes();
        if let Some(file) = &self.file {
            let line = format!("{start}[siding] {text}\n");
            // The host's file was opened with O_APPEND, so the kernel ignores the offset. On a full
            // disk the line is missing, but the journal of a recorded task contains the same fact.
            let _recorded_anyway = file::write_all_at(file, line.as_bytes(), end);
        }
    }

    /// Returns the time of the next poll of the output. `None` unless a client follows the output,
    /// or growth of the output could end a recorded stall.
    pub(crate) const fn wake_at(
        &self,
        is_followed: bool,
        has_recorded_stall: bool,
    ) -> Option<MonotonicMs> {
        if is_followed {
            Some(self.last_poll.plus_ms(FOLLOWED_POLL_MS))
        } else if self.is_host_file && has_recorded_stall {
            Some(self.last_poll.plus_ms(STALLED_POLL_MS))
        } else {
            None
        }
    }

    /// Returns whether the host's file has changed its length since the last poll or, without such
    /// a file, whether the processes that `members` returns have written more bytes in total. The
    /// first poll without a file of the host returns false.
    pub(crate) fn poll(&mut self, now: MonotonicMs, members: impl FnOnce() -> Vec<i32>) -> bool {
        self.last_poll = now;
        let bytes = if self.is_host_file {
            self.bytes()
        } else {
            members().into_iter().filter_map(procfs::write_bytes_total).sum()
        };
        // A host that truncates its file has written to it. The sum over processes shrinks when a
        // process ends, which is not output.
        let before = self.last_bytes.replace(bytes);
        before
            .is_some_and(|before| if self.is_host_file { bytes != before } else { bytes > before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty_file() -> OwnedFd {
        tempfile::tempfile().expect("a temporary file").into()
    }

    #[test]
    fn host_output_counts_as_written_when_it_grows_or_is_truncated() {
        let file = empty_file();
        file::write_all_at(&file, b"before the adoption\n", 0).expect("own file");
        let mut output = AdoptedOutput::from_host_file(&file).expect("a free descriptor");
        assert!(!output.poll(MonotonicMs(1), Vec::new), "earlier output is not growth");
        file::write_all_at(&file, b"more\n", 20).expect("own file");
        assert!(output.poll(MonotonicMs(2), Vec::new));
        assert!(!output.poll(MonotonicMs(3), Vec::new));
        let writer = std::fs::File::from(file);
        writer.set_len(0).expect("own file");
        assert!(output.poll(MonotonicMs(4), Vec::new), "the host has truncated its file");
    }

    /// Without a follower or a stall, nothing needs the length of the file, and an idle task must
    /// not wake its shim.
    #[test]
    fn host_output_is_polled_only_for_followers_and_stalls() {
        let mut output = AdoptedOutput::from_host_file(&empty_file()).expect("a free descriptor");
        output.poll(MonotonicMs(1_000), Vec::new);
        assert_eq!(output.wake_at(false, false), None);
        assert_eq!(output.wake_at(true, true), Some(MonotonicMs(1_000 + FOLLOWED_POLL_MS)));
        assert_eq!(output.wake_at(false, true), Some(MonotonicMs(1_000 + STALLED_POLL_MS)));
        // Writes to a file of siding's own are not the task's output.
        let own_file = AdoptedOutput::from_file(Some(empty_file()), false);
        assert_eq!(own_file.wake_at(false, true), None);
    }

    #[test]
    fn line_of_siding_starts_on_a_line_of_its_own() {
        let file = empty_file();
        file::write_all_at(&file, b"no newline", 0).expect("own file");
        let mut output = AdoptedOutput::from_host_file(&file).expect("a free descriptor");
        output.append_siding_line("stopped");
        output.append_siding_line("again");
        assert_eq!(output.tail(100), b"no newline\n[siding] stopped\n[siding] again\n");
    }
}
