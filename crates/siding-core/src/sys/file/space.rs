//! Reserves, releases and finds the disk space of a file.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::FallocateFlags;

use super::metadata::metadata;

/// Reserves disk space for the first `len` bytes of a file without changing its length, so that
/// later writes to these bytes succeed on a full disk.
///
/// # Errors
///
/// The I/O error of the system call, `EOPNOTSUPP` if the file system does not support fallocate(2).
pub fn reserve(fd: impl AsFd, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, 0, len)?)
}

/// Releases the space that [`reserve`] allocated beyond the end of the file.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn release_reserve(fd: impl AsFd) -> io::Result<()> {
    let len = metadata(fd.as_fd())?.len;
    Ok(rustix::fs::ftruncate(fd, len)?)
}

/// Returns the first offset at or after `from` at which a file stores data, or `None` if it stores
/// no data there (`SEEK_DATA`, lseek(2)).
///
/// # Errors
///
/// The I/O error of the system call.
pub fn next_data(fd: impl AsFd, from: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(fd, rustix::fs::SeekFrom::Data(from)) {
        Ok(offset) => Ok(Some(offset)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Releases the disk space of a part of a file. Offsets stay valid, and the part reads as zeros.
///
/// # Errors
///
/// The I/O error of the system call, `EOPNOTSUPP` if the file system does not support holes.
pub fn punch_hole(fd: impl AsFd, from: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(fd, flags, from, len)?)
}
