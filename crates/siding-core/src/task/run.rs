//! Starts a task: turns a request into a command that a shim supervises.
//!
//! A caller takes these steps: [`TaskRequest::prepare`](request::TaskRequest::prepare) combines a
//! request and the settings, [`PreparedTask::start`] passes the task to a shim, and
//! [`wait_in_foreground`] waits until the command ends or moves to the background. A caller with
//! its own event loop does not wait, but interprets the shim's messages with [`recv_event`].

mod environment;
mod error;
mod executor;
mod foreground;
pub mod request;
mod shim_messages;
mod start;
mod stdin;
mod working_directory;

pub use environment::{BaseEnvironment, NONINTERACTIVE_VARIABLES};
pub use error::RunError;
pub use executor::{ExecutorChoice, ExecutorError, UnknownExecutor, remote_executor};
pub use foreground::{
    CallEnd, ForegroundCaller, WriteResult, wait_attached, wait_in_foreground, wait_until_started,
};
pub use shim_messages::{OutputNews, ShimEvent, recv_event};
pub use start::{LaunchResult, PreparedTask, clear_unrecorded, discard_unstarted};
pub use stdin::{CallerStdin, TaskStdin, caller_stdin};
