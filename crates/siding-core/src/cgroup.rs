//! Control groups (cgroup2): one for each task, where this process has been given a place to make
//! them.
//!
//! A group of its own is a third way to know a task's processes, beside descent and the mark: a
//! member cannot leave it by clearing its environment or lowering its mark, and the kernel ends all
//! members in one step. Nothing needs it. Where it cannot be had a task runs without.
//!
//! Groups are made beside each other and never inside each other: the end of a task must not be
//! the end of another that was started inside it. A group is used for one task and never again,
//! since one that was killed kills whoever is born into it later.

mod delegation;
mod group;
mod memory;

use siding_model::id::TaskId;

pub use delegation::{Delegation, OwnCgroup};
pub use group::TaskGroup;
pub use memory::{GroupMemory, OomKills};

/// What the name of a task's group begins with; the task's id follows.
const GROUP_PREFIX: &str = "siding-";

/// Returns the name of a task's group.
fn group_name(id: TaskId) -> String {
    format!("{GROUP_PREFIX}{id}")
}

/// Returns the task whose group has this name.
fn parse_group_name(name: &std::ffi::OsStr) -> Option<TaskId> {
    name.to_str()?.strip_prefix(GROUP_PREFIX)?.parse().ok()
}
