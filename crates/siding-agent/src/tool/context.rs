//! Where an agent works.

use super::allowed_roots::AllowedRoots;
use super::read_tracker::ReadTracker;
use super::todo::{TodoList, TodoOwner};

/// Where one agent works, and what its tools remember of it.
#[derive(Debug)]
pub struct AgentToolContext {
    /// Where files may be.
    pub(super) allowed_roots: AllowedRoots,
    /// What it has seen of them.
    pub(super) read_tracker: ReadTracker,
    /// The to-do list of the project.
    pub(super) todo_list: TodoList,
    /// As whom it works on that.
    pub(super) todo_owner: TodoOwner,
}

impl AgentToolContext {
    /// Sets a scene for an agent that has seen nothing yet.
    #[must_use]
    pub fn new(allowed_roots: AllowedRoots, todo: TodoList, owner: TodoOwner) -> Self {
        Self {
            allowed_roots,
            read_tracker: ReadTracker::default(),
            todo_list: todo,
            todo_owner: owner,
        }
    }
}
