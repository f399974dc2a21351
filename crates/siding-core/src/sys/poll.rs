//! Waiting for several descriptors at once.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec};

/// Bytes that a pipe takes at once when it can be written: it has a free page then (pipe(7), PIPE_BUF).
pub const PIPE_BLOCK_BYTES: usize = 4096;

/// Whether the descriptor can be read, or has ended, right now.
#[must_use]
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
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
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout_ms: Option<u64>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    poll_fds(&mut polled, timeout_ms)?;
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// Waits. An interruption by a signal leaves nothing ready.
fn poll_fds(polled: &mut [PollFd<'_>], timeout_ms: Option<u64>) -> io::Result<()> {
    let timeout = timeout_ms.map(|ms| Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000).unwrap_or(0) * 1_000_000,
    });
    match rustix::event::poll(polled, timeout.as_ref()) {
        Ok(_) => Ok(()),
        Err(rustix::io::Errno::INTR) => {
            polled.iter_mut().for_each(PollFd::clear_revents);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether nobody reads any more what is written to `fd`: the other end of its pipe or socket is
/// closed. Others are always read.
#[must_use]
pub fn is_peer_closed(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1))
}

/// As [`wait_readable`], and also wakes when nobody reads any more what is written to `out`. Whether that is
/// so is [`is_peer_closed`]'s to say.
///
/// # Errors
///
/// The operating system's.
pub fn wait_readable_or_closed(
    fds: &[BorrowedFd<'_>],
    out: BorrowedFd<'_>,
    timeout_ms: Option<u64>,
) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    polled.push(PollFd::from_borrowed_fd(out, PollFlags::empty()));
    poll_fds(&mut polled, timeout_ms)?;
    Ok(polled[..fds.len()].iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// As [`wait_readable`], and also wakes when `out` can be written, or will never be read: the last of what is
/// returned says so. A pipe that can be written takes [`PIPE_BLOCK_BYTES`] bytes without making its writer
/// wait.
///
/// # Errors
///
/// The operating system's.
pub fn wait_readable_or_writable(
    fds: &[BorrowedFd<'_>],
    out: BorrowedFd<'_>,
    timeout_ms: Option<u64>,
) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    polled.push(PollFd::from_borrowed_fd(out, PollFlags::OUT));
    poll_fds(&mut polled, timeout_ms)?;
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// Waits until `fd` can be written, at most `timeout_ms`. Returns whether it can.
///
/// # Errors
///
/// The operating system's.
pub fn wait_writable(fd: BorrowedFd<'_>, timeout_ms: u64) -> io::Result<bool> {
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
