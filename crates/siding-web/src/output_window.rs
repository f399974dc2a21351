//! Reads a window of a task's output, so that 100 MB appear as quickly as 1 kB.

mod lines;

use std::io;
use std::ops::Range;

use siding_core::output::{LineStart, OutputSize, RawChunks, find_line_start};
use siding_core::store::TaskDir;
use siding_model::record::OutputGap;

use self::lines::LineSplitter;
pub(crate) use self::lines::{LineEnd, MAX_LINE_BYTES, OutputLine};

/// Size of a window that a page shows, in bytes.
pub(crate) const WINDOW_BYTES: u64 = 64 << 10;
/// Maximum number of bytes that are read beyond a window to reach the end of its only line, which
/// is a progress bar.
const MAX_BAR_BYTES: u64 = 64 << 20;
/// Number of bytes that are read at a time to reach it.
const BAR_BLOCK_BYTES: u64 = 256 << 10;

/// Maximum number of lines of a window.
pub(crate) const MAX_WINDOW_LINES: usize = 2_000;

/// A part of an output, divided into lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OutputWindow {
    /// Offset of the first line.
    pub(crate) from: u64,
    /// Offset after the last line, at which the next window starts.
    pub(crate) next: u64,
    /// Length of the whole output at the time of the read.
    pub(crate) bytes: u64,
    /// The range of the output that is no longer kept.
    pub(crate) gap: Option<OutputGap>,
    /// The lines.
    pub(crate) lines: Vec<OutputLine>,
}

impl OutputWindow {
    /// Returns the offset after the last line and its newline. After a window that ends before a
    /// gap, `next` is the end of the gap.
    pub(crate) fn end(&self) -> u64 {
        self.lines.last().map_or(self.from, OutputLine::end_offset)
    }

    /// Returns an offset in the output before this window; `None` if nothing before it is kept.
    pub(crate) fn earlier_offset(&self) -> Option<u64> {
        let end = before_gap(self.from, self.gap);
        (end > 0).then(|| end.saturating_sub(WINDOW_BYTES))
    }

    /// Removes the lines outside a range of indices.
    pub(crate) fn retain_lines(&mut self, kept: Range<usize>) {
        self.lines.truncate(kept.end);
        drop(self.lines.drain(..kept.start));
        self.from = self.lines.first().map_or(self.from, |line| line.from);
        self.next = skip_gap(self.end(), self.gap);
    }
}

/// The part of an output that is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowStart {
    /// The last lines.
    End,
    /// The lines before this offset, which is the start of a line.
    Before(u64),
    /// The line that contains this offset, and those after it.
    Line(u64),
    /// Exactly this offset, which is the start of a line.
    Exact(u64),
    /// This line, which was read before up to a state that is known.
    Resumed(LineStart),
}

impl WindowStart {
    /// Returns whether a window that is too large keeps its last lines instead of its first ones.
    pub(crate) const fn keeps_last_lines(self) -> bool {
        match self {
            Self::End | Self::Before(_) => true,
            Self::Line(_) | Self::Exact(_) | Self::Resumed(_) => false,
        }
    }
}

/// An output that was opened to read windows of it. All windows are those of the same length,
/// although the output may grow meanwhile.
#[derive(Debug)]
pub(crate) struct OutputReader {
    chunks: RawChunks,
    size: OutputSize,
}

