//! The to-do list that the agents of a project share.
//!
//! A *to-do* is an item of work for an agent. No command runs for a to-do; a command that siding
//! runs is a *task*.
//!
//! [`TodoState`] replays the records of the list's journal; `commands` validates an agent's request
//! and returns the records for it. Both are pure. [`TodoList`] owns the file and lets one process
//! at a time change it. If two processes nevertheless write conflicting changes, the replay accepts
//! the first and ignores the second.
//!
//! **Ownership.** An agent that has claimed a to-do is its owner until it completes or returns the
//! to-do. Another agent may claim the to-do only when the owner's process has certainly ended: the
//! machine has been rebooted since the claim, or no process has the recorded PID and start time.
//! Processes of other machines and other PID namespaces cannot be observed, so their to-dos are
//! never taken over. A person can free such a to-do by deleting the line of the claim from the
//! journal.

mod claim;
mod commands;
mod complete;
mod create;
mod get;
mod id;
mod journal;
mod list;
mod owner;
mod record;
mod state;
#[cfg(test)]
mod tests;
mod text;

pub use claim::ClaimTask;
pub use commands::{TodoDraft, TodoRefusal};
pub use complete::CompleteTask;
pub use create::CreateTask;
pub use get::GetTask;
pub use id::TodoId;
pub use journal::{TodoError, TodoList};
pub use list::ListTasks;
pub use owner::{OwnerPresence, TodoOwner};
pub use record::{TodoChange, TodoRecord};
pub use state::{ReplayedTodos, Todo, TodoState, TodoStatus};
