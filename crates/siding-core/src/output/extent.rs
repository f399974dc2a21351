//! How much output there is.

use std::os::fd::AsFd;

use siding_model::record::Gap;

use crate::store::TaskDir;
use crate::sys::file;

/// Name of the file that holds the output, in the task's directory.
pub const FILE: &str = "output";
/// Name of the FIFO the task writes to.
pub const FIFO: &str = "out.fifo";
/// Name of the FIFO the task reads from, where it has one.
pub const INPUT_FIFO: &str = "in.fifo";

/// Block size that holes are aligned to.
pub(super) const BLOCK: u64 = 4096;

/// How much there is of a task's output, and what part is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Bytes the task wrote: the length of the file, since offsets in it are stream offsets.
    pub bytes: u64,
    /// The part whose disk space was released.
    pub gap: Option<Gap>,
}

impl Extent {
    /// Measures the output file of a task; a file that is not there is empty. The gap, if there is
    /// one, begins `keep_head` bytes after the start, and the file system knows where it ends.
    #[must_use]
    pub fn measure(dir: &TaskDir, keep_head: u64) -> Self {
        let Ok(fd) = file::open_at(dir, FILE, file::Open::Read) else { return Self::default() };
        let bytes = file::facts(fd.as_fd()).map_or(0, |facts| facts.len);
        Self { bytes, gap: gap_of(fd.as_fd(), bytes, keep_head) }
    }
}

/// Returns the hole that begins at `keep_head`, as the file system sees it.
///
/// A hole begins at a whole block: the head that is kept is rounded up to one.
#[must_use]
pub fn gap_of(fd: impl AsFd, bytes: u64, keep_head: u64) -> Option<Gap> {
    let keep_head = keep_head.div_ceil(BLOCK).saturating_mul(BLOCK);
    if bytes <= keep_head {
        return None;
    }
    let to = file::next_data(fd, keep_head).ok()?.unwrap_or(bytes).min(bytes);
    let gap = Gap { from: keep_head, to };
    (!gap.is_empty()).then_some(gap)
}
