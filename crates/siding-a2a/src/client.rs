//! A task on another agent's server: the program of a task of the kind `remote_agent`.
//!
//! The program runs under a shim like any command, so it has a deadline, can be stopped, and its
//! output and end are recorded. People and models read the output. The program's own lines begin in
//! the first column, and all text of the server is indented, so that no server can forge such a
//! line.

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

/// Exit codes of the program that follows a remote task.
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
    /// URL of the agent's card, or the base URL to which the card's usual path is appended.
    pub url: String,
    /// Text part of the message, which precedes the files.
    pub text: String,
    /// Files to attach; text files are sent as text.
    pub files: Vec<PathBuf>,
    /// Id of the conversation to continue; `None` starts a new conversation.
    pub context: Option<String>,
    /// Id of the task that this message answers; `None` starts a new task.
    pub task: Option<String>,
    /// Bearer token for each request, never printed; `None` sends no authorization.
    pub bearer: Option<String>,
}
