//! Beginning a task: from what somebody orders to a command that a shim keeps.
//!
//! Whoever runs commands for somebody goes this way: [`order::spec`] makes a specification of an
//! order and the settings, [`begin()`] puts it on record and gives it to a shim, and [`hear()`]
//! tells what the shim's messages mean for one who waits in the foreground.

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
