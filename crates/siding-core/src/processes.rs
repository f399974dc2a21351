//! Finds, distinguishes, groups, measures and diagnoses the processes of a task.

pub mod cgroup;
pub mod host_terminal;
pub mod pid_namespace;
pub mod probe;
pub mod siding_process;
pub mod tree;
