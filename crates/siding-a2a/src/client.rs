//! A task on another agent's server: the program of a task of the kind `remote_agent`.
//!
//! It runs under a shim like any command, so its deadline, its stop, its output and its end are
//! siding's. What it writes is for people and models: its own lines begin in the first column, and
//! whatever the server says is indented, so that no text of a server can pass for one of them.

mod connection;
mod driver;
mod message;
mod output;
mod state;

use std::path::PathBuf;

pub use driver::run_remote_task;

/// Which of its lines are told at once, by the task's monitor: somebody is waited for, or nobody knows
/// what the server means.
pub const NOTICE_LINE_PATTERN: &str = "^(input-required|auth-required|unknown state)\\b";

/// Exit codes.
pub mod exit {
    /// It is done.
    pub const DONE: u8 = 0;
    /// It has failed, or the server has refused it.
    pub const FAILED: u8 = 1;
    /// It was canceled.
    pub const CANCELED: u8 = 3;
    /// The server cannot be reached any more, and how the task stands is not known.
    pub const LOST: u8 = 4;
}

/// What is to be sent, and where.
#[derive(Clone)]
pub struct RemoteTask {
    /// The agent: where its card is, or what stands before the card's usual place.
    pub url: String,
    /// What it is told.
    pub text: String,
    /// Files that it is given.
    pub files: Vec<PathBuf>,
    /// The conversation that this belongs to.
    pub context: Option<String>,
    /// The task that this answers.
    pub task: Option<String>,
    /// What lets us in. Never printed.
    pub bearer: Option<String>,
}
