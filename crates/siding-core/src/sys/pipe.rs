//! Pipes: their size, and moving their content without copying it through this process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Sets the capacity of a pipe in bytes, which the kernel rounds up to whole pages (fcntl(2)).
///
/// # Errors
///
/// `EPERM` if an ordinary user has used up the pages for pipes, or exceeds the maximum size of a
/// pipe (pipe(7)); `EBUSY` if the pipe holds more than `bytes`.
pub fn set_size(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    rustix::pipe::fcntl_setpipe_size(fd, bytes)?;
    Ok(())
}

/// Returns the capacity of a pipe in bytes.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn capacity(fd: impl AsFd) -> io::Result<usize> {
    Ok(rustix::pipe::fcntl_getpipe_size(fd)?)
}

/// Moves at most `most` bytes from a pipe into a file at an offset, without copying them into this
/// process (splice(2)). Even when this process is killed meanwhile, each byte is either in the file
/// or still in the pipe. Returns the number of bytes moved; 0 means that the pipe is empty and has
/// no writer.
///
/// # Errors
///
/// The I/O error of the system call: `EAGAIN` if the pipe is empty and has a writer, `EINVAL` if
/// the file system does not support splice(2).
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

/// Moves at most `most` bytes of a terminal's output into a pipe (splice(2)). `master` must not block.
/// Even when this process is killed meanwhile, each byte is either still in the terminal or in the
/// pipe. Returns the number of bytes moved.
///
/// # Errors
///
/// The I/O error of the system call: `EAGAIN` if there is no output or the pipe is full, `EIO` if
/// there is no output and no process has the terminal open, `EINVAL` before Linux 5.12, whose
/// terminals do not support splice(2).
pub fn splice_from_terminal(master: impl AsFd, pipe: impl AsFd, most: usize) -> io::Result<usize> {
    let how = rustix::pipe::SpliceFlags::NONBLOCK;
    loop {
        match rustix::pipe::splice(&master, None, &pipe, None, most, how) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Creates a pipe, and returns its read end and its write end. Neither end blocks.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn create_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
    Ok(rustix::pipe::pipe_with(flags)?)
}

/// Duplicates at most `most` bytes of a pipe into another pipe. The bytes also stay in the first
/// pipe, and none is copied (tee(2)). Returns the number of bytes; 0 means that the first pipe is
/// empty and has no writer.
///
/// # Errors
///
/// The I/O error of the system call: `EAGAIN` if the first pipe is empty and has a writer, or if
/// the second pipe is full.
pub fn tee(pipe: impl AsFd, with: impl AsFd, most: usize) -> io::Result<usize> {
    let how = rustix::pipe::SpliceFlags::NONBLOCK;
    loop {
        match rustix::pipe::tee(&pipe, &with, most, how) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Removes `bytes` bytes from a pipe that holds at least that many, by moving them to `null`
/// (`/dev/null`). The kernel usually moves all of them in one call, so a process that is killed
/// during the call has removed all of them or none.
///
/// # Errors
///
/// The I/O error of the system call: `EAGAIN` or `UnexpectedEof` if the pipe holds fewer bytes.
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

/// Returns the number of bytes in a pipe.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn buffered_bytes(pipe: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(pipe)?)
}
