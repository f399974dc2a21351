//! Pipes: what they hold, and how that gets somewhere else without being copied through a process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Sets how many bytes a pipe holds. The kernel rounds up to whole pages.
///
/// # Errors
///
/// `EPERM` when an ordinary user's pipe pages are used up, `EBUSY` when it holds more than that.
pub fn set_size(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    rustix::pipe::fcntl_setpipe_size(fd, bytes)?;
    Ok(())
}

/// Moves at most `most` bytes out of a pipe into a file at an offset, without bringing them into
/// this process: what the file has taken is out of the pipe and what it has not is still there, even
/// when this process is killed meanwhile. Returns how many.
///
/// # Errors
///
/// The operating system's: `EAGAIN` when the pipe is empty, `EINVAL` when the file's system cannot.
pub fn splice_to_file(
    pipe: impl AsFd,
    to: impl AsFd,
    offset: u64,
    most: usize,
) -> io::Result<usize> {
    let mut offset = offset;
    let how = rustix::pipe::SpliceFlags::NONBLOCK;
    loop {
        match rustix::pipe::splice(&pipe, None, &to, Some(&mut offset), most, how) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Makes a pipe: where it is read, and where it is written.
///
/// # Errors
///
/// The operating system's.
pub fn create_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
    Ok(rustix::pipe::pipe_with(flags)?)
}

/// Lets another pipe have what a pipe holds too, at most `most` bytes; the first keeps it. Nothing is
/// copied. Returns how many bytes that were.
///
/// # Errors
///
/// The operating system's: `EAGAIN` when one is empty or the other full.
pub fn tee(pipe: impl AsFd, with: impl AsFd, most: usize) -> io::Result<usize> {
    let how = rustix::pipe::SpliceFlags::NONBLOCK;
    loop {
        match rustix::pipe::tee(&pipe, &with, most, how) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Takes bytes out of a pipe that holds at least so many, and drops them. The kernel does it in one
/// step: whoever is killed has taken all of them or none.
///
/// # Errors
///
/// The operating system's.
pub fn discard(pipe: impl AsFd, null: impl AsFd, bytes: usize) -> io::Result<()> {
    let how = rustix::pipe::SpliceFlags::NONBLOCK;
    let mut remaining = bytes;
    while remaining > 0 {
        match rustix::pipe::splice(&pipe, None, &null, None, remaining, how) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => remaining -= count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns how many bytes a pipe holds.
///
/// # Errors
///
/// The operating system's.
pub fn buffered_bytes(pipe: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(pipe)?)
}
