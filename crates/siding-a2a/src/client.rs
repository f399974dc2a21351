//! A task on another agent's server: the program of a task of the kind `remote_agent`.
//!
//! The program runs under a shim like any command, so it has a deadline, can be stopped, and its
//! output and end are recorded. People and models read the output: the program's own lines begin in
//! the first column, and all text of the server is indented, so that no server can forge one of
//! these lines.

mod connection;
mod driver;
mod message;
mod output;
mod state;

use std::path::PathBuf;

pub use driver::run_remote_task;

/// The lines that the task's monitor reports immediately: the remote task waits for the user, or
/// the meaning of its state is unknown.
pub const NOTICE_LINE_PATTERN: &str = "^(input-required|auth-required|unknown state)\\b";

/// Exit codes.
pub mod exit {
    /// The task is completed.
    pub const DONE: u8 = 0;
    /// The task has failed, or the server has refused it.
    pub const FAILED: u8 = 1;
    /// The task was canceled.
    pub const CANCELED: u8 = 3;
    /// The server cannot be reached any more, and the state of the task is unknown.
    pub const LOST: u8 = 4;
}

/// The message to send, and its destination.
#[derive(Clone)]
pub struct RemoteTask {
    /// The agent: the URL of its card, or the base URL of the card's usual path.
    pub url: String,
    /// The text of the message.
    pub text: String,
    /// Files to attach.
    pub files: Vec<PathBuf>,
    /// The conversation to continue.
    pub context: Option<String>,
    /// The task to which this message is the answer.
    pub task: Option<String>,
    /// The bearer token. Never printed.
    pub bearer: Option<String>,
}
