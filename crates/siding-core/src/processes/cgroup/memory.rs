//! The memory controller of a task's group, if the group has one.

use std::os::fd::{AsFd, OwnedFd};

use super::TaskGroup;
use crate::sys::cgroupfs;

/// An open group whose memory controller counts the memory of a task. Callers open it for each
/// query, so that no descriptor stays open while the task runs.
#[derive(Debug)]
pub struct GroupMemory<D = OwnedFd>(D);

/// Processes that the kernel killed in a group, from its `memory.events`. A group is used once, so
/// both values cover exactly the life of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OomKills {
    /// Number of processes that the OOM killer has killed, whether the memory of this group, of a
    /// group above or of the machine was exhausted.
    pub processes: u64,
    /// Whether an allocation ever failed because of the group's own limit.
    pub at_own_limit: bool,
}

impl GroupMemory {
    /// Opens a group, or returns `None` if the group has no memory controller or does not exist.
    #[must_use]
    pub fn for_group(group: &TaskGroup) -> Option<Self> {
        Self::at_dir(cgroupfs::open(group.directory()).ok()?)
    }
}

impl<D: AsFd> GroupMemory<D> {
    /// Wraps the directory of a group, or returns `None` if the group has no memory controller.
    #[must_use]
    pub fn at_dir(dir: D) -> Option<Self> {
        cgroupfs::read_number(&dir, "memory.current").is_ok().then_some(Self(dir))
    }

    /// Returns the memory that the group's processes use, in bytes: the charged memory without the
    /// file cache, which the kernel drops before memory runs out. A task that reads a large file is
    /// therefore not reported as using much memory.
    ///
    /// Charged memory below `enough` is returned with the cache included, because subtracting the
    /// cache takes a read of a second file. `None` if a file cannot be read.
    #[must_use]
    pub fn used_bytes(&self, enough: u64) -> Option<u64> {
        let charged = cgroupfs::read_number(&self.0, "memory.current").ok()?;
        if charged < enough {
            return Some(charged);
        }
        let counted = |key| cgroupfs::read_keyed_number(&self.0, "memory.stat", key).ok().flatten();
        // Shared memory (tmpfs) is counted under `file`, but the kernel cannot drop it.
        let cache = counted("file")?.saturating_sub(counted("shmem").unwrap_or(0));
        Some(charged.saturating_sub(cache))
    }

    /// Makes the kernel enforce the limit. When the group needs more memory, the kernel kills all
    /// of its members in one step (`memory.oom.group`), so that no part of a pipeline keeps
    /// running.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; the limit is not enforced then.
    pub fn set_limit(&self, bytes: u64) -> std::io::Result<()> {
        cgroupfs::write_file(&self.0, "memory.oom.group", b"1")?;
        cgroupfs::write_file(&self.0, "memory.max", bytes.to_string().as_bytes())
    }

    /// Returns the number of processes that the kernel has killed in the group, and whether the
    /// group's own limit was the cause. `None` if the kernel reports no number.
    #[must_use]
    pub fn oom_kills(&self) -> Option<OomKills> {
        let counted =
            |key| cgroupfs::read_keyed_number(&self.0, "memory.events", key).ok().flatten();
        Some(OomKills { processes: counted("oom_kill")?, at_own_limit: counted("oom")? > 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sys::file;

    const MIB: u64 = 1 << 20;

    /// Creates a directory with the files of a group, because no test machine has a real memory
    /// controller.
    fn group_with_files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("own directory");
        }
        dir
    }

    fn memory(dir: &Path) -> Option<GroupMemory> {
        GroupMemory::at_dir(file::open_directory(dir).expect("is there"))
    }

    /// The files `memory.stat` and `memory.events` as Linux 6.18 writes them, shortened.
    const MEMORY_STAT: &str = "anon 4194304\nfile 734003200\nkernel 1048576\nfile_mapped 12\nshmem 2097152\n\
                        anon_thp 9\n";
    const MEMORY_EVENTS: &str = "low 0\nhigh 0\nmax 71\noom 1\noom_kill 3\noom_group_kill 1\n";

    #[test]
    fn a_group_without_the_memory_controller_has_no_memory_handle() {
        assert!(memory(group_with_files(&[("cgroup.procs", "")]).path()).is_none());
    }

    #[test]
    fn used_bytes_excludes_page_cache_and_includes_shmem() {
        let charged = (740 * MIB).to_string() + "\n";
        let dir = group_with_files(&[("memory.current", &charged), ("memory.stat", MEMORY_STAT)]);
        let memory = memory(dir.path()).expect("it counts");
        assert_eq!(memory.used_bytes(100 * MIB), Some(740 * MIB - 700 * MIB + 2 * MIB));
        assert_eq!(memory.used_bytes(800 * MIB), Some(740 * MIB), "below `enough`: with the cache");
    }

    #[test]
    fn oom_kills_are_counted_with_their_cause() {
        let oom_kills_in = |events: &str| {
            let dir = group_with_files(&[("memory.current", "0\n"), ("memory.events", events)]);
            memory(dir.path()).and_then(|memory| memory.oom_kills())
        };
        assert_eq!(
            oom_kills_in(MEMORY_EVENTS),
            Some(OomKills { processes: 3, at_own_limit: true })
        );
        let machine = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n";
        assert_eq!(oom_kills_in(machine), Some(OomKills { processes: 1, at_own_limit: false }));
        assert_eq!(oom_kills_in("nonsense"), None);
    }

    #[test]
    fn set_limit_writes_memory_max_and_oom_group() {
        let files = [("memory.current", "0\n"), ("memory.oom.group", ""), ("memory.max", "")];
        let dir = group_with_files(&files);
        memory(dir.path()).expect("it counts").set_limit(64 * MIB).expect("is written");
        let read = |name| std::fs::read_to_string(dir.path().join(name)).expect("is there");
        assert_eq!(
            (read("memory.oom.group").as_str(), read("memory.max").as_str()),
            ("1", "67108864")
        );
        std::fs::remove_file(dir.path().join("memory.max")).expect("own file");
        assert!(memory(dir.path()).expect("it counts").set_limit(1).is_err(), "no file is created");
    }
}
