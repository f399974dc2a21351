//! What siding remembers of commands that ended: how long they took and how they ended.
//!
//! Owns `history.db` in the state directory. Everything in it comes from the journals of ended
//! tasks, so it may be deleted at any time; what is lost is what retention has already removed.
//! What the runs mean is decided in `siding_model::history`. Must never be needed to run, stop or
//! show a task, and is never linked into the keeping of one.

#![forbid(unsafe_code)]

mod ask;
mod database;
mod error;
mod ingest;
mod schema;
#[cfg(test)]
mod tests;

pub use ask::Filter;
pub use database::{Done, FILE, History, in_passing, with};
pub use error::HistoryError;
pub use ingest::{COMMAND_AGE_MAX, COMMANDS_MAX, RUNS_MAX};
pub use schema::FORMAT;
