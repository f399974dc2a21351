//! Processes: trees, birthmarks, control groups, and the evidence that the kernel gives about them.

pub mod cgroup;
pub mod pid_namespace;
pub mod probe;
pub mod siding_process;
pub mod tree;
