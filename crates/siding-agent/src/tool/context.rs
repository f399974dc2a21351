//! The context of an agent's tools.

use super::allowed_roots::AllowedRoots;
use super::read_tracker::ReadTracker;
use super::todo::{TodoList, TodoOwner};

/// The context in which the tools of one agent run.
#[derive(Debug)]
pub struct AgentToolContext {
    /// The directories in which files may be accessed.
    pub(super) allowed_roots: AllowedRoots,
    /// The contents of files that the agent has seen.
    pub(super) read_tracker: ReadTracker,
    /// The project's to-do list.
    pub(super) todo_list: TodoList,
    /// The agent's identity in the to-do list.
    pub(super) todo_owner: TodoOwner,
}

impl AgentToolContext {
    /// Creates the context of an agent that has not read any files.
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
