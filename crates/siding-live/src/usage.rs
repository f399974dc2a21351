//! The measured usage of a running task.

/// The resources that a running task used at its last sample.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskUsage {
    /// CPU time used since the previous sample in percent of one CPU, so a task with two busy
    /// threads has 200. `None` after the first sample, and after the first one with a new shim.
    pub cpu_percent: Option<f64>,
    /// The resident memory of all processes in bytes. A page that several processes share is counted
    /// once for each process.
    pub memory_bytes: u64,
    /// The ids of the processes, without the shim. If their measurement takes more than two
    /// seconds, CPU time and memory are those of the first ones, at least 512.
    pub pids: Vec<i32>,
    /// The TCP ports on which the processes listen, in ascending order.
    pub ports: Vec<u16>,
    /// Bytes of output per second since the previous sample. `None` after the first sample.
    pub output_rate: Option<f64>,
    /// Whether the task's shim runs. If it does not, nothing enforces the task's deadline and
    /// limits until a command repairs the task.
    pub is_supervised: bool,
}

impl TaskUsage {
    /// Returns the number of the task's processes.
    #[must_use]
    pub const fn process_count(&self) -> usize {
        self.pids.len()
    }
}
