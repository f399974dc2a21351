//! Control groups (cgroup2): one for each task, if this process may create groups.
//!
//! A group is a third way to identify a task's processes, besides descent and the birthmark. A
//! process cannot leave its group by clearing its environment or by lowering its mark, and the
//! kernel kills all members in one step. Nothing depends on groups. If no group can be created,
//! a task runs without one.
//!
//! Groups are siblings and never nested, because the end of a task must not end another task that
//! was started inside it. A group is used for one task and never again: once `cgroup.kill` was
//! written, the kernel kills every process that clone3(2) later creates in the group
//! (`CLONE_INTO_CGROUP`).

mod delegation;
mod group;
mod memory;

use siding_model::id::TaskId;

pub use delegation::{Delegation, OwnCgroup};
pub use group::TaskGroup;
pub use memory::{GroupMemory, OomKills};

/// The name of a task's group begins with this prefix; the task's id follows.
const GROUP_PREFIX: &str = "siding-";

fn group_name(id: TaskId) -> String {
    format!("{GROUP_PREFIX}{id}")
}

/// Returns the task whose group has this name.
fn parse_group_name(name: &std::ffi::OsStr) -> Option<TaskId> {
    name.to_str()?.strip_prefix(GROUP_PREFIX)?.parse().ok()
}
