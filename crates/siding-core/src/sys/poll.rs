//! Waiting for several descriptors at once.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec};

/// Whether the descriptor can be read, or has ended, right now.
#[must_use]
pub fn ready(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1))
}

/// Waits until one of `fds` can be read or has ended, at most `timeout_ms` (`None`: for ever).
/// Returns which ones, in order. An interruption by a signal returns none of them.
///
/// The timeout counts awake time.
///
/// # Errors
///
/// The operating system's.
pub fn wait(fds: &[BorrowedFd<'_>], timeout_ms: Option<u64>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = timeout_ms.map(|ms| Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000).unwrap_or(0) * 1_000_000,
    });
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Ok(_) => Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; fds.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Waits until `fd` can be written, at most `timeout_ms`. Returns whether it can.
///
/// # Errors
///
/// The operating system's.
pub fn writable(fd: BorrowedFd<'_>, timeout_ms: u64) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout_ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(timeout_ms % 1000).unwrap_or(0) * 1_000_000,
    };
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(count) => Ok(count == 1),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
