//! The state of an agent that its tools work on.

use super::allowed_roots::AllowedRoots;
use super::read_tracker::ReadTracker;
use super::todo::{TodoList, TodoOwner};

/// The accessible directories, the hashes of read files and the to-do list of one agent, for all
/// its tools.
#[derive(Debug)]
pub struct AgentToolContext {
    /// The directories in which files may be accessed.
    pub(super) allowed_roots: AllowedRoots,
    /// Hashes of the files that the agent has read or written.
    pub(super) read_tracker: ReadTracker,
    /// The to-do list that all agents of the project share.
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
