//! Reserves, releases and finds the disk space of a file, and adds up that of a directory.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::FallocateFlags;

use super::metadata::{metadata, metadata_at};
use super::{OpenMode, open_at};

/// Maximum depth of the subdirectories that [`allocated_below`] counts. Each level keeps a
/// descriptor open.
const MAX_DEPTH: usize = 16;

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
    truncate(fd, len)
}

/// Removes everything after the first `len` bytes of a file.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn truncate(fd: impl AsFd, len: u64) -> io::Result<()> {
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

/// Returns the first offset at or after `from` at which a file stores no data, which may be the end
/// of the file; `None` if `from` is not inside of the file (`SEEK_HOLE`, lseek(2)).
///
/// # Errors
///
/// The I/O error of the system call.
pub fn next_hole(fd: impl AsFd, from: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(fd, rustix::fs::SeekFrom::Hole(from)) {
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

/// Returns the disk space of everything below a directory, in bytes, without following symbolic
/// links. Entries that cannot be read count as empty. Neither more than `max_entries` entries nor
/// deep subdirectories are counted, so that no directory makes the call slow; the entries of a
/// directory are counted before the content of its subdirectories.
#[must_use]
pub fn allocated_below(dir: impl AsFd, max_entries: usize) -> u64 {
    let mut remaining_entries = max_entries;
    allocated_in(dir.as_fd(), MAX_DEPTH, &mut remaining_entries)
}

fn allocated_in(dir: BorrowedFd<'_>, max_depth: usize, remaining_entries: &mut usize) -> u64 {
    let Ok(entries) = rustix::fs::Dir::read_from(dir) else { return 0 };
    let mut bytes: u64 = 0;
    let mut directories = Vec::new();
    for entry in entries.map_while(Result::ok) {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if *remaining_entries == 0 {
            break;
        }
        *remaining_entries -= 1;
        let Ok(facts) = metadata_at(dir, name) else { continue };
        bytes = bytes.saturating_add(facts.allocated_bytes);
        if facts.is_directory && max_depth > 0 {
            directories.push(name.to_owned());
        }
    }
    for name in directories {
        if let Ok(below) = open_at(dir, &name, OpenMode::Directory) {
            let inner = allocated_in(below.as_fd(), max_depth - 1, remaining_entries);
            bytes = bytes.saturating_add(inner);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn allocated(path: &Path, max_entries: usize) -> u64 {
        allocated_below(crate::sys::file::open_directory(path).expect("opens"), max_entries)
    }

    fn write(path: &Path, len: usize) {
        std::fs::write(path, vec![7; len]).expect("written");
    }

    #[test]
    fn the_space_of_a_directory_includes_subdirectories_and_not_the_targets_of_links() {
        let place = tempfile::tempdir().expect("a directory");
        let (dir, outside) = (place.path().join("dir"), place.path().join("outside"));
        std::fs::create_dir_all(dir.join("one/two")).expect("made");
        std::fs::create_dir(&outside).expect("made");
        write(&outside.join("large"), 1 << 20);
        write(&dir.join("one/two/small"), 1 << 16);
        std::os::unix::fs::symlink(&outside, dir.join("link")).expect("linked");
        let bytes = allocated(&dir, 100);
        assert!(((1 << 16)..(1 << 20)).contains(&bytes), "{bytes}");
    }

    #[test]
    fn the_count_of_a_directory_is_bounded() {
        let place = tempfile::tempdir().expect("a directory");
        let deepest = place.path().join(vec!["d"; MAX_DEPTH + 1].join("/"));
        std::fs::create_dir_all(&deepest).expect("made");
        write(&deepest.join("large"), 1 << 20);
        let bytes = allocated(place.path(), 1_000);
        assert!(bytes < 1 << 20, "{bytes}: too deep");

        write(&place.path().join("large"), 1 << 20);
        assert!(allocated(place.path(), 2) >= 1 << 20, "the files of a directory come first");
        for number in 0..10 {
            write(&deepest.join(format!("{number}")), 1 << 16);
        }
        let bytes = allocated(&deepest, 5);
        assert!(bytes <= (1 << 20) + (4 << 16), "{bytes}: more than five entries");
    }
}
