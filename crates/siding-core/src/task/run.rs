//! Starts a task: from a request to a command under a shim.
//!
//! All callers take these steps: [`request::task_spec`] combines a request and the settings into a
//! specification, [`start_task`] passes it to a shim, and [`recv_event`] interprets the shim's
//! messages for a caller that waits in the foreground.

mod environment;
mod error;
pub mod request;
mod shim_messages;
mod start;

pub use error::RunError;
pub use shim_messages::{ShimEvent, recv_event};
pub use start::{
    Duplicates, LaunchEnv, LaunchResult, clear_unrecorded, discard_unstarted, start_task,
};