impl OutputReader {
    /// Opens the output of a task and measures it; `None` if the task has no output yet.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub(crate) fn open(dir: &TaskDir, keep_head: u64) -> io::Result<Option<Self>> {
        let Some(chunks) = RawChunks::open(dir)? else { return Ok(None) };
        let size = chunks.measure(keep_head)?;
        Ok(Some(Self { chunks, size }))
    }

    /// Returns the length of the output when it was opened.
    pub(crate) const fn bytes(&self) -> u64 {
        self.size.bytes
    }

    /// Reads at most about `max` bytes of the output. A single progress bar may be longer.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub(crate) fn read_window(&mut self, start: WindowStart, max: u64) -> io::Result<OutputWindow> {
        let OutputSize { bytes, gap } = self.size;
        let (asked, limit) = match start {
            WindowStart::End => (bytes.saturating_sub(max), bytes),
            WindowStart::Before(offset) => {
                let end = before_gap(offset, gap);
                (end.saturating_sub(max), end.min(bytes))
            }
            WindowStart::Line(offset) | WindowStart::Exact(offset) => (offset.min(bytes), bytes),
            WindowStart::Resumed(line) => (line.state.min(bytes), bytes),
        };
        let asked = skip_gap(asked, gap);
        let line = match start {
            WindowStart::Exact(_) => LineStart::from_offset(asked),
            WindowStart::Resumed(line) if line.state == asked => line,
            WindowStart::Resumed(_) => LineStart::from_offset(asked),
            WindowStart::End | WindowStart::Before(_) | WindowStart::Line(_) => {
                self.find_line_start(asked)?
            }
        };
        // The window ends before the gap: the next one starts after it.
        let end = gap.filter(|gap| gap.from > line.state).map_or(limit, |gap| gap.from.min(limit));
        let lines = self.read_lines(line, asked.saturating_add(max), end)?;
        let count = lines.len();
        let kept = if start.keeps_last_lines() {
            count.saturating_sub(MAX_WINDOW_LINES)..count
        } else {
            0..count.min(MAX_WINDOW_LINES)
        };
        let from = line.line;
        let mut window = OutputWindow { from, next: from, bytes, gap, lines };
        window.retain_lines(kept);
        Ok(window)
    }

    /// Returns the start of the line that contains an offset. Returns the offset itself if it is
    /// inside of a text that is longer than [`MAX_LINE_BYTES`], so that the line is divided there.
    fn find_line_start(&mut self, offset: u64) -> io::Result<LineStart> {
        let mut read = |from, to, piece: &mut Vec<u8>| self.chunks.read_chunk(from, to, piece);
        let found = find_line_start(&mut read, offset, MAX_LINE_BYTES as u64)?;
        Ok(found.unwrap_or(LineStart::from_offset(offset)))
    }

    /// Reads the lines from a start to about `to`, and not beyond `end`. If the only line is not
    /// complete there, reads on to its end. Otherwise an incomplete last line is left to the next
    /// window, unless `end` is reached.
    fn read_lines(&mut self, start: LineStart, to: u64, end: u64) -> io::Result<Vec<OutputLine>> {
        let mut splitter = LineSplitter::new(start);
        let mut at = start.state;
        let mut to = to.min(end);
        let limit = to.saturating_add(MAX_BAR_BYTES);
        loop {
            let reached = self.read_range(at, to, |piece| splitter.push(piece))?;
            let has_stopped = reached < to;
            at = reached;
            if has_stopped || at >= end || at >= limit || !splitter.lines.is_empty() {
                break;
            }
            to = at.saturating_add(BAR_BLOCK_BYTES).min(end);
        }
        let last = if at >= self.size.bytes {
            Some(LineEnd::Open)
        } else if at >= end || splitter.lines.is_empty() {
            Some(LineEnd::Continued)
        } else {
            None
        };
        Ok(splitter.finish(last))
    }

    /// Passes the stored bytes between two offsets to `push`. Returns the offset after the last
    /// one, which is before `to` if a gap has grown since its range was read.
    fn read_range(&mut self, from: u64, to: u64, mut push: impl FnMut(&[u8])) -> io::Result<u64> {
        let mut piece = Vec::new();
        let mut at = from;
        while at < to {
            let gone = self.chunks.read_chunk(at, to, &mut piece)?;
            if gone.is_some() || piece.is_empty() {
                break;
            }
            at += piece.len() as u64;
            push(&piece);
        }
        Ok(at)
    }
}

/// Reads at most about `max` bytes of a task's output.
///
/// # Errors
///
/// The I/O error of the system call. A task without output yields an empty window.
pub(crate) fn read_window(
    dir: &TaskDir,
    keep_head: u64,
    start: WindowStart,
    max: u64,
) -> io::Result<OutputWindow> {
    OutputReader::open(dir, keep_head)?
        .map_or_else(|| Ok(OutputWindow::default()), |mut reader| reader.read_window(start, max))
}

fn skip_gap(offset: u64, gap: Option<OutputGap>) -> u64 {
    gap.filter(|gap| (gap.from..gap.to).contains(&offset)).map_or(offset, |gap| gap.to)
}

/// Returns the end of the kept output before an offset: the start of the gap if the offset is
/// inside the gap or at its end, otherwise the offset itself.
fn before_gap(offset: u64, gap: Option<OutputGap>) -> u64 {
    gap.filter(|gap| gap.from < offset && offset <= gap.to).map_or(offset, |gap| gap.from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_before_a_gap_is_earlier_than_the_output_after_it() {
        let earlier =
            |from, gap| OutputWindow { from, gap, ..OutputWindow::default() }.earlier_offset();
        assert_eq!((earlier(0, None), earlier(10, None)), (None, Some(0)));
        let gap = |from| Some(OutputGap { from, to: 900_000 });
        assert_eq!(earlier(900_001, gap(200_000)), Some(900_001 - WINDOW_BYTES));
        assert_eq!(earlier(900_000, gap(200_000)), Some(200_000 - WINDOW_BYTES));
        assert_eq!(earlier(900_000, gap(0)), None);
    }
}
