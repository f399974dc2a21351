//! Sleeping until descriptors of the library become readable, without holding a thread.

use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::Poll;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::process::MonotonicMs;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Descriptors that are waited for.
///
/// They are registered anew for each wait: what the library waits for changes with every turn, and
/// one that is readable already is reported at once.
#[derive(Debug)]
pub struct ReadableFds(Vec<AsyncFd<OwnedFd>>);

impl ReadableFds {
    /// Waits for these.
    ///
    /// # Errors
    ///
    /// When one cannot be registered: no descriptor is left, or it is a file.
    #[expect(
        deprecated,
        reason = "its successor is unsafe for the sake of descriptors that somebody else may \
                  close; these are owned"
    )]
    pub fn new(descriptors: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let register = |one: &BorrowedFd<'_>| {
            AsyncFd::with_interest(one.try_clone_to_owned()?, Interest::READABLE)
        };
        descriptors.iter().map(register).collect::<Result<_, _>>().map(Self)
    }

    /// Returns when one of them can be read or has ended, never when there is none.
    ///
    /// # Errors
    ///
    /// When the runtime is shutting down.
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

/// Sleeps until a moment.
pub async fn sleep_until(moment: MonotonicMs) {
    tokio::time::sleep(Duration::from_millis(moment.ms_since(clock::monotonic_now()))).await;
}

/// Does what blocks for a moment, or for longer when a shim was killed, without holding up others.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}
