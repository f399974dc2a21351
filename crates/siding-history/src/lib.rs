//! What siding remembers of commands that ended: how long they took and how they ended.
//!
//! Owns `history.db` in the state directory. Everything in it comes from the journals of ended
//! tasks, so it may be deleted at any time; what is lost is what retention has already removed.
//! What the runs mean is decided in `siding_model::history`. Must never be needed to run, stop or
//! show a task, and is never linked into the keeping of one.

#![forbid(unsafe_code)]

mod database;
mod error;
mod ingest;
mod query;
mod schema;
#[cfg(test)]
mod tests;

pub use database::{DATABASE_FILE_NAME, History, HistoryOutcome, query_best_effort, with_history};
pub use error::HistoryError;
pub use ingest::{MAX_COMMAND_AGE, MAX_COMMANDS, MAX_RUNS_PER_COMMAND};
pub use query::Filter;
pub use schema::FORMAT;
