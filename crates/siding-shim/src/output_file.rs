//! The output file of a task and the bound of its size: the head and the tail are kept, and the
//! space of the middle is released. Offsets in the file remain equal to stream offsets.

use std::io;
use std::os::fd::OwnedFd;

use siding_core::sys::file;
use siding_model::record::OutputGap;

/// Maximum number of bytes that one step stores.
pub(crate) const COPY_BUFFER_BYTES: usize = 256 << 10;
/// Largest step in which the middle of the output file is released, in bytes: a multiple of all
/// usual block sizes.
const RELEASE_STEP_BYTES: u64 = 4 << 20;
/// Block size to which holes are aligned, in bytes. A file system with larger blocks releases a
/// block once the released range covers it.
const BLOCK_BYTES: u64 = 4096;

/// The output file, the length of the stream, and the released range.
#[derive(Debug)]
pub(crate) struct OutputFile {
    fd: OwnedFd,
    offset: u64,
    keep_head: u64,
    keep_tail: u64,
    gap: Option<OutputGap>,
}

impl OutputFile {
    /// Prepares appending to a file.
    pub(crate) fn new(fd: OwnedFd, keep_head: u64, keep_tail: u64) -> io::Result<Self> {
        let offset = file::metadata(&fd)?.len;
        let keep_head = align_up(keep_head);
        let gap = siding_core::output::find_gap(&fd, offset, keep_head);
        Ok(Self { fd, offset, keep_head, keep_tail, gap })
    }

    /// Returns the descriptor of the file.
    pub(crate) const fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Returns the length of the stream so far, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.offset
    }

    /// Returns the released range.
    pub(crate) const fn gap(&self) -> Option<OutputGap> {
        self.gap
    }

    /// Returns the last bytes of the stream that the file contains, at most `max`; empty
    /// if the read fails.
    pub(crate) fn tail(&self, max: usize) -> Vec<u8> {
        if self.offset == 0 {
            return Vec::new();
        }
        let mut bytes = vec![0; max];
        let from = self.offset.saturating_sub(max as u64);
        let count = file::read_at(&self.fd, &mut bytes, from).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    /// Returns the maximum number of bytes that one step may store. The middle of the file is
    /// released before each step, and a step of at most half of `keep_tail` keeps the file within
    /// its limit.
    pub(crate) fn max_piece_bytes(&self) -> usize {
        let half = usize::try_from(self.keep_tail / 2).unwrap_or(COPY_BUFFER_BYTES);
        half.clamp(BLOCK_BYTES as usize, COPY_BUFFER_BYTES)
    }

    /// Writes bytes at the end of the stream, whose length only [`Self::advance`] changes. At most
    /// [`Self::max_piece_bytes`] bytes may be written at once.
    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        // The middle is released before the write, so that the file never exceeds its limit.
        self.release_middle(piece.len() as u64);
        file::write_all_at(&self.fd, piece, self.offset)
    }

    /// Adds bytes to the length of the stream, whether they are in the file or not.
    pub(crate) const fn advance(&mut self, count: u64) {
        self.offset += count;
    }

    /// Continues the stream at a later offset, because the machine that runs the task has released
    /// the bytes before it. As on that machine, the released range starts after the head.
    pub(crate) fn skip_to(&mut self, offset: u64) {
        if offset <= self.offset {
            return;
        }
        let from = self.tail_start();
        if self.offset > from {
            let _best_effort = file::punch_hole(&self.fd, from, self.offset - from);
        }
        self.gap = Some(OutputGap { from: self.keep_head, to: offset });
        self.offset = offset;
    }

    /// Returns whether head and tail together exceed their limits when `coming` bytes are added.
    pub(crate) fn would_overflow(&self, coming: u64) -> bool {
        (self.offset + coming).saturating_sub(self.keep_tail) > self.tail_start()
    }

    /// Returns the lowest offset at which the tail can begin.
    fn tail_start(&self) -> u64 {
        self.gap.map_or(self.keep_head, |gap| gap.to)
    }

    /// Releases the middle of the file, so that head and tail stay within their limits when
    /// `coming` bytes are added. Releases one step more than necessary, so that most calls have
    /// nothing to release.
    pub(crate) fn release_middle(&mut self, coming: u64) {
        if !self.would_overflow(coming) {
            return;
        }
        let due = (self.offset + coming).saturating_sub(self.keep_tail);
        let step = RELEASE_STEP_BYTES.min(self.keep_tail / 8).max(BLOCK_BYTES);
        let to = align_up(due.saturating_add(step)).min(self.offset / BLOCK_BYTES * BLOCK_BYTES);
        let from = self.tail_start();
        if to > from && file::punch_hole(&self.fd, from, to - from).is_ok() {
            self.gap = Some(OutputGap { from: self.keep_head, to });
        }
    }
}

const fn align_up(offset: u64) -> u64 {
    offset.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}
