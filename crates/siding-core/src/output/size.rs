//! How much output there is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use siding_model::journal::TaskState;
use siding_model::record::OutputGap;

use crate::journal_file;
use crate::store::TaskDir;
use crate::sys::{file, process};
use crate::task_files::OUTPUT_FILE;

/// Block size that holes are aligned to.
pub(super) const HOLE_BLOCK_BYTES: u64 = 4096;

/// How much there is of a task's output, and what part is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputSize {
    /// Bytes the task wrote: the length of the file, since offsets in it are stream offsets.
    pub bytes: u64,
    /// The part whose disk space was released.
    pub gap: Option<OutputGap>,
}

impl OutputSize {
    /// Measures the output file of a task; a file that is not there is empty. The gap, if there is
    /// one, begins `keep_head` bytes after the start, and the file system knows where it ends.
    #[must_use]
    pub fn measure(dir: &TaskDir, keep_head: u64) -> Self {
        let Ok(fd) = open(dir) else { return Self::default() };
        let bytes = file::metadata(fd.as_fd()).map_or(0, |facts| facts.len);
        Self { bytes, gap: find_gap(fd.as_fd(), bytes, keep_head) }
    }
}

/// Opens the output of a task, to read.
///
/// That of an adopted task is a link to the host's own file. It is followed once, only where the
/// journal says so too, and only to a regular file of this user: a task could put any link there,
/// and a reader must not hang on a FIFO for it.
///
/// # Errors
///
/// The operating system's; `NotFound` while the task has none; `PermissionDenied` when the link
/// leads to something else.
pub fn open(dir: impl AsFd) -> io::Result<OwnedFd> {
    match file::open_at(&dir, OUTPUT_FILE, file::OpenMode::Read) {
        // Only the journal makes a link more than somebody's trap.
        Err(error) if error.raw_os_error() == Some(file::SYMLINK_ERRNO) => {
            let to = file::read_link(&dir, OUTPUT_FILE)?;
            let story = journal_file::read_notices(&dir).map_err(io::Error::other)?;
            match story.state.adopted.and_then(|adopted| adopted.output) {
                Some(host) if host == to => open_user_file(Path::new(&host), false),
                Some(_) | None => Err(error),
            }
        }
        result => result,
    }
}

/// Opens a regular file of this user by its path, links in it followed, to read and, with
/// `append`, to write at its end.
///
/// # Errors
///
/// The operating system's; `PermissionDenied` when it is none.
pub fn open_user_file(path: &Path, append: bool) -> io::Result<OwnedFd> {
    let fd = file::open_followed(path, append)?;
    let facts = file::metadata(&fd)?;
    if facts.is_file && facts.uid == process::effective_uid() {
        Ok(fd)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Returns the path of the file that holds a task's output; `dir` is the task's directory.
#[must_use]
pub fn path(dir: &Path, task: &TaskState) -> String {
    let host = task.adopted.as_ref().and_then(|adopted| adopted.output.clone());
    host.unwrap_or_else(|| dir.join(OUTPUT_FILE).to_string_lossy().into_owned())
}

/// Returns the hole that begins at `keep_head`, as the file system sees it.
///
/// A hole begins at a whole block: the head that is kept is rounded up to one.
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
