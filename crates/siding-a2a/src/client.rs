//! Follows a task on another agent's server: the program of a task of the kind `remote_agent`.
//!
//! The program runs under a shim like any command, so it has a deadline, can be stopped, and its
//! output and end are recorded. People and models read the output. The program's own lines begin in
//! the first column and may quote the server in one line. All other text of the server is indented,
//! so that no server can forge a line of the program.

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
    /// The remote task is completed, or the server has answered without a task.
    pub const DONE: u8 = 0;
    /// The remote task has failed or could not be started, or the server has refused to cancel it.
    pub const FAILED: u8 = 1;
    /// The remote task was canceled, or the server has accepted the request to cancel it; or the
    /// program was stopped before it sent anything.
    pub const CANCELED: u8 = 3;
    /// The state of the remote task is unknown: the server cannot be reached any more, does not
    /// know the task any more, or may not have received the message.
    pub const LOST: u8 = 4;
}

/// The message to send, and its destination.
#[derive(Clone)]
pub struct RemoteTask {
    /// URL of the agent card (ending in `.json`), or a URL below which, or at whose root, the card
    /// has its usual path.
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
