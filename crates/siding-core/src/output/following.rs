//! Output read as it grows.

use std::io;

use super::chunks::Chunks;
use super::lines::Lines;
use super::places;
use super::pour::Pour;
use super::select::{Choose, Select};
use crate::store::TaskDir;

/// Readable text of a task's output, given out while the task writes.
///
/// A line is given out when it is complete, so that progress bars come once, in their last state.
pub struct Following<'c, F> {
    chunks: Option<Chunks>,
    lines: Lines<Select<'c, Pour<F>>>,
    next: u64,
}

impl<'c, F: FnMut(&str) -> io::Result<()>> Following<'c, F> {
    /// Begins at an offset.
    pub fn new(from: u64, choose: &'c Choose, out: F) -> Self {
        Self { chunks: None, lines: Lines::new(Select::new(choose, Pour::new(out))), next: from }
    }

    /// Gives out what was added since.
    ///
    /// # Errors
    ///
    /// The operating system's, and those of the receiving function.
    pub fn more(&mut self, dir: &TaskDir) -> io::Result<()> {
        if self.chunks.is_none() {
            self.chunks = Chunks::open(dir)?;
        }
        let Self { chunks: Some(chunks), lines, next } = self else { return Ok(()) };
        let to = chunks.len()?;
        chunks.each(*next, to, |piece| lines.piece(piece))?;
        *next = to.max(*next);
        Ok(())
    }

    /// Gives out a line that is not complete: a prompt waits for an answer, not for a newline.
    ///
    /// # Errors
    ///
    /// Those of the receiving function.
    pub fn settle(&mut self) -> io::Result<()> {
        let Some(chunks) = &self.chunks else { return Ok(()) };
        if places::settled_end(chunks, self.next)? == self.next {
            self.lines.break_off()?;
        }
        Ok(())
    }

    /// Gives out what is held, and returns the offset behind all that was given out.
    ///
    /// # Errors
    ///
    /// Those of the receiving function.
    pub fn finish(self) -> io::Result<u64> {
        self.lines.finish()?;
        Ok(self.next)
    }
}
