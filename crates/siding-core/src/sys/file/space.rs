//! The disk space under a file: reserved, given back, and found.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::FallocateFlags;

use super::metadata::metadata;

/// Reserves `len` bytes from the start without changing the length, so that later writes up to
/// there succeed on a full disk.
///
/// # Errors
///
/// The operating system's, `EOPNOTSUPP` where the file system cannot.
pub fn reserve(fd: impl AsFd, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, 0, len)?)
}

/// Gives back what [`reserve`] took beyond the end of the file.
///
/// # Errors
///
/// The operating system's.
pub fn release_reserve(fd: impl AsFd) -> io::Result<()> {
    let len = metadata(fd.as_fd())?.len;
    Ok(rustix::fs::ftruncate(fd, len)?)
}

/// Returns where stored data begins at or after an offset, `None` when there is none.
///
/// # Errors
///
/// The operating system's.
pub fn next_data(fd: impl AsFd, from: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(fd, rustix::fs::SeekFrom::Data(from)) {
        Ok(offset) => Ok(Some(offset)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Releases the disk space of a part of a file. Offsets stay valid; the part reads as zeros.
///
/// # Errors
///
/// The operating system's, `EOPNOTSUPP` where the file system cannot.
pub fn punch_hole(fd: impl AsFd, from: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(fd, flags, from, len)?)
}
