//! Resource usage of a task: samples and peaks.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::process::{MonotonicMs, ProcRef};

/// A sample of the resources that a task uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Time at which the sample was taken.
    pub at: MonotonicMs,
    /// Usage of the living processes of the tree: of all, unless the measurement took too long.
    pub processes: Vec<ProcessUsage>,
    /// Memory in which shared pages count once, in bytes: from the task's control group, or the sum
    /// of the proportional set sizes (PSS). PSS is expensive to read, and is therefore read only
    /// when the sum of the resident sizes exceeds the limit or the missing part of `min_available`.
    /// `None` when neither was read.
    pub shared_once_bytes: Option<u64>,
    /// Memory available on the machine without swapping, in bytes (`MemAvailable` in
    /// proc_meminfo(5), which unlike `MemFree` includes reclaimable cache). `None` when it was not
    /// measured.
    pub available_bytes: Option<u64>,
    /// CPU time of the processes that have ended, in milliseconds.
    pub ended_cpu_ms: u64,
    /// Output that the task has written so far, in bytes.
    pub output_bytes: u64,
    /// Bytes that the processes have written, for example to files, in addition to the output that
    /// siding stores. `None` when they were not measured.
    pub written_bytes: Option<u64>,
    /// The TCP connections; `None` when they were not sampled.
    pub connections: Option<Vec<Connection>>,
}

/// Resource usage of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Pid and start time, by which a later sample finds the same process again.
    pub process: ProcRef,
    /// Resident memory in bytes, in which shared pages count for each process.
    pub resident_bytes: u64,
    /// CPU time of the process and of its reaped children, in milliseconds.
    pub cpu_ms: u64,
    /// Time for which the main thread was running or waiting for a processor, in milliseconds; zero
    /// when it is unknown.
    pub runnable_ms: u64,
    /// Number of open descriptors; zero when they were not counted.
    pub fds: u64,
}

/// Returns the processes of a sample by identity. Samples may have thousands of processes, so a
/// search through a list for each process would take too long.
pub(super) fn index_processes(processes: &[ProcessUsage]) -> HashMap<ProcRef, &ProcessUsage> {
    processes.iter().map(|one| (one.process, one)).collect()
}

/// A TCP connection of a task, as one sample found it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// The kernel's socket cookie, which is unique within a boot.
    pub cookie: u64,
    /// Address of the remote end, without the port.
    pub remote: String,
    /// Bytes that the remote end has acknowledged.
    pub sent: u64,
    /// Pid of a process that holds the connection; zero when none does.
    pub pid: i32,
    /// Bytes received from the remote end.
    pub received: u64,
    /// Whether the remote end opened the connection, which is assumed if a socket listens on the
    /// local port.
    pub is_accepted: bool,
    /// Whether a process of the task also holds the remote end.
    pub is_internal: bool,
}

/// Bytes sent to one remote address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SentToRemote {
    /// Address of the remote end, without the port.
    pub remote: String,
    /// Bytes sent over the connections that samples found, up to the last sample of each.
    pub bytes: u64,
}

/// The highest observed resource usage of a task. A number that was never observed is null: a task
/// may end before its first sample.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PeakUsage {
    /// Peak memory in bytes: the largest sample of the whole tree, in which shared pages may count
    /// once for each process, or the largest ended process, whichever is more.
    pub memory_bytes: Option<u64>,
    /// CPU time of the whole tree, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// Largest number of processes that ran at the same time.
    pub processes: Option<u64>,
    /// Maximum number of open descriptors at one time.
    pub fds: Option<u64>,
    /// Bytes sent over TCP to each remote, the largest first.
    pub sent: Vec<SentToRemote>,
}

impl Usage {
    /// Returns the sum of the resident sizes, which is an upper bound of the memory in use.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.processes.iter().map(|one| one.resident_bytes).sum()
    }

    /// Returns the most precise known value of the memory in use.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.shared_once_bytes.unwrap_or_else(|| self.resident_bytes())
    }

    /// Returns the number of open descriptors of all processes, or zero when they were not counted.
    #[must_use]
    pub fn fds(&self) -> u64 {
        self.processes.iter().map(|one| one.fds).sum()
    }

    /// Returns the CPU time of the living and ended processes, in milliseconds.
    #[must_use]
    pub fn cpu_ms(&self) -> u64 {
        self.processes.iter().map(|one| one.cpu_ms).fold(self.ended_cpu_ms, u64::saturating_add)
    }

    /// Returns the number of living processes in the sample.
    #[must_use]
    pub fn process_count(&self) -> u64 {
        u64::try_from(self.processes.len()).unwrap_or(u64::MAX)
    }
}

impl PeakUsage {
    /// Updates the peaks from one sample.
    pub fn record_usage(&mut self, usage: &Usage) {
        let raise = |peak: &mut Option<u64>, now: u64| *peak = Some(peak.unwrap_or(0).max(now));
        raise(&mut self.memory_bytes, usage.memory_bytes());
        raise(&mut self.cpu_ms, usage.cpu_ms());
        raise(&mut self.processes, usage.process_count());
        // Zero means that the sample did not count descriptors.
        if usage.fds() > 0 {
            raise(&mut self.fds, usage.fds());
        }
    }
}
