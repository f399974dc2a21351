//! The output file: its name, size and gap.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use siding_model::journal::TaskState;
use siding_model::record::OutputGap;

use crate::store::TaskDir;
use crate::store::journal_file;
use crate::store::task_files::OUTPUT_FILE;
use crate::sys::{file, process};

/// Block size to which holes are aligned.
pub(super) const HOLE_BLOCK_BYTES: u64 = 4096;

/// The size of a task's output, and the range of the output that was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputSize {
    /// Bytes that the task wrote. Equal to the file length, since file offsets are stream offsets.
    pub bytes: u64,
    /// The range whose disk space was released; `None` if nothing was released.
    pub gap: Option<OutputGap>,
}

impl OutputSize {
    /// Measures the output file of a task; a file that cannot be opened is treated as empty. A gap
    /// starts `keep_head` bytes after the beginning, rounded up to a block; its end comes from the
    /// file system.
    #[must_use]
    pub fn measure(dir: &TaskDir, keep_head: u64) -> Self {
        let Ok(fd) = open(dir) else { return Self::default() };
        let bytes = file::metadata(fd.as_fd()).map_or(0, |facts| facts.len);
        Self { bytes, gap: find_gap(fd.as_fd(), bytes, keep_head) }
    }
}

/// Opens the output of a task for reading.
///
/// The output of an adopted task is a symbolic link to the host's file. The link is followed only
/// to the path that the journal names, because a task could create any link there. The target must
/// be a regular file of this user, because a reader must not block on a FIFO.
///
/// # Errors
///
/// The I/O error of the system call; `NotFound` if the task has no output yet; `ELOOP` if the link
/// is not the one that the journal names; `PermissionDenied` if the link refers to another kind of
/// file, or to a file of another user; `Other` if the journal cannot be read.
pub fn open(dir: impl AsFd) -> io::Result<OwnedFd> {
    match file::open_at(&dir, OUTPUT_FILE, file::OpenMode::Read) {
        // The task could have created the link; only the journal proves that siding created it.
        Err(error) if error.raw_os_error() == Some(file::SYMLINK_ERRNO) => {
            let to = file::read_link(&dir, OUTPUT_FILE)?;
            let notices = journal_file::read_notices(&dir).map_err(io::Error::other)?;
            match notices.state.adopted.and_then(|adopted| adopted.output) {
                Some(host) if host == to => open_user_file(Path::new(&host), false),
                Some(_) | None => Err(error),
            }
        }
        result => result,
    }
}

/// Opens a regular file of this user, following symbolic links, for reading and, with `append`, for
/// appending.
///
/// # Errors
///
/// The I/O error of the system call; `PermissionDenied` if `path` is not a regular file of this
/// user.
pub fn open_user_file(path: &Path, append: bool) -> io::Result<OwnedFd> {
    let fd = file::open_followed(path, append)?;
    let facts = file::metadata(&fd)?;
    if facts.is_file && facts.uid == process::effective_uid() {
        Ok(fd)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Returns the path of a task's output file; `dir` is the task's directory.
#[must_use]
pub fn path(dir: &Path, task: &TaskState) -> String {
    let host = task.adopted.as_ref().and_then(|adopted| adopted.output.clone());
    host.unwrap_or_else(|| dir.join(OUTPUT_FILE).to_string_lossy().into_owned())
}

/// Returns the hole that starts at `keep_head`, as reported by the file system; `None` if no hole
/// starts there.
///
/// `keep_head` is rounded up to a whole block, because holes start at block boundaries.
#[must_use]
pub fn find_gap(fd: impl AsFd, bytes: u64, keep_head: u64) -> Option<OutputGap> {
    let keep_head = keep_head.div_ceil(HOLE_BLOCK_BYTES).saturating_mul(HOLE_BLOCK_BYTES);
    if bytes <= keep_head {
        return None;
    }
    let to = file::next_data(fd, keep_head).ok()?.unwrap_or(bytes).min(bytes);
    let gap = OutputGap { from: keep_head, to };
    (!gap.is_empty()).then_some(gap)
}
