//! The output of an adopted task: a file of its host, or somewhere siding cannot read.
//!
//! Nobody wakes the shim for it. So it is looked at when a silence would be noted, and, only while
//! somebody follows, ten times a second.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use siding_core::store::TaskDir;
use siding_core::sys::{file, procfs};
use siding_core::{adopt, output};
use siding_model::process::Mono;
use siding_model::record::Adopted;

use crate::keeper::Keeper;
use crate::pump::Pump;

/// Time between two looks while somebody follows, in milliseconds.
const FOLLOWED_MS: u64 = 100;

/// Where an adopted task writes.
#[derive(Debug)]
pub(crate) struct Hosted {
    /// The file, to read and to append to. Where it is not the host's, only siding writes there.
    file: Option<OwnedFd>,
    /// Whether its growth is the task's output.
    is_hosts: bool,
    /// Length of the file, or bytes that the processes have written anywhere, at the last look.
    seen: u64,
    /// When to look again for those who follow.
    next: Option<Mono>,
}

impl Hosted {
    /// Looks at what a process writes to. Returns it with what is to be put on record.
    pub(crate) fn of(pid: i32) -> (Option<OwnedFd>, Adopted) {
        let link = adopt::stdout_of(pid);
        let file = output::open_own(Path::new(&link), true).ok();
        // A file without a name can be read by nobody else.
        let name = file.as_ref().and_then(|_| adopt::named_by(&link));
        (file.filter(|_| name.is_some()), Adopted { output: name })
    }

    /// Begins with the host's file, where there is one; else with one in the task's directory, for
    /// what siding itself has to say.
    pub(crate) fn create(
        dir: &TaskDir,
        host: Option<OwnedFd>,
        adopted: &Adopted,
    ) -> io::Result<Self> {
        match (host, &adopted.output) {
            (Some(file), Some(path)) => {
                file::make_link(path, dir, output::FILE)?;
                Ok(Self::over(Some(file), true))
            }
            _ => {
                let file = file::open_at(dir, output::FILE, file::Open::CreateNew)?;
                Ok(Self::over(Some(file), false))
            }
        }
    }

    /// Opens it again. A host may have removed its file.
    pub(crate) fn resume(dir: &TaskDir, adopted: &Adopted) -> Self {
        match &adopted.output {
            Some(path) => Self::over(output::open_own(Path::new(path), true).ok(), true),
            None => Self::over(file::open_at(dir, output::FILE, file::Open::ReadWrite).ok(), false),
        }
    }

    fn over(file: Option<OwnedFd>, is_hosts: bool) -> Self {
        let mut hosted = Self { file, is_hosts, seen: 0, next: None };
        if is_hosts {
            hosted.seen = hosted.bytes();
        }
        hosted
    }

    /// Returns the length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        let facts = self.file.as_ref().and_then(|file| file::facts(file).ok());
        facts.map_or(0, |facts| facts.len)
    }

    /// Returns when to look for those who follow.
    pub(crate) const fn wake_at(&self) -> Option<Mono> {
        self.next
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
            members().into_iter().filter_map(procfs::written_bytes).sum()
        };
        // Of a file that was cut off, as much as of one that grew: somebody has written.
        let grown = if self.is_hosts { now != self.seen } else { now > self.seen };
        self.seen = now;
        grown
    }
}

impl Keeper {
    /// Looks whether an adopted task has written, when a silence would be noted or somebody
    /// follows.
    pub(crate) fn look_at_hosts_output(&mut self, now: Mono) {
        let Self { root, state, pump: Pump::Hosted(hosted), kin, callers, stall, .. } = self else {
            return;
        };
        let is_due = |at: Option<Mono>| at.is_some_and(|at| at <= now);
        let followed = callers.are_followers();
        if !is_due(stall.wake_at(state))
            && !is_due(hosted.next)
            && followed == hosted.next.is_some()
        {
            return;
        }
        hosted.next = followed.then(|| now.plus_ms(FOLLOWED_MS));
        if hosted.has_grown(|| kin.numbers(root, state)) {
            self.output_moved();
        }
    }
}
