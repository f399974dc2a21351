//! The memory controller of a task's group, where the kernel has put one there.

use std::os::fd::{AsFd, OwnedFd};

use super::Group;
use crate::sys::cgroupfs;

/// A task's group that counts memory. Held for a moment, never while the task runs.
#[derive(Debug)]
pub struct Memory<D = OwnedFd>(D);

/// What the kernel has ended in a group, from its `memory.events`. A group is used once, so both
/// count from the start of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Killed {
    /// Processes ended for want of memory, whoever wanted it: this group, one above it, or the
    /// machine.
    pub processes: u64,
    /// Whether the group's own limit was ever in the way of memory that could not be had otherwise.
    pub at_own_limit: bool,
}

impl Memory {
    /// Returns the controller of a group, `None` where it has none or is not there.
    #[must_use]
    pub fn of(group: &Group) -> Option<Self> {
        Self::at(cgroupfs::open(group.directory()).ok()?)
    }
}

impl<D: AsFd> Memory<D> {
    /// Returns the controller of the group that lies in this directory.
    #[must_use]
    pub fn at(dir: D) -> Option<Self> {
        cgroupfs::number(&dir, "memory.current").is_ok().then_some(Self(dir))
    }

    /// Returns the memory that the group's processes use, in bytes: what is charged to it, less the
    /// file cache, which the kernel drops before anybody lacks memory. So a task that reads a large
    /// file is not one that uses much.
    ///
    /// Below `enough` the cache is not worth another look, and may still be in the number.
    #[must_use]
    pub fn used(&self, enough: u64) -> Option<u64> {
        let charged = cgroupfs::number(&self.0, "memory.current").ok()?;
        if charged < enough {
            return Some(charged);
        }
        let counted = |key| cgroupfs::counted(&self.0, "memory.stat", key).ok().flatten();
        // Memory that is shared by way of files in memory cannot be dropped.
        let cache = counted("file")?.saturating_sub(counted("shmem").unwrap_or(0));
        Some(charged.saturating_sub(cache))
    }

    /// Lets the kernel hold the limit: what cannot be had within it ends everything in the group, in
    /// one step, so that no half of a pipeline goes on.
    ///
    /// # Errors
    ///
    /// The operating system's; then nothing is held.
    pub fn bound(&self, bytes: u64) -> std::io::Result<()> {
        cgroupfs::write(&self.0, "memory.oom.group", b"1")?;
        cgroupfs::write(&self.0, "memory.max", bytes.to_string().as_bytes())
    }

    /// Returns what the kernel has ended there, `None` where it does not tell.
    #[must_use]
    pub fn killed(&self) -> Option<Killed> {
        let counted = |key| cgroupfs::counted(&self.0, "memory.events", key).ok().flatten();
        Some(Killed { processes: counted("oom_kill")?, at_own_limit: counted("oom")? > 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sys::file;

    const MIB: u64 = 1 << 20;

    /// A directory with the files of a group; no machine of ours has a real one.
    fn group(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("own directory");
        }
        dir
    }

    fn memory(dir: &Path) -> Option<Memory> {
        Memory::at(file::open_directory(dir).expect("is there"))
    }

    /// As Linux 6.18 writes them, shortened.
    const STAT: &str = "anon 4194304\nfile 734003200\nkernel 1048576\nfile_mapped 12\nshmem 2097152\n\
                        anon_thp 9\n";
    const EVENTS: &str = "low 0\nhigh 0\nmax 71\noom 1\noom_kill 3\noom_group_kill 1\n";

    #[test]
    fn a_group_without_the_controller_counts_nothing() {
        assert!(memory(group(&[("cgroup.procs", "")]).path()).is_none());
    }

    #[test]
    fn file_cache_is_not_use_and_memory_shared_by_file_is() {
        let charged = (740 * MIB).to_string() + "\n";
        let dir = group(&[("memory.current", &charged), ("memory.stat", STAT)]);
        let memory = memory(dir.path()).expect("it counts");
        assert_eq!(memory.used(100 * MIB), Some(740 * MIB - 700 * MIB + 2 * MIB));
        assert_eq!(memory.used(800 * MIB), Some(740 * MIB), "far below: one file is enough");
    }

    #[test]
    fn what_the_kernel_ended_is_counted_with_the_reason() {
        let told = |events: &str| {
            let dir = group(&[("memory.current", "0\n"), ("memory.events", events)]);
            memory(dir.path()).and_then(|memory| memory.killed())
        };
        assert_eq!(told(EVENTS), Some(Killed { processes: 3, at_own_limit: true }));
        let machine = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n";
        assert_eq!(told(machine), Some(Killed { processes: 1, at_own_limit: false }));
        assert_eq!(told("nonsense"), None);
    }

    #[test]
    fn the_kernel_is_told_the_limit_and_to_end_all_at_once() {
        let files = [("memory.current", "0\n"), ("memory.oom.group", ""), ("memory.max", "")];
        let dir = group(&files);
        memory(dir.path()).expect("it counts").bound(64 * MIB).expect("is written");
        let read = |name| std::fs::read_to_string(dir.path().join(name)).expect("is there");
        assert_eq!(
            (read("memory.oom.group").as_str(), read("memory.max").as_str()),
            ("1", "67108864")
        );
        std::fs::remove_file(dir.path().join("memory.max")).expect("own file");
        assert!(memory(dir.path()).expect("it counts").bound(1).is_err(), "nothing is made up");
    }
}
