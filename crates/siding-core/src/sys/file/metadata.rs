//! The facts about files that stat(2) reports.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Timespec, Timestamps, UTIME_OMIT};

/// The facts about a file, as stat(2) reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMetadata {
    /// The length, in bytes.
    pub len: u64,
    /// The disk space that the file occupies, in bytes.
    pub allocated_bytes: u64,
    /// The user ID of the owner.
    pub uid: u32,
    /// The permission bits.
    pub mode: u32,
    /// Whether the file is a socket.
    pub is_socket: bool,
    /// Whether the file is a regular file.
    pub is_file: bool,
    /// Whether the file is a directory.
    pub is_directory: bool,
    /// The device and the inode. No other existing file has the same pair.
    pub identity: (u64, u64),
}

/// Returns the facts about an open file.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn metadata(fd: impl AsFd) -> io::Result<FileMetadata> {
    Ok(metadata_from_stat(&rustix::fs::fstat(fd)?))
}

/// Returns whether an open file or directory still has a name.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn is_linked(fd: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fstat(fd)?.st_nlink > 0)
}

/// Returns the facts about `name` below `dir`, without following a symbolic link.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn metadata_at(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<FileMetadata> {
    Ok(metadata_from_stat(&rustix::fs::statat(dir, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Returns whether `path` is a regular file that this process may execute.
#[must_use]
pub fn is_program(path: &Path) -> bool {
    use rustix::fs::{Access, CWD, accessat, stat};
    stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
        && accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Returns whether this process may write to a directory; false on a read-only mount, even for
/// root.
#[must_use]
pub fn is_writable(dir: impl AsFd) -> bool {
    use rustix::fs::{Access, accessat};
    accessat(dir, ".", Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Returns whether two paths resolve to the same file or directory.
#[must_use]
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path| rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    place(one).is_some_and(|one| place(other) == Some(one))
}

/// Returns the time of the last write to `name` below `dir`, in milliseconds since 1970.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn modified_ms(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<i64> {
    let stat = rustix::fs::statat(dir, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)?;
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Ok(stat.st_mtime.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000))
}

/// Sets the time at which a file was last written to, in milliseconds since 1970. The kernel also
/// sets this time at each write, but by a clock that may be a tick behind the wall clock.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn set_modified_ms(fd: impl AsFd, wall_ms: i64) -> io::Result<()> {
    let written = Timespec {
        tv_sec: wall_ms.div_euclid(1000),
        tv_nsec: wall_ms.rem_euclid(1000) * 1_000_000,
    };
    let read = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Ok(rustix::fs::futimens(fd, &Timestamps { last_access: read, last_modification: written })?)
}

fn metadata_from_stat(stat: &rustix::fs::Stat) -> FileMetadata {
    let file_type = FileType::from_raw_mode(stat.st_mode);
    FileMetadata {
        len: stat.st_size.unsigned_abs(),
        allocated_bytes: stat.st_blocks.unsigned_abs() * 512,
        uid: stat.st_uid,
        mode: stat.st_mode & 0o7777,
        is_socket: file_type == FileType::Socket,
        is_file: file_type == FileType::RegularFile,
        is_directory: file_type == FileType::Directory,
        identity: (stat.st_dev, stat.st_ino),
    }
}
