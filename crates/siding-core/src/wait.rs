//! Waiting for what tasks do: they end, print a line, listen on a port, answer HTTP, make a file.
//!
//! One thread, one poll. The end of a task and the growth of its output are told by its shim,
//! files by the kernel; only for a port, which no event of the kernel announces, and for HTTP is
//! looked again and again, by the one who waits and only while it waits. Each task takes one
//! descriptor.

mod checks;
mod events;
mod waiter;

pub use waiter::{MetCondition, WaitError, WaitResult, Waiter, check_patterns};
