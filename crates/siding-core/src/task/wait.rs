//! Waits until tasks end, print a line, listen on a port, answer HTTP or create a file.
//!
//! A wait blocks the calling thread in one poll(2). The shim reports the end of the task and the
//! growth of its output, and inotify(7) reports the creation of files. The waiting process also
//! checks ports (the kernel has no event for them), HTTP servers, and files (inotify misses some
//! changes) periodically, but only during the wait. Each task uses one descriptor.

mod checks;
mod events;
mod waiter;

pub use waiter::{MetCondition, WaitError, WaitResult, Waiter, check_patterns};
