//! Beginning a task: from what somebody orders to a command that a shim keeps.
//!
//! Whoever runs commands for somebody goes this way: [`order::spec`] makes a specification of an
//! order and the settings, [`begin()`] puts it on record and gives it to a shim, and [`hear()`]
//! tells what the shim's messages mean for one who waits in the foreground.

mod begin;
mod environment;
mod error;
mod hear;
pub mod order;

pub use begin::{Begun, Duplicates, Given, begin, clear_unborn, withdraw};
pub use error::RunError;
pub use hear::{Heard, hear};
