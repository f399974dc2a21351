//! Waits until one of several descriptors is readable, writable or closed (poll(2)).

use std::io;
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

/// The number of bytes that a pipe accepts without blocking when poll(2) reports it as writable:
/// the pipe then has a free page (PIPE_BUF, pipe(7)).
pub const PIPE_BLOCK_BYTES: usize = 4096;

/// Pause after a failed poll(2), in milliseconds.
const FAILURE_PAUSE_MS: u64 = 50;

/// Returns whether poll(2) reports data, an end of file, a hangup or an error for a descriptor,
/// without waiting.
#[must_use]
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
    is_ready_now(fd, PollFlags::IN)
}

/// Waits until poll(2) reports data, an end of file, a hangup or an error for one of `fds`, at most
/// for `timeout_ms` (`None`: forever). Returns for each descriptor whether it is ready, in order.
/// After an interruption by a signal, none is ready.
///
/// The timeout does not include suspended time.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout_ms: Option<u64>) -> io::Result<Vec<bool>> {
    poll_fds(fds, None, timeout_ms)
}

/// Like [`wait_readable`], for a loop that continues after a failure, for example because the
/// kernel has no memory. After a failure, pauses for at most `FAILURE_PAUSE_MS`, so that the loop
/// does not use up a core, and returns `None`.
#[must_use]
pub fn wait_readable_or_pause(
    fds: &[BorrowedFd<'_>],
    timeout_ms: Option<u64>,
) -> Option<Vec<bool>> {
    let ready = wait_readable(fds, timeout_ms).ok();
    if ready.is_none() {
        let pause_ms = timeout_ms.unwrap_or(FAILURE_PAUSE_MS).min(FAILURE_PAUSE_MS);
        thread::sleep(Duration::from_millis(pause_ms));
    }
    ready
}

/// Calls poll(2) for input on `fds`, and for the given events on one more descriptor. Returns for
/// each descriptor whether it is ready, in order. After an interruption by a signal, none is ready.
fn poll_fds(
    fds: &[BorrowedFd<'_>],
    out: Option<(BorrowedFd<'_>, PollFlags)>,
    timeout_ms: Option<u64>,
) -> io::Result<Vec<bool>> {
    let input = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
    let output = out.map(|(fd, events)| PollFd::from_borrowed_fd(fd, events));
    let mut polled: Vec<_> = input.chain(output).collect();
    let timeout = timeout_ms.map(|ms| Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000).unwrap_or(0) * 1_000_000,
    });
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Ok(_) => Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; polled.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether poll(2) reports a hangup or an error for `fd`: the other end of its pipe, Unix
/// socket or terminal is closed, so no process will read what is written to `fd`. Always false for
/// a regular file.
#[must_use]
pub fn is_peer_closed(fd: BorrowedFd<'_>) -> bool {
    is_ready_now(fd, PollFlags::empty())
}

fn is_ready_now(fd: BorrowedFd<'_>, events: PollFlags) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1))
}

/// Like [`wait_readable`], but also returns when the other end of `out` is closed, as
/// [`is_peer_closed`] reports.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn wait_readable_or_closed(
    fds: &[BorrowedFd<'_>],
    out: BorrowedFd<'_>,
    timeout_ms: Option<u64>,
) -> io::Result<Vec<bool>> {
    let mut ready = poll_fds(fds, Some((out, PollFlags::empty())), timeout_ms)?;
    ready.truncate(fds.len());
    Ok(ready)
}

/// Like [`wait_readable`], but also returns when `out` can be written to or will never be read. The
/// last element of the result tells whether `out` is in one of these two states. A writable pipe
/// accepts [`PIPE_BLOCK_BYTES`] bytes without blocking.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn wait_readable_or_writable(
    fds: &[BorrowedFd<'_>],
    out: BorrowedFd<'_>,
    timeout_ms: Option<u64>,
) -> io::Result<Vec<bool>> {
    poll_fds(fds, Some((out, PollFlags::OUT)), timeout_ms)
}

/// Waits until a write to `fd` would not block, at most for `timeout_ms`. Returns false after the
/// timeout or after an interruption by a signal. A write to a closed pipe fails without blocking.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn wait_writable(fd: BorrowedFd<'_>, timeout_ms: u64) -> io::Result<bool> {
    let ready = poll_fds(&[], Some((fd, PollFlags::OUT)), Some(timeout_ms))?;
    Ok(ready == [true])
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::time::Instant;

    use rustix::process::Resource;

    use super::*;

    #[test]
    fn a_failed_poll_is_followed_by_a_pause() {
        // poll(2) fails for more descriptors than the process may have. The test is left out where
        // that number is unusual.
        let limit = rustix::process::getrlimit(Resource::Nofile).current;
        let Some(limit) = limit.filter(|limit| *limit <= 1 << 22) else { return };
        let null = std::fs::File::open("/dev/null").expect("is there");
        let fds = vec![null.as_fd(); usize::try_from(limit).expect("small") + 1];
        let started = Instant::now();
        assert_eq!(wait_readable_or_pause(&fds, None), None);
        assert!(started.elapsed() >= Duration::from_millis(FAILURE_PAUSE_MS));
        assert_eq!(wait_readable_or_pause(&fds[..1], None), Some(vec![true]));
    }
}
