//! Starts a task: from a request to a command under a shim.
//!
//! All callers take these steps: [`TaskRequest::prepare`](request::TaskRequest::prepare) combines a
//! request and the settings, [`PreparedTask::start`] passes the task to a shim, and [`recv_event`]
//! interprets the shim's messages for a caller that waits in the foreground.

mod environment;
mod error;
pub mod request;
mod shim_messages;
mod start;

pub use error::RunError;
pub use shim_messages::{ShimEvent, recv_event};
pub use start::{LaunchResult, PreparedTask, clear_unrecorded, discard_unstarted};
