//! The output of an adopted task: a file of its host, or somewhere siding cannot read.
//!
//! Nobody wakes the shim for it. So it is looked at when a silence would be noted, once a minute while
//! one is on record, and, only while somebody follows, ten times a second.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use siding_core::output;
use siding_core::store::TaskDir;
use siding_core::sys::{file, procfs};
use siding_model::process::MonotonicMs;
use siding_model::record::AdoptionInfo;

/// Time between two looks while somebody follows, in milliseconds.
const FOLLOWED_POLL_MS: u64 = 100;
/// The same while a stall is on record, which ends with the first growth, in milliseconds.
const STALLED_POLL_MS: u64 = 60_000;

/// Where an adopted task writes.
#[derive(Debug)]
pub(crate) struct AdoptedOutput {
    /// The file, to read and to append to. Where it is not the host's, only siding writes there.
    file: Option<OwnedFd>,
    /// Whether its growth is the task's output.
    is_host_file: bool,
    /// Length of the file, or bytes that the processes have written anywhere, at the last look.
    /// `None` before the first: what was written before it is no growth.
    last_bytes: Option<u64>,
    /// When it was looked at last.
    last_poll: MonotonicMs,
}

impl AdoptedOutput {
    /// Begins with the host's file, where there is one; else with one in the task's directory, for
    /// what siding itself has to say.
    pub(crate) fn create(
        dir: &TaskDir,
        host: Option<&OwnedFd>,
        adopted: &AdoptionInfo,
    ) -> io::Result<Self> {
        match (host, &adopted.output) {
            (Some(file), Some(path)) => {
                file::create_symlink(path, dir, output::OUTPUT_FILE)?;
                Ok(Self::from_file(Some(file.try_clone()?), true))
            }
            _ => {
                let file = file::open_at(dir, output::OUTPUT_FILE, file::OpenMode::CreateNew)?;
                Ok(Self::from_file(Some(file), false))
            }
        }
    }

    /// Returns the host's file, for a line of siding's own.
    pub(crate) fn from_host_file(file: &OwnedFd) -> Option<Self> {
        Some(Self::from_file(Some(file.try_clone().ok()?), true))
    }

    /// Opens it again. A host may have removed its file.
    pub(crate) fn resume(dir: &TaskDir, adopted: &AdoptionInfo) -> Self {
        match &adopted.output {
            Some(path) => Self::from_file(output::open_user_file(Path::new(path), true).ok(), true),
            None => Self::from_file(
                file::open_at(dir, output::OUTPUT_FILE, file::OpenMode::ReadWrite).ok(),
                false,
            ),
        }
    }

    fn from_file(file: Option<OwnedFd>, is_hosts: bool) -> Self {
        let mut hosted =
            Self { file, is_host_file: is_hosts, last_bytes: None, last_poll: MonotonicMs(0) };
        hosted.last_bytes = is_hosts.then(|| hosted.bytes());
        hosted
    }

    /// Whether the task's output goes to the file.
    pub(crate) const fn sees_output(&self) -> bool {
        self.is_host_file
    }

    /// Returns the length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        let facts = self.file.as_ref().and_then(|file| file::metadata(file).ok());
        facts.map_or(0, |facts| facts.len)
    }

    /// Returns the last bytes, at most `max` of them.
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
            // Whatever the offset, the host's file was opened to append. On a full disk the journal
            // tells it all the same.
            let _recorded_anyway = file::write_all_at(file, line.as_bytes(), end);
        }
    }

    /// Returns when to poll the output next: while a client follows it, and while it could end the
    /// recorded stall.
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

    /// Whether anything was written since the last poll. `members` gives the task's processes.
    pub(crate) fn poll(&mut self, now: MonotonicMs, members: impl FnOnce() -> Vec<i32>) -> bool {
        self.last_poll = now;
        let bytes = if self.is_host_file {
            self.bytes()
        } else {
            members().into_iter().filter_map(procfs::write_bytes_total).sum()
        };
        // A file that was truncated was written to as well. The sum over processes also shrinks when
        // one of them ends, which is no output.
        let before = self.last_bytes.replace(bytes);
        before
            .is_some_and(|before| if self.is_host_file { bytes != before } else { bytes > before })
    }
}
