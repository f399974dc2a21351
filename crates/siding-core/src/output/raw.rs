//! Output as the exact bytes that the task wrote.

use std::io;

use siding_model::record::OutputGap;

use super::chunks::{Chunk, Chunks, SinkFlow};
use super::size::{OutputSize, find_gap};
use crate::store::TaskDir;
use crate::sys::file;

/// The numbers of bytes that a [`copy`] passed on and skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyResult {
    /// Offset at which the next copy must start.
    pub next: u64,
    /// Bytes passed to the receiver.
    pub bytes: u64,
    /// Bytes skipped because their disk space was released.
    pub released: u64,
}

/// Passes the exact bytes of a task's output from an offset to `out`. Released ranges are skipped
/// and counted.
///
/// # Errors
///
/// The I/O error of the system call, or of `out`.
pub fn copy(
    dir: &TaskDir,
    from: u64,
    mut out: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<CopyResult> {
    let mut copied = CopyResult { next: from, ..CopyResult::default() };
    let Some(mut chunks) = Chunks::open(dir)? else { return Ok(copied) };
    let to = chunks.len()?;
    chunks.for_each_chunk(from, to, |piece| {
        match piece {
            Chunk::Bytes(_, bytes) => {
                out(bytes)?;
                copied.bytes += bytes.len() as u64;
            }
            Chunk::Hole(gap) => copied.released += gap.len(),
        }
        Ok(SinkFlow::Continue)
    })?;
    copied.next = to.max(from);
    Ok(copied)
}

/// The exact bytes of a task's output in chunks, for a reader that may be slower than the task.
#[derive(Debug)]
pub struct RawChunks(Chunks);

impl RawChunks {
    /// Opens the output of a task; `None` if the task has no output yet.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn open(dir: &TaskDir) -> io::Result<Option<Self>> {
        Ok(Chunks::open(dir)?.map(Self))
    }

    /// Returns the present length of the output, in bytes.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn written_bytes(&self) -> io::Result<u64> {
        self.0.len()
    }

    /// Measures the output, as [`OutputSize::measure`] does, without opening it again.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn measure(&self, keep_head: u64) -> io::Result<OutputSize> {
        let bytes = self.written_bytes()?;
        Ok(OutputSize { bytes, gap: find_gap(self.0.file(), bytes, keep_head) })
    }

    /// Returns the whole gap that contains an offset; `None` if the byte at the offset is stored or
    /// not written yet.
    ///
    /// lseek(2) finds the end of a hole, but not its start, so the holes before the offset are
    /// listed. There are few of them.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn gap_around(&self, offset: u64) -> io::Result<Option<OutputGap>> {
        let (fd, bytes) = (self.0.file(), self.written_bytes()?);
        if offset >= bytes || file::next_data(fd, offset)? == Some(offset) {
            return Ok(None);
        }
        let mut at = 0;
        while let Some(from) = file::next_hole(fd, at)?.filter(|hole| *hole <= offset) {
            let to = file::next_data(fd, from)?.unwrap_or(bytes);
            if offset < to {
                return Ok(Some(OutputGap { from, to }));
            }
            at = to.max(from + 1);
        }
        Ok(None)
    }

    /// Reads the next stored bytes before `to` into `piece`, at most 256 KiB. Skips gaps, and sets
    /// `from` to the offset of the first byte read. Returns false at the end of the range or of the
    /// file.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn read_after_gaps(
        &mut self,
        from: &mut u64,
        to: u64,
        piece: &mut Vec<u8>,
    ) -> io::Result<bool> {
        while *from < to {
            match self.read_chunk(*from, to, piece)? {
                Some(gap) => *from = gap.to.max(*from),
                None => return Ok(!piece.is_empty()),
            }
        }
        Ok(false)
    }

    /// Reads the first stored bytes between two offsets into `piece`, at most 256 KiB. Returns the
    /// gap if the range starts with a gap. An empty `piece` without a gap means the end of the
    /// range or of the file.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn read_chunk(
        &mut self,
        from: u64,
        to: u64,
        piece: &mut Vec<u8>,
    ) -> io::Result<Option<OutputGap>> {
        let mut gone = None;
        piece.clear();
        self.0.for_each_chunk(from, to, |found| {
            match found {
                Chunk::Bytes(_, bytes) => piece.extend_from_slice(bytes),
                Chunk::Hole(gap) => gone = Some(gap),
            }
            Ok(SinkFlow::Stop)
        })?;
        Ok(gone)
    }
}
