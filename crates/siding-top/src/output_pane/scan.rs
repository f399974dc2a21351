//! Searches in the part of an output that is not loaded.

use std::io;

use siding_core::output::looks_like_error;

use super::{BLOCK_BYTES, ByteSource, OutputPane};

/// The pattern of a search.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pattern<'p> {
    /// A text in lower case.
    Text(&'p str),
    /// A line that looks like an error.
    Error,
}

impl Pattern<'_> {
    pub(super) fn matches(self, line: &str) -> bool {
        match self {
            Self::Text(needle) => line.to_lowercase().contains(needle),
            Self::Error => looks_like_error(line),
        }
    }
}

/// The result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanResult {
    /// A matching line, which starts at this offset.
    Match(u64),
    /// No line matches.
    NoMatch,
    /// No line matches between the start of the scan and this offset, at which another scan
    /// continues.
    Unfinished(u64),
}

/// Finds the first matching line between two offsets. Reads at most about `most` bytes.
pub(super) fn find_after(
    from: u64,
    to: u64,
    most: u64,
    pattern: Pattern<'_>,
    source: &mut dyn ByteSource,
) -> io::Result<ScanResult> {
    let mut scan =
        OutputPane { written: to.min(from.saturating_add(most)), ..OutputPane::default() };
    scan.clear_from(from);
    while scan.end < scan.written {
        let next = (scan.end + BLOCK_BYTES).min(scan.written);
        scan.load_until(next, source)?;
        if scan.end < next {
            break;
        }
        let found = scan.lines.iter().find(|line| pattern.matches(&line.text));
        if let Some(line) = found {
            return Ok(ScanResult::Match(line.offset));
        }
        scan.lines.clear();
        scan.start = scan.end;
    }
    let last = scan.parser.pending_line();
    if let Some(line) = last.as_ref().filter(|line| pattern.matches(&line.text)) {
        return Ok(ScanResult::Match(line.offset));
    }
    if scan.end < scan.written || scan.end >= to {
        return Ok(ScanResult::NoMatch);
    }
    // The last line may continue. A line that is longer than the whole part is not read again.
    let resume = last.map(|line| line.offset).filter(|offset| *offset > from);
    Ok(ScanResult::Unfinished(resume.unwrap_or(scan.end)))
}

/// Finds the last matching line before an offset. Reads at most about `most` bytes.
pub(super) fn find_before(
    to: u64,
    most: u64,
    pattern: Pattern<'_>,
    source: &mut dyn ByteSource,
) -> io::Result<ScanResult> {
    let mut scan = OutputPane { written: to, ..OutputPane::default() };
    scan.clear_from(to);
    let least = to.saturating_sub(most);
    while scan.start > least && scan.load_before(source)? {
        let found = scan.lines.iter().rev().find(|line| pattern.matches(&line.text));
        if let Some(line) = found {
            return Ok(ScanResult::Match(line.offset));
        }
        scan.lines.clear();
    }
    if scan.start > least || scan.start == 0 {
        return Ok(ScanResult::NoMatch);
    }
    Ok(ScanResult::Unfinished(scan.start))
}
