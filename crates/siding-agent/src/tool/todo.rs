//! The to-do list that the agents of a project share.
//!
//! A *to-do* is an item of work for an agent; nothing runs for it. It is not a *task*, which is a
//! command that siding runs.
//!
//! [`TodoState`] replays the records of the list's journal; `commands` validates an agent's request
//! and returns the records for it. Both are pure. [`TodoList`] owns the file and lets one process
//! at a time change it. If two processes nevertheless write changes based on the same state, the
//! replay accepts the first and ignores the other.
//!
//! **Ownership.** The agent that has claimed a to-do owns it until it is completed or returned.
//! Another agent may claim it only when the owner's process has certainly ended: the machine was
//! booted since, or no process here has the same PID and start time. Processes of other machines
//! and other PID namespaces cannot be observed, so their to-dos are never taken over; a person can
//! delete the line of such a claim.

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
