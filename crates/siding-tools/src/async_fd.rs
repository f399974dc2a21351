//! Waiting for the library's descriptors to become readable without blocking a thread.

use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::Poll;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::process::MonotonicMs;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Descriptors to wait for.
///
/// Each wait creates a new set, because the library's descriptors change with every poll. No event
/// is lost in between: epoll immediately reports a descriptor that is already readable.
#[derive(Debug)]
pub struct ReadableFds(Vec<AsyncFd<OwnedFd>>);

impl ReadableFds {
    /// Registers the descriptors.
    ///
    /// # Errors
    ///
    /// The I/O error of epoll_ctl(2) or dup(2): the process has no free descriptor, or one of
    /// `descriptors` is a regular file.
    #[expect(
        deprecated,
        reason = "its successor is unsafe because others may close a borrowed descriptor; \
                  these are owned"
    )]
    pub fn new(descriptors: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let register = |one: &BorrowedFd<'_>| {
            AsyncFd::with_interest(one.try_clone_to_owned()?, Interest::READABLE)
        };
        descriptors.iter().map(register).collect::<Result<_, _>>().map(Self)
    }

    /// Returns when a descriptor becomes readable or reaches end of file. Never returns for an
    /// empty set.
    ///
    /// # Errors
    ///
    /// The I/O error of the runtime when it is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| {
            for one in &self.0 {
                if let Poll::Ready(ready) = one.poll_read_ready(context) {
                    return Poll::Ready(ready.map(drop));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Sleeps until a point in time.
pub async fn sleep_until(moment: MonotonicMs) {
    tokio::time::sleep(Duration::from_millis(moment.ms_since(clock::monotonic_now()))).await;
}

/// Runs `work` without blocking other tasks of the runtime. `work` may block for a short time, or
/// longer when a killed shim must be replaced.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}
