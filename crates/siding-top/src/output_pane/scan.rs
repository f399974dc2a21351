//! Searches in the part of an output that is not loaded.

use std::io;

use siding_core::output::{LineStart, looks_like_error};

use super::{BLOCK_BYTES, ByteSource, Direction, OutputPane};

/// The pattern of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// A text in lower case.
    Text(String),
    /// A line that looks like an error.
    Error,
}

impl Pattern {
    pub(super) fn matches(&self, line: &str) -> bool {
        match self {
            Self::Text(needle) => line.to_lowercase().contains(needle),
            Self::Error => looks_like_error(line),
        }
    }
}

/// A search between two offsets. It reads a block at a time, so its memory does not depend on the
/// length of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) pattern: Pattern,
    pub(crate) direction: Direction,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Scan {
    /// Returns the offset of the first matching line in the direction of the search, or `None` if
    /// there is none. Calls `is_canceled` before each block, and returns `None` if it returns true.
    pub(crate) fn run(
        &self,
        source: &mut dyn ByteSource,
        is_canceled: &dyn Fn() -> bool,
    ) -> io::Result<Option<u64>> {
        match self.direction {
            Direction::Forward => self.find_first(source, is_canceled),
            Direction::Backward => self.find_last(source, is_canceled),
        }
    }

    fn find_first(
        &self,
        source: &mut dyn ByteSource,
        is_canceled: &dyn Fn() -> bool,
    ) -> io::Result<Option<u64>> {
        let mut part = OutputPane { written: self.to, ..OutputPane::default() };
        part.clear_to(LineStart::from_offset(self.from));
        while part.end < self.to {
            if is_canceled() {
                return Ok(None);
            }
            let next = (part.end + BLOCK_BYTES).min(self.to);
            part.load_until(next, source)?;
            let found = part.lines.iter().find(|line| self.pattern.matches(&line.text));
            if let Some(line) = found {
                return Ok(Some(line.offset));
            }
            if part.end < next {
                break;
            }
            part.discard_lines();
            part.start = part.end;
        }
        let last = part.pending;
        Ok(last.filter(|line| self.pattern.matches(&line.text)).map(|line| line.offset))
    }

    fn find_last(
        &self,
        source: &mut dyn ByteSource,
        is_canceled: &dyn Fn() -> bool,
    ) -> io::Result<Option<u64>> {
        let mut part = OutputPane::default();
        part.clear_to(LineStart::from_offset(self.to));
        while part.start > self.from && !is_canceled() && part.load_before(source)? {
            let found = part.lines.iter().rev().find(|line| self.pattern.matches(&line.text));
            if let Some(line) = found {
                return Ok(Some(line.offset));
            }
            part.discard_lines();
        }
        Ok(None)
    }
}
