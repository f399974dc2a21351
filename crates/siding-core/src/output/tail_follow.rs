//! Output read as it grows.

use std::io;

use super::boundaries;
use super::chunks::Chunks;
use super::line_filter::{FilterSink, LineFilter};
use super::lines::LineSplitter;
use super::writer_sink::WriterSink;
use crate::store::TaskDir;

/// Readable text of a task's output, given out while the task writes.
///
/// A line is given out when it is complete, so that progress bars come once, in their last state.
pub struct TailFollower<'c, F> {
    chunks: Option<Chunks>,
    lines: LineSplitter<FilterSink<'c, WriterSink<F>>>,
    next: u64,
}

impl<'c, F: FnMut(&str) -> io::Result<()>> TailFollower<'c, F> {
    /// Begins at an offset.
    pub fn new(from: u64, choose: &'c LineFilter, out: F) -> Self {
        Self {
            chunks: None,
            lines: LineSplitter::new(FilterSink::new(choose, WriterSink::new(out))),
            next: from,
        }
    }

    /// Gives out what was added since.
    ///
    /// # Errors
    ///
    /// The operating system's, and those of the receiving function.
    pub fn emit_new(&mut self, dir: &TaskDir) -> io::Result<()> {
        if self.chunks.is_none() {
            self.chunks = Chunks::open(dir)?;
        }
        let Self { chunks: Some(chunks), lines, next } = self else { return Ok(()) };
        let to = chunks.len()?;
        chunks.for_each_chunk(*next, to, |piece| lines.push_chunk(piece))?;
        *next = to.max(*next);
        Ok(())
    }

    /// Gives out a line that is not complete: a prompt waits for an answer, not for a newline.
    ///
    /// # Errors
    ///
    /// Those of the receiving function.
    pub fn flush_partial_line(&mut self) -> io::Result<()> {
        let Some(chunks) = &self.chunks else { return Ok(()) };
        if boundaries::complete_text_end(chunks, self.next)? == self.next {
            self.lines.flush_partial_line()?;
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
