//! Divides the output into lines while it is read.

use siding_core::output::LineStart;

/// Maximum number of bytes that are shown as one line, counted from the start of the line or from a
/// carriage return, which overwrites the line. A longer line is continued on further lines.
pub(crate) const MAX_LINE_BYTES: usize = 4 << 10;

/// Number of bytes to which a long line that carriage returns overwrite is reduced: its last
/// states, since earlier ones are overwritten.
const KEPT_BYTES: usize = 32 << 10;
/// Number of bytes from which such a line is reduced.
const MAX_KEPT_BYTES: usize = 64 << 10;

/// A line, or a part of a long line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputLine {
    /// Offset of the first byte, which identifies the line as long as the task exists.
    pub(crate) from: u64,
    /// Offset of the first of `bytes`. It is after `from` in a long line that carriage returns
    /// overwrite: only its last states are in `bytes`.
    pub(crate) bytes_from: u64,
    /// The bytes without the newline.
    pub(crate) bytes: Vec<u8>,
    /// How the line ends.
    pub(crate) end: LineEnd,
}

/// How a line of a window ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// With a newline.
    Newline,
    /// The line is long and continues after the window or as the next line of the window, or its
    /// rest is not kept.
    Continued,
    /// The output ends here, and the line may still grow.
    Open,
}

impl OutputLine {
    /// Returns the offset after the line and its newline.
    pub(crate) fn end_offset(&self) -> u64 {
        let newline = u64::from(self.end == LineEnd::Newline);
        self.bytes_from + self.bytes.len() as u64 + newline
    }

    /// Returns where the reading of the line can be resumed when it has grown.
    pub(crate) const fn resume_point(&self) -> LineStart {
        LineStart { line: self.from, state: self.bytes_from }
    }
}

/// Divides the output into lines. A progress bar writes many states, each after a carriage return,
/// and is one line however many there are.
#[derive(Debug)]
pub(super) struct LineSplitter {
    pub(super) lines: Vec<OutputLine>,
    /// The line that has no newline yet.
    from: u64,
    bytes_from: u64,
    bytes: Vec<u8>,
    /// Number of bytes since the last carriage return of this line.
    state_len: usize,
}

impl LineSplitter {
    pub(super) const fn new(start: LineStart) -> Self {
        Self {
            lines: Vec::new(),
            from: start.line,
            bytes_from: start.state,
            bytes: Vec::new(),
            state_len: 0,
        }
    }

