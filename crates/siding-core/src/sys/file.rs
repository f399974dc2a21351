//! Files, most of them opened relative to a directory descriptor, so that no path is too long and
//! no directory on the way can be replaced in a race.

mod metadata;
mod space;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};

use super::clock;

pub use metadata::{
    FileMetadata, is_linked, is_program, is_same_file, is_writable, metadata, metadata_at,
    modified_ms, set_modified_ms,
};
pub use space::{
    allocated_below, next_data, next_hole, punch_hole, release_reserve, reserve, truncate,
};

/// The first and the longest pause between two attempts to lock. Each pause is twice as long as the
/// previous pause.
const LOCK_RETRY_PAUSE: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(20));

/// The kind of file to open, the access to it, and whether it may or must be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing directory.
    Directory,
    /// An existing file, for reading.
    Read,
    /// A file that must not exist yet, for reading and writing.
    CreateNew,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// An existing file, for writing.
    Write,
    /// A file for writing at its end, created if it is missing.
    Append,
    /// An existing FIFO, for writing. Fails with `ENXIO` if no process has it open for reading
    /// (fifo(7)).
    FifoWrite,
    /// An existing FIFO, for reading and writing: such a descriptor never reports an end of file,
    /// so a loop with poll(2) does not spin.
    FifoReadWrite,
}

/// Opens `name` below `dir` with close-on-exec. A symbolic link as the last component is not
/// followed.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn open_at(dir: impl AsFd, name: impl AsRef<Path>, open_mode: OpenMode) -> io::Result<OwnedFd> {
    let flags = match open_mode {
        OpenMode::Directory => OFlags::RDONLY | OFlags::DIRECTORY,
        OpenMode::Read => OFlags::RDONLY | OFlags::NONBLOCK,
        OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        OpenMode::ReadWrite => OFlags::RDWR,
        OpenMode::Write => OFlags::WRONLY,
        OpenMode::Append => OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND,
        OpenMode::FifoWrite => OFlags::WRONLY | OFlags::NONBLOCK,
        OpenMode::FifoReadWrite => OFlags::RDWR | OFlags::NONBLOCK,
    };
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(rustix::fs::openat(dir, name.as_ref(), flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, mode)?)
}

/// Opens `name` below `dir` for reading and writing, and creates it if it is missing.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn open_or_create(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<OwnedFd> {
    match open_at(&dir, &name, OpenMode::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            open_at(&dir, &name, OpenMode::ReadWrite)
        }
        result => result,
    }
}

/// Returns whether an error is temporary and says nothing about the file: no descriptor or memory
/// is left, or a file server does not respond or no longer knows the file handle.
#[must_use]
pub fn is_transient(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing =
        [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::STALE, Errno::TIMEDOUT, Errno::HOSTDOWN];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The errno with which [`open_at`] fails at a symbolic link, except with [`OpenMode::Directory`]
/// (`ENOTDIR`) and [`OpenMode::CreateNew`] (`EEXIST`).
pub const SYMLINK_ERRNO: i32 = rustix::io::Errno::LOOP.raw_os_error();

/// Opens an existing file by path, following symbolic links, for reading and, with `append`, for
/// writing at its end. Does not block on a FIFO, and does not make a terminal the controlling
/// terminal.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn open_followed(path: &Path, append: bool) -> io::Result<OwnedFd> {
    let how = if append { OFlags::RDWR | OFlags::APPEND } else { OFlags::RDONLY };
    let flags = how | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens a terminal for writing, without making it the controlling terminal, and without blocking
/// while its output is stopped. `None` if the path is not a terminal.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn open_terminal(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(rustix::termios::isatty(&fd).then_some(fd))
}

/// Opens a directory by path, following symbolic links.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens `/dev/null` for reading and writing.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn open_null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Creates a directory of mode 0700 below `dir`.
///
/// # Errors
///
/// The I/O error of the system call, including `EEXIST`.
pub fn create_directory(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(dir, name.as_ref(), Mode::RWXU)?)
}

/// Creates a FIFO of mode 0600 below `dir`.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn create_fifo(dir: impl AsFd, name: &str) -> io::Result<()> {
    Ok(rustix::fs::mknodat(dir, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

/// Creates a symbolic link below `dir`.
///
/// # Errors
///
/// The I/O error of the system call, including `EEXIST`.
pub fn create_symlink(target: &str, dir: impl AsFd, name: &str) -> io::Result<()> {
    Ok(rustix::fs::symlinkat(target, dir, name)?)
}

/// Returns the target of a symbolic link below `dir`.
///
/// # Errors
///
/// The I/O error of the system call, `ENOENT` if there is no such name, `EINVAL` if it is not a
/// symbolic link; `InvalidData` if the target is not UTF-8.
pub fn read_link(dir: impl AsFd, name: &str) -> io::Result<String> {
    let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
    target.into_string().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Removes a file below `dir`.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn remove(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name.as_ref(), AtFlags::empty())?)
}

/// Removes an empty directory below `dir`.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn remove_directory(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name.as_ref(), AtFlags::REMOVEDIR)?)
}

/// Moves a file or directory from one directory to another without replacing anything.
///
/// Network file systems cannot do this in one call. On these, the new name is checked before the
/// move, and a file that appears in between is replaced.
///
/// # Errors
///
/// The I/O error of the system call, including `EEXIST`.
pub fn rename_noreplace(from: impl AsFd, name: &str, to: impl AsFd, new: &str) -> io::Result<()> {
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(from.as_fd(), name, to.as_fd(), new, flags) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            if metadata_at(to.as_fd(), new).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(rustix::fs::renameat(from, name, to, new)?)
        }
        result => Ok(result?),
    }
}

