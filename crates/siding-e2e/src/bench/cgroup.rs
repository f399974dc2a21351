//! A memory cgroup of our own (version 1), to see what the kernel holds for some processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

const MEMORY_CGROUP_DIR: &str = "/sys/fs/cgroup/memory";

/// A group. Removed when dropped; everything in it must have ended by then.
#[derive(Debug)]
pub(super) struct MemoryCgroup(PathBuf);

/// What a group holds, in KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupMemory {
    /// Memory that belongs to no file.
    pub(super) anonymous: f64,
    /// The kernel's own: page tables, stacks, inodes, pipes.
    pub(super) kernel: f64,
    /// The page cache that was first touched from the group. Given back when it is needed.
    pub(super) cache: f64,
}

impl MemoryCgroup {
    /// Makes a group, `None` where that is not possible.
    pub(super) fn new(name: &str) -> Option<Self> {
        let dir = Path::new(MEMORY_CGROUP_DIR)
            .join(format!("siding-bench-{}-{name}", std::process::id()));
        if !Path::new(MEMORY_CGROUP_DIR).join("memory.kmem.usage_in_bytes").exists() {
            return None;
        }
        fs::create_dir(&dir).ok()?;
        Some(Self(dir))
    }

    /// Returns the file that a process writes its number to in order to enter.
    pub(super) fn procs_file(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// Returns what the group holds now.
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
        // The last process leaves its group only after whoever waits for it was told.
        for _ in 0..200 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("siding-bench: could not remove `{}`", self.0.display());
    }
}
