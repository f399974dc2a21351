//! Reads a window of a task's output, so that 100 MB appear as quickly as 1 kB.

use std::io;
use std::ops::Range;

use siding_core::output::{OutputSize, RawChunks};
use siding_core::store::TaskDir;
use siding_model::record::OutputGap;

/// Size of a window that a page shows, in bytes.
pub(crate) const WINDOW_BYTES: u64 = 64 << 10;
/// Maximum number of bytes that are shown as one line, counted from the start of the line or from a
/// carriage return, which overwrites the line. A longer line is continued on further lines.
pub(crate) const MAX_LINE_BYTES: usize = 4 << 10;

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

/// A line, or a part of a long line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputLine {
    /// Offset of the first byte, which identifies the line as long as the task exists.
    pub(crate) from: u64,
    /// The bytes without the newline.
    pub(crate) bytes: Vec<u8>,
    /// The end of the line.
    pub(crate) end: LineEnd,
}

/// The kinds of line ends in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// With a newline.
    Newline,
    /// The line is long and continues as the next line of the window.
    Continued,
    /// The output ends here, and the line may still grow.
    Open,
}

impl OutputWindow {
    /// Returns the offset after the last line and its newline. After a window that ends before a
    /// gap, `next` is the end of the gap.
    pub(crate) fn end(&self) -> u64 {
        self.lines.last().map_or(self.from, |line| {
            let newline = u64::from(line.end == LineEnd::Newline);
            line.from + line.bytes.len() as u64 + newline
        })
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
}

impl WindowStart {
    /// Returns whether a window that is too large keeps its last lines instead of its first ones.
    pub(crate) const fn keeps_last_lines(self) -> bool {
        match self {
            Self::End | Self::Before(_) => true,
            Self::Line(_) | Self::Exact(_) => false,
        }
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
    let Some(mut chunks) = RawChunks::open(dir)? else { return Ok(OutputWindow::default()) };
    let bytes = chunks.written_bytes()?;
    let gap = OutputSize::measure(dir, keep_head).gap;
    let (asked, limit) = match start {
        WindowStart::End => (bytes.saturating_sub(max), bytes),
        WindowStart::Before(offset) => {
            let end = before_gap(offset, gap);
            (end.saturating_sub(max), end.min(bytes))
        }
        WindowStart::Line(offset) | WindowStart::Exact(offset) => (offset.min(bytes), bytes),
    };
    let asked = skip_gap(asked, gap);
    let from = match start {
        WindowStart::Exact(_) => asked,
        WindowStart::End | WindowStart::Before(_) | WindowStart::Line(_) => {
            find_line_start(&mut chunks, asked, gap)?
        }
    };
    // The window ends before the gap: the next one starts after it.
    let end = gap.filter(|gap| gap.from > from).map_or(limit, |gap| gap.from.min(limit));
    let to = from.saturating_add(max).saturating_add(asked - from).min(end);
    let content = read_range(&mut chunks, from, to)?;
    let lines = split_lines(from, &content, to == end);
    let count = lines.len();
    let kept = if start.keeps_last_lines() {
        count.saturating_sub(MAX_WINDOW_LINES)..count
    } else {
        0..count.min(MAX_WINDOW_LINES)
    };
    let mut window = OutputWindow { from, next: from, bytes, gap, lines };
    window.retain_lines(kept);
    Ok(window)
}

fn skip_gap(offset: u64, gap: Option<OutputGap>) -> u64 {
    gap.filter(|gap| (gap.from..gap.to).contains(&offset)).map_or(offset, |gap| gap.to)
}

/// Returns the end of the kept output before an offset: the start of the gap if the offset is
/// inside the gap or at its end, otherwise the offset itself.
fn before_gap(offset: u64, gap: Option<OutputGap>) -> u64 {
    gap.filter(|gap| gap.from < offset && offset <= gap.to).map_or(offset, |gap| gap.from)
}

/// Returns the start of the line that contains an offset, but at most [`MAX_LINE_BYTES`] before the
/// offset and never before the end of a gap.
fn find_line_start(chunks: &mut RawChunks, offset: u64, gap: Option<OutputGap>) -> io::Result<u64> {
    let kept_from = gap.filter(|gap| gap.to <= offset).map_or(0, |gap| gap.to);
    let from = offset.saturating_sub(MAX_LINE_BYTES as u64).max(kept_from);
    let before = read_range(chunks, from, offset)?;
    Ok(match before.iter().rposition(|byte| *byte == b'\n') {
        Some(newline) => from + newline as u64 + 1,
        None if from == kept_from => from,
        // The line starts further back, so the window starts in the middle of it.
        None => offset,
    })
}

fn read_range(chunks: &mut RawChunks, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut piece = Vec::new();
    let mut at = from;
    while at < to {
        // A gap may have grown since its range was read; the window then ends before it.
        let gone = chunks.read_chunk(at, to, &mut piece)?;
        if gone.is_some() || piece.is_empty() {
            break;
        }
        at += piece.len() as u64;
        content.extend_from_slice(&piece);
    }
    Ok(content)
}

/// Divides bytes into lines. `is_whole` says that `content` reaches the end of the output.
/// Otherwise an incomplete last line is left to the next window, unless it is the only one.
fn split_lines(from: u64, content: &[u8], is_whole: bool) -> Vec<OutputLine> {
    let mut lines = Vec::new();
    let mut at = from;
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        let (bytes, end) = match line.strip_suffix(b"\n") {
            Some(bytes) => (bytes, LineEnd::Newline),
            None => (line, LineEnd::Open),
        };
        let mut rest = bytes;
        loop {
            let (part, more) = rest.split_at(shown_line_len(rest));
            if more.is_empty() {
                break;
            }
            lines.push(OutputLine { from: at, bytes: part.to_vec(), end: LineEnd::Continued });
            at += part.len() as u64;
            rest = more;
        }
        lines.push(OutputLine { from: at, bytes: rest.to_vec(), end });
        at += rest.len() as u64 + u64::from(end == LineEnd::Newline);
    }
    if !is_whole && lines.len() > 1 && lines.last().is_some_and(|line| line.end == LineEnd::Open) {
        lines.pop();
    }
    lines
}

/// Returns the length of the first part of a line that is shown as one line. A progress bar writes
/// many states, each after a carriage return, and is one line however many there are.
fn shown_line_len(line: &[u8]) -> usize {
    let mut len = 0;
    for state in line.split_inclusive(|byte| *byte == b'\r') {
        if state.len() > MAX_LINE_BYTES {
            return len + character_boundary(state, MAX_LINE_BYTES);
        }
        len += state.len();
    }
    len
}

/// Returns the last position up to `most` at which no character of UTF-8 is divided.
fn character_boundary(bytes: &[u8], most: usize) -> usize {
    let is_start = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    (most.saturating_sub(3)..=most).rev().find(is_start).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_have_their_offsets() {
        let lines = split_lines(10, b"one\n\ntwo", true);
        let found: Vec<_> = lines.iter().map(|line| (line.from, line.end)).collect();
        assert_eq!(found, [(10, LineEnd::Newline), (14, LineEnd::Newline), (15, LineEnd::Open)]);
        assert_eq!(split_lines(0, b"one\ntw", false).len(), 1, "left to the next window");
        assert_eq!(split_lines(0, b"one", false).len(), 1, "otherwise no window would advance");
    }

    #[test]
    fn a_long_line_is_continued_between_characters() {
        let text = "é".repeat(MAX_LINE_BYTES);
        let lines = split_lines(0, text.as_bytes(), true);
        assert_eq!(lines.len(), 2);
        for line in &lines {
            assert!(std::str::from_utf8(&line.bytes).is_ok());
        }
        assert_eq!(lines[0].end, LineEnd::Continued);
    }

    #[test]
    fn a_line_that_carriage_returns_overwrite_is_one_line() {
        let bar: String =
            (0..600).map(|step| format!("\r{step:>4} of 600 [{:#<60}]", "")).collect();
        let lines = split_lines(0, format!("{bar}\nnext").as_bytes(), true);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].bytes.len(), lines[0].end), (bar.len(), LineEnd::Newline));
        // A text that is longer than a line is divided, also after a carriage return.
        let long = "x".repeat(MAX_LINE_BYTES);
        let lines = split_lines(0, format!("10%\r{long}yz\rend").as_bytes(), true);
        let found: Vec<_> = lines.iter().map(|line| line.bytes.len()).collect();
        assert_eq!(found, ["10%\r".len() + MAX_LINE_BYTES, "yz\rend".len()]);
    }

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

    proptest! {
        /// Joined, the lines are the content: no byte is missing or repeated.
        #[test]
        fn lines_join_to_the_content(content in proptest::collection::vec(any::<u8>(), 0..9000)) {
            let mut joined = Vec::new();
            for line in split_lines(0, &content, true) {
                prop_assert_eq!(line.from, joined.len() as u64);
                joined.extend_from_slice(&line.bytes);
                if line.end == LineEnd::Newline {
                    joined.push(b'\n');
                }
            }
            prop_assert_eq!(joined, content);
        }
    }
}