    /// Processes more output.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some(next) = rest.first() {
            let room = MAX_LINE_BYTES - self.state_len;
            if room == 0 && *next != b'\n' {
                self.divide(*next);
                continue;
            }
            // A newline is processed without room as well.
            let part = &rest[..rest.len().min(room.max(1))];
            let end = part.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let used = end.map_or(part.len(), |index| index + 1);
            match end.map(|index| part[index]) {
                Some(b'\n') => {
                    self.bytes.extend_from_slice(&part[..used - 1]);
                    self.end_line(LineEnd::Newline);
                }
                Some(_) => {
                    self.bytes.extend_from_slice(&part[..used]);
                    self.end_state();
                }
                None => {
                    self.bytes.extend_from_slice(part);
                    self.state_len += used;
                }
            }
            rest = &rest[used..];
        }
    }

    /// Returns the lines; with `end` also the line that has no newline, which ends like this.
    pub(super) fn finish(mut self, end: Option<LineEnd>) -> Vec<OutputLine> {
        if let Some(end) = end.filter(|_| self.bytes_from > self.from || !self.bytes.is_empty()) {
            self.end_line(end);
        }
        self.lines
    }

    /// Continues the line on a further one before `next`, but not inside of a character of UTF-8.
    fn divide(&mut self, next: u8) {
        let is_start = |byte: u8| byte & 0xc0 != 0x80;
        let carried = if is_start(next) {
            0
        } else {
            let last_bytes = self.bytes.iter().rev().take(3);
            last_bytes.copied().position(is_start).map_or(0, |index| index + 1)
        };
        let carried = self.bytes.split_off(self.bytes.len() - carried);
        self.end_line(LineEnd::Continued);
        self.state_len = carried.len();
        self.bytes = carried;
    }

    fn end_line(&mut self, end: LineEnd) {
        let bytes = std::mem::take(&mut self.bytes);
        let line = OutputLine { from: self.from, bytes_from: self.bytes_from, bytes, end };
        self.from = line.end_offset();
        self.bytes_from = self.from;
        self.state_len = 0;
        self.lines.push(line);
    }

    /// Ends a state with a carriage return, and removes the first states of a long line.
    fn end_state(&mut self) {
        self.state_len = 0;
        if self.bytes.len() <= MAX_KEPT_BYTES {
            return;
        }
        let removed = self.bytes.len() - KEPT_BYTES;
        let state = self.bytes[removed..].iter().position(|byte| *byte == b'\r');
        let removed = state.map_or(removed, |index| removed + index + 1);
        self.bytes.drain(..removed);
        self.bytes_from += removed as u64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split_lines(from: u64, content: &[u8], end: Option<LineEnd>) -> Vec<OutputLine> {
        let mut splitter = LineSplitter::new(LineStart::from_offset(from));
        splitter.push(content);
        splitter.finish(end)
    }

    #[test]
    fn lines_have_their_offsets() {
        let lines = split_lines(10, b"one\n\ntwo", Some(LineEnd::Open));
        let found: Vec<_> = lines.iter().map(|line| (line.from, line.end)).collect();
        assert_eq!(found, [(10, LineEnd::Newline), (14, LineEnd::Newline), (15, LineEnd::Open)]);
        assert_eq!(split_lines(0, b"one\ntw", None).len(), 1, "left to the next window");
        assert_eq!(split_lines(0, b"one\n", Some(LineEnd::Open)).len(), 1);
        assert_eq!(split_lines(0, b"", Some(LineEnd::Open)).len(), 0);
    }

    #[test]
    fn a_long_line_is_continued_between_characters() {
        let text = "é".repeat(MAX_LINE_BYTES);
        let lines = split_lines(0, text.as_bytes(), Some(LineEnd::Open));
        assert_eq!(lines.len(), 2);
        for line in &lines {
            assert!(std::str::from_utf8(&line.bytes).is_ok());
        }
        assert_eq!(lines[0].end, LineEnd::Continued);
        let shifted = format!("x{text}");
        let lines = split_lines(0, shifted.as_bytes(), Some(LineEnd::Open));
        assert_eq!(lines[0].bytes.len(), MAX_LINE_BYTES - 1);
        assert!(lines.iter().all(|line| std::str::from_utf8(&line.bytes).is_ok()));
        let exact = format!("{}\nnext\n", "x".repeat(MAX_LINE_BYTES));
        assert_eq!(split_lines(0, exact.as_bytes(), None).len(), 2);
    }

    #[test]
    fn a_line_that_carriage_returns_overwrite_is_one_line() {
        let bar: String =
            (0..600).map(|step| format!("\r{step:>4} of 600 [{:#<60}]", "")).collect();
        let lines = split_lines(0, format!("{bar}\nnext").as_bytes(), Some(LineEnd::Open));
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].bytes.len(), lines[0].end), (bar.len(), LineEnd::Newline));
        // A text that is longer than a line is divided, also after a carriage return.
        let long = "x".repeat(MAX_LINE_BYTES);
        let text = format!("10%\r{long}yz\rend");
        let lines = split_lines(0, text.as_bytes(), Some(LineEnd::Open));
        let found: Vec<_> = lines.iter().map(|line| line.bytes.len()).collect();
        assert_eq!(found, ["10%\r".len() + MAX_LINE_BYTES, "yz\rend".len()]);
    }

    #[test]
    fn only_the_last_states_of_a_long_line_are_kept() {
        let bar: String = (0..90_000).map(|step| format!("{step:>6}%\r")).collect();
        let lines = split_lines(7, format!("{bar}done\nnext\n").as_bytes(), None);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].bytes.len() <= MAX_KEPT_BYTES + MAX_LINE_BYTES);
        assert!(lines[0].bytes.ends_with(b" 89999%\rdone"));
        let end = 7 + bar.len() as u64 + 5;
        assert_eq!((lines[0].from, lines[0].end_offset(), lines[1].from), (7, end, end));
        // The line can be read again from its last states.
        let point = lines[0].resume_point();
        let mut splitter = LineSplitter::new(point);
        let read = usize::try_from(point.state - 7).expect("an index");
        splitter.push(format!("{bar}done\n").get(read..).expect("the states").as_bytes());
        assert_eq!(splitter.finish(None), lines[..1]);
    }

    proptest! {
        /// Joined, the lines are the content: no byte is missing or repeated, in however many
        /// pieces the content is read.
        #[test]
        fn lines_join_to_the_content(
            content in prop::collection::vec(
                prop_oneof![3 => any::<u8>(), 9 => Just(0x80_u8), 90 => Just(b'x')],
                0..20_000,
            ),
            piece in 1_usize..9_000,
        ) {
            let lines = split_lines(0, &content, Some(LineEnd::Open));
            let mut joined = Vec::new();
            for line in &lines {
                prop_assert_eq!(line.from, joined.len() as u64);
                joined.extend_from_slice(&line.bytes);
                if line.end == LineEnd::Newline {
                    joined.push(b'\n');
                }
            }
            prop_assert_eq!(&joined, &content);
            let mut splitter = LineSplitter::new(LineStart::from_offset(0));
            content.chunks(piece).for_each(|part| splitter.push(part));
            prop_assert_eq!(splitter.finish(Some(LineEnd::Open)), lines);
        }
    }
}
