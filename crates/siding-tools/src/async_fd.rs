//! Waits asynchronously for the descriptors of siding-core, which itself is synchronous.

use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::Poll;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::process::MonotonicMs;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A set of descriptors for a wait, which ends when one of them is readable.
///
/// Each wait needs a new set, because siding-core returns other descriptors after each event. A
/// descriptor that is already readable is reported immediately.
#[derive(Debug)]
pub struct ReadableFds(Vec<AsyncFd<OwnedFd>>);

impl ReadableFds {
    /// Registers the descriptors with the runtime.
    ///
    /// # Errors
    ///
    /// Returns the error of epoll_ctl(2) or dup(2): no descriptor is left, or one of the
    /// descriptors is a regular file.
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

    /// Waits until a descriptor is readable or at its end of file. Never returns for an empty set.
    ///
    /// # Errors
    ///
    /// Returns an error when the runtime is shutting down.
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

/// Sleeps until `moment` on the monotonic clock.
pub async fn sleep_until(moment: MonotonicMs) {
    tokio::time::sleep(Duration::from_millis(moment.ms_since(clock::monotonic_now()))).await;
}

/// Runs blocking `work` while other threads of the runtime poll the futures that this thread would
/// have polled. The runtime must have several threads. The work usually takes milliseconds, but
/// longer when a killed shim has to be replaced.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}
