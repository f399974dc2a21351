//! The history of ended commands: how long they ran and how they ended.
//!
//! Owns `history.db` in the state directory. The file's content is copied from the journals of
//! ended tasks, so the file may be deleted at any time. Deleting it loses only the runs of tasks
//! that retention has removed, and resets the counters of [`metrics`]. `siding_model::history`
//! interprets the runs. No code that runs, stops or shows a task may depend on the history, and the
//! shim does not link this crate.

#![forbid(unsafe_code)]

mod database;
mod error;
mod ingest;
pub mod metrics;
mod query;
mod schema;
#[cfg(test)]
mod tests;
mod totals;

pub use database::{DATABASE_FILE_NAME, History, HistoryOutcome, query_best_effort, with_history};
pub use error::HistoryError;
pub use ingest::{MAX_COMMAND_AGE, MAX_COMMANDS, MAX_RUNS_PER_COMMAND};
pub use query::Filter;
pub use schema::FORMAT;
