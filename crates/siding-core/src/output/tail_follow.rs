//! Follows growing output.

use std::io;

use super::boundaries;
use super::chunks::Chunks;
use super::line_filter::{FilterSink, LineFilter};
use super::line_redraw::{LineRedraw, RedrawSink};
use super::lines::{ColorHandling, LineSplitter};
use super::writer_sink::WriterSink;
use crate::store::TaskDir;

/// Emits the rendered text of a task's output while the task writes.
///
/// A line is emitted when it is complete. An incomplete line is emitted only by
/// [`Self::show_partial_line`] and [`Self::finish`], before a released range, and in fragments if
/// it is overlong. A progress bar therefore appears in its final state, and in the states in which it
/// was shown.
pub struct TailFollower<'c, F> {
    chunks: Option<Chunks>,
    lines: LineSplitter<FilterSink<'c, RedrawSink<WriterSink<F>>>>,
    next: u64,
    /// Whether a filter selects lines.
    is_filtered: bool,
}

impl<'c, F: FnMut(&str) -> io::Result<()>> TailFollower<'c, F> {
    /// Creates a follower that starts at stream offset `from`, handles colors as in
    /// [`read_with_colors`](super::read_with_colors), and passes the text of the lines that
    /// `choose` selects to `out`. `redraw` applies to a line that was incomplete when it was shown.
    pub fn new(
        from: u64,
        choose: &'c LineFilter,
        colors: ColorHandling,
        redraw: LineRedraw,
        out: F,
    ) -> Self {
        let sink = RedrawSink::new(WriterSink::new(out), redraw, colors);
        Self {
            chunks: None,
            lines: LineSplitter::with_colors(FilterSink::new(choose, sink), colors),
            next: from,
            is_filtered: !matches!(choose, LineFilter::Everything),
        }
    }

    /// Emits the output that was added since the last call.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, or of the receiving function.
    pub fn emit_new(&mut self, dir: &TaskDir) -> io::Result<()> {
        if self.chunks.is_none() {
            self.chunks = Chunks::open(dir)?;
        }
        let Self { chunks: Some(chunks), lines, next, .. } = self else { return Ok(()) };
        let to = chunks.len()?;
        chunks.for_each_chunk(*next, to, |piece| lines.push_chunk(piece))?;
        *next = to.max(*next);
        Ok(())
    }

    /// Emits the incomplete last line, such as a prompt after which the program waits for input or
    /// the present state of a progress bar, unless the line ends within a character or an escape
    /// sequence.
    ///
    /// A filter then treats the rest of the line as a line of its own.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, or of the receiving function.
    pub fn show_partial_line(&mut self) -> io::Result<()> {
        let Some(chunks) = &self.chunks else { return Ok(()) };
        if boundaries::complete_text_end(chunks, self.next)? != self.next {
            return Ok(());
        }
        if self.is_filtered {
            self.lines.flush_partial_line()?;
        } else {
            self.lines.show_partial_line()?;
        }
        Ok(())
    }

    /// Emits the incomplete last line, and returns the offset after the output that was read.
    ///
    /// # Errors
    ///
    /// The error of the receiving function.
    pub fn finish(self) -> io::Result<u64> {
        self.lines.finish()?;
        Ok(self.next)
    }
}
