//! Searches backward for the start of a line.
//!
//! A progress bar is one line of the output, however many states it writes: each state follows a
//! carriage return and overwrites the one before. A viewer that begins to read in the middle of
//! such a line needs the offset of the line, which identifies it, and the start of a recent state.

use std::io;
use std::ops::ControlFlow;

use siding_model::record::OutputGap;

/// Number of bytes that are read at a time.
const BLOCK_BYTES: u64 = 64 << 10;
/// Maximum distance of the start of a line from the offset, so that the search ends soon.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Distance from the offset within which all states of a line are read again. A state that is
/// shorter than an earlier one does not overwrite the end of it.
const REREAD_BYTES: u64 = 64 << 10;

/// A function that reads a part of an output, as
/// [`RawChunks::read_chunk`](super::RawChunks::read_chunk) does.
pub type ReadChunk<'r> = dyn FnMut(u64, u64, &mut Vec<u8>) -> io::Result<Option<OutputGap>> + 'r;

/// The start of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStart {
    /// Offset of the first byte of the line.
    pub line: u64,
    /// Offset of the first byte to read: that of the line or, in a long line that carriage returns
    /// overwrite, that of a later state.
    pub state: u64,
}

impl LineStart {
    /// Returns the start of a line that is read from its first byte.
    #[must_use]
    pub const fn from_offset(offset: u64) -> Self {
        Self { line: offset, state: offset }
    }
}

/// Returns the start of the line that contains an offset: after a newline, after a gap, or at the
/// start of the output. A viewer divides a state that is longer than `max_state_bytes`, so a line
/// begins after such a state. `None` if the state at the offset itself is so long.
///
/// # Errors
///
/// The error of `read_chunk`.
pub fn find_line_start(
    read_chunk: &mut ReadChunk<'_>,
    offset: u64,
    max_state_bytes: u64,
) -> io::Result<Option<LineStart>> {
    let mut search = Search { offset, max_state_bytes, state_end: offset, state: None };
    let mut end = offset;
    while offset - end < MAX_LINE_BYTES {
        let from = end.saturating_sub(BLOCK_BYTES);
        let (stored_from, bytes) = read_stored_before(read_chunk, from, end)?;
        if let ControlFlow::Break(found) = search.search_block(stored_from, &bytes) {
            return Ok(found);
        }
        if search.is_divided(stored_from) {
            return Ok(search.last_state());
        }
        if stored_from == 0 || stored_from > from {
            return Ok(Some(search.line_at(stored_from)));
        }
        end = from;
    }
    Ok(search.last_state())
}

/// Reads the stored bytes that directly precede `to`, back to `from` or to the end of a gap.
/// Returns the offset of the first one, and the bytes.
fn read_stored_before(
    read_chunk: &mut ReadChunk<'_>,
    from: u64,
    to: u64,
) -> io::Result<(u64, Vec<u8>)> {
    let (mut start, mut at) = (from, from);
    let (mut bytes, mut chunk) = (Vec::new(), Vec::new());
    while at < to {
        match read_chunk(at, to, &mut chunk)? {
            Some(gap) => {
                at = gap.to.max(at + 1);
                start = at;
                bytes.clear();
            }
            None if chunk.is_empty() => break,
            None => {
                at += chunk.len() as u64;
                bytes.extend_from_slice(&chunk);
            }
        }
    }
    Ok((start, bytes))
}

/// A search, which proceeds from the offset to the start of the output.
struct Search {
    offset: u64,
    max_state_bytes: u64,
    /// End of the state that the search has reached: the offset or, later, the start of the state
    /// after it.
    state_end: u64,
    /// Start of the state from which the line is read; `None` as long as no carriage return was
    /// found.
    state: Option<u64>,
}

