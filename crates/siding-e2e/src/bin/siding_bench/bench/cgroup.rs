//! A memory cgroup (version 1), from which the bench reads the memory that the kernel charges to a
//! set of processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

const MEMORY_CGROUP_DIR: &str = "/sys/fs/cgroup/memory";

/// A memory cgroup that belongs to the bench. Dropping this value removes the group. All processes
/// of the group must have ended by then, because the kernel does not remove a group that has
/// processes.
#[derive(Debug)]
pub(super) struct MemoryCgroup(PathBuf);

/// The memory charged to a group, in KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupMemory {
    /// Anonymous memory, which no file backs.
    pub(super) anonymous: f64,
    /// Kernel memory: page tables, stacks, inodes, pipes.
    pub(super) kernel: f64,
    /// Page cache that processes of the group were the first to use. The kernel reclaims it on
    /// demand.
    pub(super) cache: f64,
}

impl MemoryCgroup {
    /// Creates a group whose name contains `name`. Returns `None` if the system has no memory
    /// cgroups of version 1 or does not allow this process to create a group.
    pub(super) fn new(name: &str) -> Option<Self> {
        let dir = Path::new(MEMORY_CGROUP_DIR)
            .join(format!("siding-bench-{}-{name}", std::process::id()));
        if !Path::new(MEMORY_CGROUP_DIR).join("memory.kmem.usage_in_bytes").exists() {
            return None;
        }
        fs::create_dir(&dir).ok()?;
        Some(Self(dir))
    }

    /// Returns the file to which a process writes its pid to enter the group.
    pub(super) fn procs_file(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// Reads the memory currently charged to the group.
    pub(super) fn memory_usage(&self) -> Result<GroupMemory> {
        let read = |name: &str| {
            let path = self.0.join(name);
            fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
        };
        let stat = read("memory.stat")?;
        let field = |name: &str| -> Result<f64> {
            let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            match line.and_then(|value| value.parse::<f64>().ok()) {
                Some(bytes) => Ok(bytes / 1024.0),
                None => bail!("memory.stat has no `{name}`"),
            }
        };
        let kernel: f64 = read("memory.kmem.usage_in_bytes")?.trim().parse()?;
        Ok(GroupMemory {
            anonymous: field("rss")?,
            kernel: kernel / 1024.0,
            cache: field("cache")?,
        })
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // A process that ends is reported to its parent before it leaves its group, so the
        // directory may still be busy.
        for _ in 0..200 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("siding-bench: could not remove `{}`", self.0.display());
    }
}
