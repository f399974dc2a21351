//! The bytes as they were written.

use std::io;

use super::chunks::{Chunks, Flow, Piece};
use crate::store::TaskDir;

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// Offset at which to go on.
    pub next: u64,
    /// Bytes passed on.
    pub bytes: u64,
    /// Bytes skipped because they are gone for good.
    pub gone: u64,
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
) -> io::Result<Copied> {
    let mut copied = Copied { next: from, ..Copied::default() };
    let Some(mut chunks) = Chunks::open(dir)? else { return Ok(copied) };
    let to = chunks.len()?;
    chunks.each(from, to, |piece| {
        match piece {
            Piece::Bytes(_, bytes) => {
                out(bytes)?;
                copied.bytes += bytes.len() as u64;
            }
            Piece::Gone(gap) => copied.gone += gap.len(),
        }
        Ok(Flow::On)
    })?;
    copied.next = to.max(from);
    Ok(copied)
}
