//! Follows a task on another agent's server. This is the program of a task of the kind
//! `remote_agent`.
//!
//! The program runs under a shim like any command, so it has a deadline and can be stopped, and its
//! output and end are recorded. People and models read the output. A line of the program itself
//! begins in the first column and may quote text of the server. All other text of the server is
//! indented, so that no server can forge a line of the program.

mod connection;
mod driver;
mod message;
mod output;
mod state;

use std::path::PathBuf;

pub use driver::run_remote_task;

/// Pattern of the lines that the task's monitor reports immediately. They say that the remote task
/// waits for the user, or that the meaning of its state is unknown.
pub const NOTICE_LINE_PATTERN: &str = "^(input-required|auth-required|unknown state)\\b";

/// Exit codes of the program that follows a remote task.
pub mod exit {
    /// The remote task is completed, or the server has answered without a task.
    pub const DONE: u8 = 0;
    /// The remote task has failed or could not be started, or the server has refused to cancel it.
    pub const FAILED: u8 = 1;
    /// The remote task was canceled, the server has accepted the request to cancel it, or the
    /// program was stopped before it sent anything.
    pub const CANCELED: u8 = 3;
    /// The state of the remote task is unknown: for example, the server can no longer be reached or
    /// no longer knows the task, or the message may not have arrived.
    pub const LOST: u8 = 4;
}

/// The message to send, and its destination.
#[derive(Clone)]
pub struct RemoteTask {
    /// URL of the agent card if its path ends in `.json`. Otherwise the card is at its usual path
    /// below this URL, or below the root of the server.
    pub url: String,
    /// Text part of the message, which precedes the files.
    pub text: String,
    /// Files to attach; text files are sent as text.
    pub files: Vec<PathBuf>,
    /// Id of the conversation to continue; `None` starts a new conversation.
    pub context: Option<String>,
    /// The server's id of the task that this message answers; `None` starts a new task.
    pub task: Option<String>,
    /// Bearer token for each request, never printed; `None` sends no authorization.
    pub bearer: Option<String>,
}
