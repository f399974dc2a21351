//! Facts about files, and the steps of creating or replacing one: creating it and its directory,
//! copying the owner and the permissions, and syncing the directory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};

/// The kind of a file, as stat(2) reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe. Opening one may block forever.
    Fifo,
    /// A socket.
    Socket,
    /// A device, or a kind that this module does not know.
    Device,
}

/// The facts about a file that can be read without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry {
    /// The kind of the file.
    pub kind: FileKind,
    /// The length, in bytes.
    pub len: u64,
    /// Whether the link count is above 1. A regular file then has other names (hard links); most
    /// directories always have such a count.
    pub has_hard_links: bool,
    /// The identity of the file and of its present content.
    pub stamp: FileStamp,
    mode: u32,
    /// The user ID and the group ID.
    owner: (u32, u32),
}

/// Identifies a file and its present content: every other file, and the same file after a write,
/// has a different stamp. The exception is a write that keeps the length and follows the last
/// change within one tick of the clock for file times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    /// The device and the inode.
    identity: (u64, u64),
    len: u64,
    /// The time of the last write, in seconds and nanoseconds.
    modified: (i64, i64),
    /// The time of the last change of any kind (ctime), which no program can set.
    changed: (i64, i64),
}

/// Returns the facts about an open file.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn entry_of_fd(fd: impl AsFd) -> io::Result<DirEntry> {
    Ok(entry_from_stat(&rustix::fs::fstat(fd)?))
}

/// Returns the facts about `name` below `dir`, without following a symbolic link.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn entry_at(dir: impl AsFd, name: &str) -> io::Result<DirEntry> {
    Ok(entry_from_stat(&rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

fn entry_from_stat(stat: &Stat) -> DirEntry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => FileKind::Device,
    };
    let len = stat.st_size.unsigned_abs();
    let written = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let changed = i64::try_from(stat.st_ctime_nsec).unwrap_or(0);
    DirEntry {
        kind,
        len,
        has_hard_links: stat.st_nlink > 1,
        stamp: FileStamp {
            identity: (stat.st_dev, stat.st_ino),
            len,
            modified: (stat.st_mtime, written),
            changed: (stat.st_ctime, changed),
        },
        mode: stat.st_mode & 0o7777,
        owner: (stat.st_uid, stat.st_gid),
    }
}

/// Returns whether this process may write to `name` below `dir`.
#[must_use]
pub fn is_writable_at(dir: impl AsFd, name: &str) -> bool {
    rustix::fs::accessat(dir, name, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Creates the file `name` below `dir` and opens it for writing. Fails if the file exists. The
/// user's umask decides its permissions.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn create_new(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o666))?)
}

/// Creates a directory below `dir`. The user's umask decides its permissions.
///
/// # Errors
///
/// The I/O error of the system call, including `EEXIST`.
pub fn create_directory(dir: impl AsFd, name: &Path) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o777))?)
}

/// Copies the permissions of `other` to a file, and also its user and group if this process may set
/// both.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn copy_owner_and_mode(fd: impl AsFd, other: &DirEntry) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(other.owner.0), Gid::from_raw(other.owner.1));
    // An ordinary user may not change the owner, so the new file stays the user's. The owner comes
    // before the permissions, because a change of owner clears some of them (chown(2)).
    let _best_effort = rustix::fs::fchown(fd.as_fd(), Some(user), Some(group));
    Ok(rustix::fs::fchmod(fd, Mode::from_raw_mode(other.mode))?)
}

/// Waits until the names in a directory are on disk. Failures are ignored, because not every file
/// system supports fsync(2) of a directory, and a directory without read permission cannot be
/// opened.
pub fn sync_directory(dir: impl AsFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(readable) = rustix::fs::openat(dir, ".", flags, Mode::empty()) {
        let _best_effort = rustix::fs::fsync(readable);
    }
}
