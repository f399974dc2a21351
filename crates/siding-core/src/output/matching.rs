//! Lines that match, found as output grows.

use std::io;
use std::ops::ControlFlow;

use regex::Regex;
use siding_model::record::OutputGap;

use super::chunks::{Chunk, Chunks, SinkFlow};
use super::lines::{Line, LineSplitter, OutputSink};
use crate::store::TaskDir;

/// A line that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineMatch<'t> {
    /// Stream offset at which it begins.
    pub from: u64,
    /// Stream offset behind it.
    pub to: u64,
    /// Its text as it is read, without its newline. Of a line too long to be held it is the piece
    /// that matched.
    pub text: &'t str,
}

/// Takes lines that match.
pub trait MatchHandler {
    /// Takes one. `Break` when no more are wanted.
    fn on_match(&mut self, hit: LineMatch<'_>) -> ControlFlow<()>;
}

/// Looks at every line of a stream once, however it is cut into pieces.
///
/// Holds the line that is not ended yet, at most
/// [`LINE_HELD_MAX`](siding_model::text::LINE_HELD_MAX) bytes of it. A longer line is looked at in
/// pieces, and is one line all the same.
pub struct LineMatcher<H> {
    lines: LineSplitter<MatchingSink<H>>,
}

impl<H> std::fmt::Debug for LineMatcher<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matching").finish_non_exhaustive()
    }
}

impl<H: MatchHandler> LineMatcher<H> {
    /// Begins. Without a pattern every line matches that is not blank.
    pub fn new(pattern: Option<Regex>, hits: H) -> Self {
        Self {
            lines: LineSplitter::new(MatchingSink { pattern, handler: hits, line_matched: false }),
        }
    }

    /// Returns who takes the lines.
    pub const fn handler(&mut self) -> &mut H {
        &mut self.lines.sink().handler
    }

    /// Looks at bytes that stand at this offset of the stream.
    pub fn feed(&mut self, from: u64, bytes: &[u8]) {
        // A sink that only looks never fails.
        let _receiver_dropped = self.lines.push_chunk(Chunk::Bytes(from, bytes));
    }

    /// Looks at what the output file holds from an offset on. Returns the offset behind it.
    ///
    /// # Errors
    ///
    /// The operating system's. A task without output has nothing to look at.
    pub fn read_from(&mut self, dir: &TaskDir, from: u64) -> io::Result<u64> {
        let Some(mut chunks) = Chunks::open(dir)? else { return Ok(from) };
        let to = chunks.len()?.max(from);
        if to > from {
            chunks.for_each_chunk(from, to, |piece| self.lines.push_chunk(piece))?;
        }
        Ok(to)
    }

    /// Whether the line that is not ended yet matches as it stands. Gives it to nobody: it may go
    /// on.
    pub fn partial_match(&mut self) -> Option<(u64, String)> {
        let (from, text) = self.lines.partial_line();
        let text = text.to_owned();
        let finder = self.lines.sink();
        (!finder.line_matched && finder.matches(&text)).then_some((from, text))
    }

    /// Looks at the last line, which lacks its newline.
    pub fn finish(&mut self) {
        let _receiver_dropped = self.lines.flush_partial_line();
    }
}

/// The sink behind the lines.
struct MatchingSink<H> {
    pattern: Option<Regex>,
    handler: H,
    /// Whether a piece of the line being read has matched.
    line_matched: bool,
}

impl<H> MatchingSink<H> {
    fn matches(&self, text: &str) -> bool {
        match &self.pattern {
            Some(pattern) => pattern.is_match(text),
            None => !text.trim().is_empty(),
        }
    }
}

impl<H: MatchHandler> OutputSink for MatchingSink<H> {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        if line.is_line_start {
            self.line_matched = false;
        }
        let text = line.text.strip_suffix('\n').unwrap_or(line.text);
        if self.line_matched || !self.matches(text) {
            return Ok(SinkFlow::Continue);
        }
        self.line_matched = true;
        Ok(match self.handler.on_match(LineMatch { from: line.from, to: line.to, text }) {
            ControlFlow::Continue(()) => SinkFlow::Continue,
            ControlFlow::Break(()) => SinkFlow::Stop,
        })
    }

    fn gap(&mut self, _gap: OutputGap) -> io::Result<SinkFlow> {
        Ok(SinkFlow::Continue)
    }

    fn skipped(&mut self, _from: u64, _to: u64) -> io::Result<SinkFlow> {
        Ok(SinkFlow::Continue)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        Ok(SinkFlow::Continue)
    }
}