impl Search {
    /// Searches the bytes before those that were searched already.
    fn search_block(&mut self, from: u64, bytes: &[u8]) -> ControlFlow<Option<LineStart>> {
        let mut rest = bytes;
        while let Some(index) = rest.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) {
            let start = from + index as u64 + 1;
            if self.is_divided(start) {
                return ControlFlow::Break(self.last_state());
            }
            if rest[index] == b'\n' {
                return ControlFlow::Break(Some(self.line_at(start)));
            }
            self.state_end = start;
            if self.state.is_none() || self.offset - start <= REREAD_BYTES {
                self.state = Some(start);
            }
            rest = &rest[..index];
        }
        ControlFlow::Continue(())
    }

    /// Returns whether a state that starts here, or earlier, is divided. The state at the offset
    /// continues after it, unless a division is exactly there.
    const fn is_divided(&self, start: u64) -> bool {
        let len = self.state_end - start;
        match self.state {
            Some(_) => len > self.max_state_bytes,
            None => len >= self.max_state_bytes,
        }
    }

    /// Returns a line that starts with the earliest state that was found.
    fn last_state(&self) -> Option<LineStart> {
        self.state.map(|_| self.line_at(self.state_end))
    }

    fn line_at(&self, line: u64) -> LineStart {
        let is_near = self.offset - line <= REREAD_BYTES;
        let state = if is_near { line } else { self.state.unwrap_or(line) };
        LineStart { line, state }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches in an output in memory, of which the bytes before `kept_from` are a gap.
    fn find(output: &[u8], kept_from: u64, offset: u64, max_state: u64) -> Option<LineStart> {
        let mut read = |from: u64, to: u64, chunk: &mut Vec<u8>| {
            chunk.clear();
            if from < kept_from {
                return Ok(Some(OutputGap { from, to: kept_from.min(to) }));
            }
            // Short reads are allowed.
            let to = to.min(from + 1_000).min(output.len() as u64);
            let range = usize::try_from(from).unwrap()..usize::try_from(to.max(from)).unwrap();
            chunk.extend_from_slice(&output[range]);
            Ok(None)
        };
        find_line_start(&mut read, offset, max_state).unwrap()
    }

    #[test]
    fn a_line_starts_after_a_newline_a_gap_or_nothing() {
        assert_eq!(find(b"", 0, 0, 100), Some(LineStart::from_offset(0)));
        assert_eq!(find(b"one\ntwo", 0, 2, 100), Some(LineStart::from_offset(0)));
        assert_eq!(find(b"one\ntwo", 0, 4, 100), Some(LineStart::from_offset(4)));
        assert_eq!(find(b"one\ntwo", 0, 7, 100), Some(LineStart::from_offset(4)));
        assert_eq!(find(b"one\ntwo", 5, 7, 100), Some(LineStart::from_offset(5)));
        assert_eq!(find(b"one\ntwo", 5, 5, 100), Some(LineStart::from_offset(5)));
    }

    #[test]
    fn a_long_progress_bar_is_one_line_that_is_read_from_a_recent_state() {
        let bar: String = (0..20_000).map(|step| format!("\r{step:>5} of 20000 [#####]")).collect();
        let output = format!("head\n{bar}\ntail");
        let offset = output.len() as u64 - 100;
        let found = find(output.as_bytes(), 0, offset, 4096).expect("a line");
        assert_eq!(found.line, 5);
        let state = usize::try_from(found.state).unwrap();
        assert_eq!(output.as_bytes()[state - 1], b'\r');
        assert!((offset - REREAD_BYTES..offset - REREAD_BYTES + 100).contains(&found.state));
        assert_eq!(find(output.as_bytes(), 0, 5_000, 4096), Some(LineStart::from_offset(5)));
        assert_eq!(find(output.as_bytes(), 90_000, offset, 4096).map(|it| it.line), Some(90_000));
    }

    #[test]
    fn a_long_text_ends_the_search() {
        let long = "x".repeat(100);
        assert_eq!(find(long.as_bytes(), 0, 99, 100), Some(LineStart::from_offset(0)));
        assert_eq!(find(long.as_bytes(), 0, 100, 100), None, "the text is divided here");
        let output = format!("head\r{long}\r1%\r2%");
        let end = output.len() as u64;
        assert_eq!(find(output.as_bytes(), 0, end, 101), Some(LineStart::from_offset(0)));
        assert_eq!(find(output.as_bytes(), 0, end, 100), Some(LineStart::from_offset(106)));
    }

    proptest! {
        /// The search agrees with a search in the whole output.
        #[test]
        fn the_start_is_after_the_last_newline(
            output in prop::collection::vec(
                prop_oneof![4 => Just(b'x'), 2 => Just(b'\r'), 1 => Just(b'\n')],
                0..3_000,
            ),
            cut in 0_usize..3_000,
        ) {
            let offset = cut.min(output.len());
            let newline = output[..offset].iter().rposition(|byte| *byte == b'\n');
            let line = newline.map_or(0, |index| index as u64 + 1);
            let found = find(&output, 0, offset as u64, 4096);
            prop_assert_eq!(found, Some(LineStart::from_offset(line)));
        }
    }
}
