//! Hosts: their marks, what is on record of them, and the start of their supervisors.
//!
//! ```text
//! hosts/h-2f3c9a0b1d4e5f60/record    who the host is (HostRecord)
//!                         /current   its conversation's session, and terms for what is taken on
//!                         /bell      a FIFO that wakes the supervisor
//!                         /lock      held by the supervisor as long as it lives
//!                         /claim.ID  a command that is marked, and that no shim keeps yet
//! ```

mod claim;
mod files;
mod launch;
mod mark;

pub use claim::{claim_commands, give_again, is_unkept, leave_host};
pub use files::{Current, HostFiles, Reach, is_beyond_this_namespace, reach};
pub use launch::{
    SUPERVISOR_ARGUMENT, SUPERVISOR_LOCK, SUPERVISOR_NAME, Unsupervised, can_be_watched, supervise,
    watched_mark,
};
pub use mark::{mark_host, marked};
