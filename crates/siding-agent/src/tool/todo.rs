//! The to-do list that the agents of a project share.
//!
//! A *to-do* is work that somebody is to do; nothing runs for it. It is not a *task*, which is a
//! command that siding runs.
//!
//! [`TodoState`] says what a list holds, from the records of its journal; `decide` says which records
//! follow from what an agent wants; both are pure. [`TodoList`] has the file, and lets one process at
//! a time decide. What two processes wrote that decided on the same board all the same is judged by
//! the board: the first counts.
//!
//! **Who owns a to-do.** Whoever has claimed it, until it is completed or given back. Another may take
//! it over only when the process that claimed it is seen to be gone: this machine was booted since, or
//! no process here has its number and its start time. A process of another machine or of another
//! process namespace cannot be seen, so nothing is ever taken from it; a person who knows better
//! deletes the line of the claim.

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
