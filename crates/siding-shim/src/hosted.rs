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

use crate::keeper::Keeper;
use crate::pump::Pump;

/// Time between two looks while somebody follows, in milliseconds.
const FOLLOWED_MS: u64 = 100;
/// The same while a stall is on record, which ends with the first growth, in milliseconds.
const STALLED_MS: u64 = 60_000;

/// Where an adopted task writes.
#[derive(Debug)]
pub(crate) struct Hosted {
    /// The file, to read and to append to. Where it is not the host's, only siding writes there.
    file: Option<OwnedFd>,
    /// Whether its growth is the task's output.
    is_hosts: bool,
    /// Length of the file, or bytes that the processes have written anywhere, at the last look.
    /// `None` before the first: what was written before it is no growth.
    seen: Option<u64>,
    /// When it was looked at last.
    looked: MonotonicMs,
}

impl Hosted {
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
                Ok(Self::over(Some(file.try_clone()?), true))
            }
            _ => {
                let file = file::open_at(dir, output::OUTPUT_FILE, file::OpenMode::CreateNew)?;
                Ok(Self::over(Some(file), false))
            }
        }
    }

    /// Returns the host's file, for a line of siding's own.
    pub(crate) fn of_host(file: &OwnedFd) -> Option<Self> {
        Some(Self::over(Some(file.try_clone().ok()?), true))
    }

    /// Opens it again. A host may have removed its file.
    pub(crate) fn resume(dir: &TaskDir, adopted: &AdoptionInfo) -> Self {
        match &adopted.output {
            Some(path) => Self::over(output::open_user_file(Path::new(path), true).ok(), true),
            None => Self::over(
                file::open_at(dir, output::OUTPUT_FILE, file::OpenMode::ReadWrite).ok(),
                false,
            ),
        }
    }

    fn over(file: Option<OwnedFd>, is_hosts: bool) -> Self {
        let mut hosted = Self { file, is_hosts, seen: None, looked: MonotonicMs(0) };
        hosted.seen = is_hosts.then(|| hosted.bytes());
        hosted
    }

    /// Whether the task's output goes to the file.
    pub(crate) const fn sees_output(&self) -> bool {
        self.is_hosts
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
    pub(crate) fn say(&mut self, text: &str) {
        let ends_line = self.tail(1).last().is_none_or(|byte| *byte == b'\n');
        let start = if ends_line { "" } else { "\n" };
        let end = self.bytes();
        if let Some(file) = &self.file {
            let line = format!("{start}[siding] {text}\n");
            // Whatever the offset, the host's file was opened to append. On a full disk the journal
            // tells it all the same.
            let _told_by_the_journal = file::write_all_at(file, line.as_bytes(), end);
        }
    }

    /// Whether anything was written since the last look. `members` gives the task's processes.
    fn has_grown(&mut self, members: impl FnOnce() -> Vec<i32>) -> bool {
        let now = if self.is_hosts {
            self.bytes()
        } else {
            members().into_iter().filter_map(procfs::write_bytes_total).sum()
        };
        // Of a file that was cut off, as much as of one that grew: somebody has written.
        let before = self.seen.replace(now);
        before.is_some_and(|before| if self.is_hosts { now != before } else { now > before })
    }
}

impl Keeper {
    /// Returns when to look at an adopted task's output for somebody who follows, or for the end of
    /// a stall on record.
    pub(crate) fn hosts_output_at(&self) -> Option<MonotonicMs> {
        let Pump::Hosted(hosted) = &self.pump else { return None };
        let pause_ms = if self.callers.are_followers() {
            FOLLOWED_MS
        } else if hosted.is_hosts && self.state.stall.is_some() && self.state.may_resume() {
            STALLED_MS
        } else {
            return None;
        };
        Some(hosted.looked.plus_ms(pause_ms))
    }

    /// Looks whether an adopted task has written, when that is due or a silence would be noted.
    pub(crate) fn look_at_hosts_output(&mut self, now: MonotonicMs) {
        let is_due = |at: Option<MonotonicMs>| at.is_some_and(|at| at <= now);
        let wanted = is_due(self.hosts_output_at()) || is_due(self.stall.wake_at(&self.state));
        let Self { root, state, pump: Pump::Hosted(hosted), kin, .. } = self else { return };
        if !wanted {
            return;
        }
        hosted.looked = now;
        if hosted.has_grown(|| kin.numbers(root, state)) {
            let is_output = hosted.is_hosts;
            self.output_moved();
            // What is written to a pipe, a log or a socket all looks the same: no word that a silence
            // on the pipe is over.
            if is_output {
                self.resume(now);
            }
        }
    }
}
