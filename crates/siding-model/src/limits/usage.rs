//! What a task uses: at one moment, and at most.

use serde::{Deserialize, Serialize};

use crate::process::{MonotonicMs, ProcRef};

/// One look at everything a task uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// When.
    pub at: MonotonicMs,
    /// Its living processes.
    pub processes: Vec<ProcessUsage>,
    /// Memory in which what processes share counts once, in bytes: what the task's control group
    /// counts, else the proportional sizes (PSS), which are asked for only when the sum of the
    /// resident sizes is over the limit. `None` when nobody asked, or it could not be had.
    pub shared_once_bytes: Option<u64>,
    /// Memory that the machine has left without swapping, in bytes (`MemAvailable`, proc_meminfo(5):
    /// with the cache that the kernel would drop, unlike `MemFree`). `None` when nobody looked.
    pub available_bytes: Option<u64>,
    /// CPU time of those that have ended, in milliseconds.
    pub ended_cpu_ms: u64,
    /// Output so far, in bytes.
    pub output_bytes: u64,
    /// Bytes that its processes have written to disks, or anywhere where siding does not see their
    /// output. `None` when nobody asked.
    pub written_bytes: Option<u64>,
    /// Its TCP connections; `None` when nobody looked.
    pub connections: Option<Vec<Connection>>,
}

/// What one process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Which one.
    pub process: ProcRef,
    /// Its resident memory, in bytes.
    pub resident_bytes: u64,
    /// CPU time of its own and of the children it has waited for, in milliseconds.
    pub cpu_ms: u64,
    /// Time for which its first thread ran or waited for a processor, in milliseconds. Zero where
    /// the kernel does not tell, or nobody asked.
    pub runnable_ms: u64,
    /// Its open descriptors; zero when they may not be counted, or nobody asked.
    pub fds: u64,
}

/// One TCP connection of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// The kernel's name for it, never used twice in a boot.
    pub cookie: u64,
    /// Address of the other end, without its port.
    pub remote: String,
    /// Bytes that the other end has confirmed.
    pub sent: u64,
    /// Who holds it; zero once nobody does.
    pub pid: i32,
    /// Bytes that have come from the other end.
    pub received: u64,
    /// Whether the other end began it: its local port is one on which somebody listens.
    pub is_accepted: bool,
    /// Whether the task holds the other end too.
    pub is_internal: bool,
}

/// Bytes sent to one remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SentToRemote {
    /// Its address.
    pub remote: String,
    /// How many, as far as they were seen.
    pub bytes: u64,
}

/// The most a task was seen to use. Null is what nobody saw: most of it is looked at in passing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PeakUsage {
    /// Most memory in bytes: the most that a look found in the whole tree, in which what processes
    /// share may count for each of them, or the largest single process that has ended, whichever
    /// is more.
    pub memory_bytes: Option<u64>,
    /// CPU time of the whole tree, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// Most processes at once.
    pub processes: Option<u64>,
    /// Most open descriptors at once.
    pub fds: Option<u64>,
    /// Bytes sent over TCP to each remote, the largest first.
    pub sent: Vec<SentToRemote>,
}

impl Usage {
    /// Returns the sum of the resident sizes: never less than the memory in use.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.processes.iter().map(|one| one.resident_bytes).sum()
    }

    /// Returns the memory, as well as it is known.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.shared_once_bytes.unwrap_or_else(|| self.resident_bytes())
    }

    /// Returns the open descriptors of all processes.
    #[must_use]
    pub fn fds(&self) -> u64 {
        self.processes.iter().map(|one| one.fds).sum()
    }

    /// Returns the CPU time used so far.
    #[must_use]
    pub fn cpu_ms(&self) -> u64 {
        self.processes.iter().map(|one| one.cpu_ms).fold(self.ended_cpu_ms, u64::saturating_add)
    }

    /// Returns how many processes there are.
    #[must_use]
    pub fn process_count(&self) -> u64 {
        u64::try_from(self.processes.len()).unwrap_or(u64::MAX)
    }
}

impl PeakUsage {
    /// Takes in one look.
    pub fn record_usage(&mut self, usage: &Usage) {
        let raise = |peak: &mut Option<u64>, now: u64| *peak = Some(peak.unwrap_or(0).max(now));
        raise(&mut self.memory_bytes, usage.memory_bytes());
        raise(&mut self.cpu_ms, usage.cpu_ms());
        raise(&mut self.processes, usage.process_count());
        raise(&mut self.fds, usage.fds());
    }
}
