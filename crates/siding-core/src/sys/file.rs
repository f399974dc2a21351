//! Files: opened below a directory descriptor, so that no path is too long and none is raced.

mod metadata;
mod space;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};

pub use metadata::{
    FileMetadata, is_linked, is_program, is_same_file, is_writable, metadata, metadata_at,
    modified_ms, set_modified_ms,
};
pub use space::{next_data, punch_hole, release_reserve, reserve};

/// What to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing directory.
    Directory,
    /// An existing file, to read.
    Read,
    /// A file that must not exist yet, to read and write.
    CreateNew,
    /// An existing file, to read and write.
    ReadWrite,
    /// An existing file, to write.
    Write,
    /// A file, made when it is not there, to write at its end.
    Append,
    /// An existing FIFO, to write, failing with `ENXIO` when nobody reads.
    FifoWrite,
    /// An existing FIFO, both ways: it never sees an end, so a poll on it never spins.
    FifoReadWrite,
}

/// Opens `name` below `dir`, never following a symbolic link in the last part, closed on exec.
///
/// # Errors
///
/// The operating system's.
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

/// Opens `name` below `dir` to read and write, making it where it is not there.
///
/// # Errors
///
/// The operating system's.
pub fn open_or_create(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<OwnedFd> {
    match open_at(&dir, &name, OpenMode::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            open_at(&dir, &name, OpenMode::ReadWrite)
        }
        result => result,
    }
}

/// Whether an error tells of this moment and nothing of the file: no descriptor or memory is left, or a
/// server does not answer.
#[must_use]
pub fn is_transient(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing =
        [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::STALE, Errno::TIMEDOUT, Errno::HOSTDOWN];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// What [`open_at`] fails with at a symbolic link, as a raw error.
pub const SYMLINK_ERRNO: i32 = rustix::io::Errno::LOOP.raw_os_error();

/// Opens an existing file by path, following links, to read and, with `append`, to write at its
/// end. Does not wait for a FIFO and takes no terminal.
///
/// # Errors
///
/// The operating system's.
pub fn open_followed(path: &Path, append: bool) -> io::Result<OwnedFd> {
    let how = if append { OFlags::RDWR | OFlags::APPEND } else { OFlags::RDONLY };
    let flags = how | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens a terminal to write, without making it this process's own, and without waiting where its
/// output is stopped. `None` for what is no terminal.
///
/// # Errors
///
/// The operating system's.
pub fn open_terminal(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(rustix::termios::isatty(&fd).then_some(fd))
}

/// Opens a directory by path, following links.
///
/// # Errors
///
/// The operating system's.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens `/dev/null` both ways.
///
/// # Errors
///
/// The operating system's.
pub fn open_null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Creates a directory of mode 0700 below `dir`.
///
/// # Errors
///
/// The operating system's, `EEXIST` included.
pub fn create_directory(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(dir, name.as_ref(), Mode::RWXU)?)
}

/// Creates a FIFO of mode 0600 below `dir`.
///
/// # Errors
///
/// The operating system's.
pub fn create_fifo(dir: impl AsFd, name: &str) -> io::Result<()> {
    Ok(rustix::fs::mknodat(dir, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

/// Creates a symbolic link below `dir`.
///
/// # Errors
///
/// The operating system's, `EEXIST` included.
pub fn create_symlink(target: &str, dir: impl AsFd, name: &str) -> io::Result<()> {
    Ok(rustix::fs::symlinkat(target, dir, name)?)
}

/// Returns what a symbolic link below `dir` says.
///
/// # Errors
///
/// The operating system's, `ENOENT` when there is none.
pub fn read_link(dir: impl AsFd, name: &str) -> io::Result<String> {
    let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
    target.into_string().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Removes a file below `dir`.
///
/// # Errors
///
/// The operating system's.
pub fn remove(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name.as_ref(), AtFlags::empty())?)
}

/// Removes an empty directory below `dir`.
///
/// # Errors
///
/// The operating system's.
pub fn remove_directory(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name.as_ref(), AtFlags::REMOVEDIR)?)
}

/// Moves a file or directory from one directory to another, replacing nothing.
///
/// Network file systems cannot promise that last part in one call; there it is looked before.
///
/// # Errors
///
/// The operating system's, `EEXIST` included.
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

/// Puts a file in the place of another below the same directory, in one step.
///
/// # Errors
///
/// The operating system's.
pub fn rename_over(dir: impl AsFd, name: &str, old: &str) -> io::Result<()> {
    Ok(rustix::fs::renameat(dir.as_fd(), name, dir.as_fd(), old)?)
}

/// Returns the names of everything in a directory, without `.` and `..`, in no order.
///
/// # Errors
///
/// The operating system's.
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

/// Returns the names in a directory that siding may have given, without `.` and `..`, in no order:
/// it gives none that is not UTF-8.
///
/// # Errors
///
/// The operating system's.
pub fn list_names(dir: impl AsFd) -> io::Result<Vec<String>> {
    Ok(list_entries(dir)?.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Returns the names of the directories in a directory, without `.` and `..`, in no order.
///
/// # Errors
///
/// The operating system's.
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

/// Takes the exclusive lock of an open file, if nobody has it. It lives as long as the open file
/// description, in whichever process that is.
///
/// # Errors
///
/// The operating system's; a lock held by somebody else is `Ok(false)`.
pub fn try_lock_exclusive(fd: impl AsFd) -> io::Result<bool> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes the exclusive lock of an open file, waiting for it. For short work only.
///
/// # Errors
///
/// The operating system's.
pub fn lock_exclusive(fd: impl AsFd) -> io::Result<()> {
    loop {
        match rustix::fs::flock(fd.as_fd(), FlockOperation::LockExclusive) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Waits until the file's data is on the disk.
///
/// # Errors
///
/// The operating system's.
pub fn sync_data(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(fd)?)
}

/// Makes reads and writes on a descriptor wait.
///
/// # Errors
///
/// The operating system's.
pub fn set_blocking(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd.as_fd())?;
    Ok(rustix::fs::fcntl_setfl(fd, flags & !OFlags::NONBLOCK)?)
}

/// Reads what there is, `Ok(0)` at the end.
///
/// # Errors
///
/// The operating system's, `EAGAIN` when a descriptor that does not block has nothing.
pub fn read(fd: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, into)?)
}

/// Writes some bytes.
///
/// # Errors
///
/// The operating system's, `EAGAIN` when a descriptor that does not block is full.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(fd, bytes)?)
}

/// Reads at an offset, `Ok(0)` at the end.
///
/// # Errors
///
/// The operating system's.
pub fn read_at(fd: impl AsFd, into: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match rustix::io::pread(fd.as_fd(), &mut *into, offset) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Writes everything at an offset.
///
/// # Errors
///
/// The operating system's; an unknown part may have been written.
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
/// The operating system's; `FileTooLarge` beyond `max`.
pub fn read_to_end(fd: BorrowedFd<'_>, max: usize) -> io::Result<Vec<u8>> {
    let len = usize::try_from(metadata(fd)?.len).unwrap_or(usize::MAX);
    if len > max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // One spare byte shows the end without a second read when the length was right.
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
