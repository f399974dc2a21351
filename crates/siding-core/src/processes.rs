//! The processes of a task: how they are found and told apart, grouped, measured and diagnosed.

pub mod cgroup;
pub mod pid_namespace;
pub mod probe;
pub mod siding_process;
pub mod tree;
