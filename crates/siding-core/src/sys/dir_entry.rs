//! What a name in a directory stands for, and putting another file in its place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};

/// What there is of the kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Bytes on a disk.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe: opening it may wait for ever.
    Fifo,
    /// A socket.
    Socket,
    /// A device, or something that this module does not know.
    Device,
}

/// What is known of a file without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry {
    /// What it is.
    pub kind: FileKind,
    /// Length in bytes.
    pub len: u64,
    /// Whether it has other names too (hard links).
    pub has_hard_links: bool,
    /// Which one it is, and in which state.
    pub stamp: FileStamp,
    /// Permission bits.
    mode: u32,
    /// User and group.
    owner: (u32, u32),
}

/// Tells a file from every other, and from itself before it was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    /// Device and inode.
    identity: (u64, u64),
    len: u64,
    /// When it was written to, in seconds and nanoseconds.
    modified: (i64, i64),
    /// When anything about it was changed, which no program can set.
    changed: (i64, i64),
}

/// Returns what an open file is.
///
/// # Errors
///
/// The operating system's.
pub fn entry_of_fd(fd: impl AsFd) -> io::Result<DirEntry> {
    Ok(entry_from_stat(&rustix::fs::fstat(fd)?))
}

/// Returns what `name` below `dir` is; a link is not followed.
///
/// # Errors
///
/// The operating system's.
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

/// Whether this process may write to `name` below `dir`.
#[must_use]
pub fn is_writable_at(dir: impl AsFd, name: &str) -> bool {
    rustix::fs::accessat(dir, name, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Creates a file below `dir` that must not exist yet, to write, with the permissions that the user
/// wants for new files.
///
/// # Errors
///
/// The operating system's.
pub fn create_new(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o666))?)
}

/// Creates a directory below `dir` with the permissions that the user wants for new ones.
///
/// # Errors
///
/// The operating system's, `EEXIST` included.
pub fn create_directory(dir: impl AsFd, name: &Path) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o777))?)
}

/// Gives a file the owner, where this process may, and the permissions of another.
///
/// # Errors
///
/// The operating system's.
pub fn copy_owner_and_mode(fd: impl AsFd, other: &DirEntry) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(other.owner.0), Gid::from_raw(other.owner.1));
    // An ordinary user replaces a file of a directory by one that is its own. Before the permissions,
    // of which a new owner takes some away (chown(2)).
    let _best_effort = rustix::fs::fchown(fd.as_fd(), Some(user), Some(group));
    Ok(rustix::fs::fchmod(fd, Mode::from_raw_mode(other.mode))?)
}

/// Waits until the names in a directory are on the disk, where that can be had: file systems differ
/// and a directory need not be readable.
pub fn sync_directory(dir: impl AsFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(readable) = rustix::fs::openat(dir, ".", flags, Mode::empty()) {
        let _best_effort = rustix::fs::fsync(readable);
    }
}