/// Renames the file `name` to `old` in the same directory. A file with the name `old` is replaced
/// atomically (rename(2)).
///
/// # Errors
///
/// The I/O error of the system call.
pub fn rename_over(dir: impl AsFd, name: &str, old: &str) -> io::Result<()> {
    Ok(rustix::fs::renameat(dir.as_fd(), name, dir.as_fd(), old)?)
}

/// Returns the names of all entries of a directory except `.` and `..`, in no particular order.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn list_entries(dir: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if ![&b"."[..], b".."].contains(&name) {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Returns the names in a directory except `.` and `..`, in no particular order. Names that are not
/// UTF-8 are left out, because siding creates no such names.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn list_names(dir: impl AsFd) -> io::Result<Vec<String>> {
    Ok(list_entries(dir)?.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Returns the names of the subdirectories of a directory except `.` and `..`, in no particular
/// order. Names that are not UTF-8 are left out.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn list_directories(dir: impl AsFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        if entry.file_type() == FileType::Directory
            && let Ok(name) = entry.file_name().to_str()
            && name != "."
            && name != ".."
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Acquires the exclusive lock on an open file, without waiting for it. The lock is owned by the
/// open file description: it is released when the last descriptor that refers to this description,
/// in any process, is closed (flock(2)).
///
/// # Errors
///
/// The I/O error of the system call. `Ok(false)` means that the lock is held through another open
/// file description.
pub fn try_lock_exclusive(fd: impl AsFd) -> io::Result<bool> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Acquires the exclusive lock on an open file, and blocks until the lock is free. Only for locks
/// that are held briefly.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn lock_exclusive(fd: impl AsFd) -> io::Result<()> {
    loop {
        match rustix::fs::flock(fd.as_fd(), FlockOperation::LockExclusive) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Acquires the exclusive lock on an open file, and waits for it for at most `timeout_ms`
/// milliseconds. Returns whether the lock was acquired. Callers that can continue or fail without
/// the lock use this function, because a process that a signal has stopped never releases its lock.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn lock_exclusive_within(fd: impl AsFd, timeout_ms: u64) -> io::Result<bool> {
    let until = clock::monotonic_now().plus_ms(timeout_ms);
    let mut pause = LOCK_RETRY_PAUSE.0;
    while !try_lock_exclusive(fd.as_fd())? {
        if clock::monotonic_now() >= until {
            return Ok(false);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOCK_RETRY_PAUSE.1);
    }
    Ok(true)
}

/// Waits until the data of a file is on disk.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn sync_data(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(fd)?)
}

/// Makes a descriptor blocking (clears `O_NONBLOCK`).
///
/// # Errors
///
/// The I/O error of the system call.
pub fn set_blocking(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd.as_fd())?;
    Ok(rustix::fs::fcntl_setfl(fd, flags & !OFlags::NONBLOCK)?)
}

/// Reads the bytes that are available. Returns their number, zero at the end of the file.
///
/// # Errors
///
/// The I/O error of the system call, `EAGAIN` if a non-blocking descriptor has no bytes.
pub fn read(fd: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, into)?)
}

/// Reads the bytes that a socket has received, without waiting, even if the descriptor is blocking.
/// Returns the number of bytes, which is zero at the end of the connection.
///
/// # Errors
///
/// The I/O error of the system call, `EAGAIN` if there are no bytes, `ENOTSOCK`.
pub fn read_socket(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let (_, count) = rustix::net::recv(socket, into, rustix::net::RecvFlags::DONTWAIT)?;
    Ok(count)
}

/// Writes some of the bytes, and returns their number.
///
/// # Errors
///
/// The I/O error of the system call, `EAGAIN` if a non-blocking descriptor is full.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(fd, bytes)?)
}

/// Reads bytes at an offset. Returns their number, zero at the end of the file.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn read_at(fd: impl AsFd, into: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match rustix::io::pread(fd.as_fd(), &mut *into, offset) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Writes all bytes at an offset.
///
/// # Errors
///
/// The I/O error of the system call; in that case an unknown part of the bytes may have been
/// written.
pub fn write_all_at(fd: impl AsFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(fd.as_fd(), bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads a whole file of at most `max` bytes.
///
/// # Errors
///
/// The I/O error of the system call; `FileTooLarge` if the file has more than `max` bytes.
pub fn read_to_end(fd: BorrowedFd<'_>, max: usize) -> io::Result<Vec<u8>> {
    let len = usize::try_from(metadata(fd)?.len).unwrap_or(usize::MAX);
    if len > max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // With one spare byte, the read that finds the end needs no larger buffer.
    let mut bytes = vec![0; len + 1];
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            bytes.resize(filled + 4096, 0);
        }
        match read_at(fd, &mut bytes[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
        if filled > max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_held_lock_ends() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || std::fs::File::open(directory.path()).expect("it is there");
        let held = open();
        assert!(lock_exclusive_within(&held, 0).expect("a free lock"));
        assert!(!lock_exclusive_within(open(), 30).expect("a held lock"));
        drop(held);
        assert!(lock_exclusive_within(open(), 1_000).expect("a free lock"));
    }
}
