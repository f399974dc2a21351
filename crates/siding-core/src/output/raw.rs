//! The bytes as they were written.

use std::io;

use siding_model::record::OutputGap;

use super::chunks::{Chunk, Chunks, SinkFlow};
use crate::store::TaskDir;

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyResult {
    /// Offset at which to go on.
    pub next: u64,
    /// Bytes passed on.
    pub bytes: u64,
    /// Bytes skipped because they are gone for good.
    pub released: u64,
}

/// Gives `out` the exact bytes of a task's output from an offset on. What is gone for good is
/// skipped and counted.
///
/// # Errors
///
/// The operating system's, and those of `out`.
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

/// The exact bytes of a task's output, for one who takes them piece by piece and may be slower than
/// the task.
#[derive(Debug)]
pub struct RawChunks(Chunks);

impl RawChunks {
    /// Opens the output of a task, `None` while it has none.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn open(dir: &TaskDir) -> io::Result<Option<Self>> {
        Ok(Chunks::open(dir)?.map(Self))
    }

    /// Returns how many bytes the task has written.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn written_bytes(&self) -> io::Result<u64> {
        self.0.len()
    }

    /// Puts into `piece` the first bytes that are stored between two offsets, at most 256 KiB, or
    /// returns what is gone for good at the first of them. An empty piece says that there is nothing.
    ///
    /// # Errors
    ///
    /// The operating system's.
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
