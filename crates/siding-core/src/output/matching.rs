//! Finds matching lines in growing output.

use std::io;
use std::ops::ControlFlow;

use regex::Regex;
use siding_model::record::OutputGap;

use super::chunks::{Chunk, Chunks, SinkFlow};
use super::error_lines::looks_like_error;
use super::lines::{Line, LineSplitter, OutputSink};
use crate::store::TaskDir;

/// Prefix of the line that siding appends to the output of a task.
pub const SIDING_LINE_PREFIX: &str = "[siding] ";

/// A line that matches, and its offsets in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineMatch<'t> {
    /// Stream offset of the first byte of `text`.
    pub from: u64,
    /// Stream offset after the last byte of `text` and its newline.
    pub to: u64,
    /// The rendered text of the line without its newline; for an overlong line, the fragment that
    /// matched.
    pub text: &'t str,
}

/// A receiver of matching lines.
pub trait MatchHandler {
    /// Receives a line. Returns `Break` to stop the search.
    fn on_match(&mut self, hit: LineMatch<'_>) -> ControlFlow<()>;
}

/// Matches each line of a stream once, however the stream is cut into chunks.
///
/// Holds at most [`MAX_HELD_LINE_BYTES`](siding_model::text::MAX_HELD_LINE_BYTES) of an incomplete
/// line. A longer line is matched in fragments and is still reported only once.
pub struct LineMatcher<H> {
    lines: LineSplitter<MatchingSink<H>>,
}

impl<H> std::fmt::Debug for LineMatcher<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineMatcher").finish_non_exhaustive()
    }
}

impl<H: MatchHandler> LineMatcher<H> {
    /// Creates a matcher. Without a pattern, every line that is not blank matches.
    pub fn new(pattern: Option<Regex>, hits: H) -> Self {
        Self::with_rule(pattern.map_or(MatchRule::NotBlank, MatchRule::Pattern), hits)
    }

    /// Creates a matcher for lines that look like errors, as
    /// [`LineFilter::Errors`](super::LineFilter::Errors) selects them, without context.
    pub fn for_errors(hits: H) -> Self {
        Self::with_rule(MatchRule::Error, hits)
    }

    fn with_rule(rule: MatchRule, handler: H) -> Self {
        Self { lines: LineSplitter::new(MatchingSink { rule, handler, line_matched: false }) }
    }

    /// Returns the receiver of the matching lines.
    pub const fn handler(&mut self) -> &mut H {
        &mut self.lines.sink().handler
    }

    /// Matches the lines that these bytes complete, and fragments of an overlong line. `from` is
    /// the stream offset of the first byte.
    pub fn feed(&mut self, from: u64, bytes: &[u8]) {
        // The result needs no check, because this sink returns no errors, and a handler that
        // returned `Break` needs no more lines.
        let _receiver_dropped = self.lines.push_chunk(Chunk::Bytes(from, bytes));
    }

    /// Matches the stored output from an offset. Returns the offset after the stored output, or
    /// `from` if nothing is stored after it.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call. A task without output is not an error.
    pub fn read_from(&mut self, dir: &TaskDir, from: u64) -> io::Result<u64> {
        let Some(mut chunks) = Chunks::open(dir)? else { return Ok(from) };
        let to = chunks.len()?.max(from);
        if to > from {
            chunks.for_each_chunk(from, to, |piece| self.lines.push_chunk(piece))?;
        }
        Ok(to)
    }

    /// Returns the incomplete line and its offset if the line matches in its present form. The
    /// handler is not called, because the line may continue.
    pub fn partial_match(&mut self) -> Option<(u64, String)> {
        let (from, text) = self.lines.partial_line();
        let text = text.to_owned();
        let finder = self.lines.sink();
        (!finder.line_matched && finder.matches(&text)).then_some((from, text))
    }

    /// Matches a last line that lacks its newline.
    pub fn finish(&mut self) {
        let _receiver_dropped = self.lines.flush_partial_line();
    }
}

/// Selects lines.
enum MatchRule {
    NotBlank,
    Pattern(Regex),
    /// Lines that look like errors.
    Error,
}

struct MatchingSink<H> {
    rule: MatchRule,
    handler: H,
    /// Whether a fragment of the current line has matched.
    line_matched: bool,
}

impl<H> MatchingSink<H> {
    fn matches(&self, text: &str) -> bool {
        match &self.rule {
            MatchRule::NotBlank => !text.trim().is_empty(),
            MatchRule::Pattern(pattern) => pattern.is_match(text),
            MatchRule::Error => looks_like_error(text),
        }
    }
}

impl<H: MatchHandler> OutputSink for MatchingSink<H> {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        if line.is_line_start {
            self.line_matched = false;
        }
        let complete = line.text.strip_suffix('\n');
        let text = complete.unwrap_or(line.text);
        let is_match = !self.line_matched && self.matches(text);
        // After a complete line, the incomplete line that may follow has not matched.
        self.line_matched = complete.is_none() && (self.line_matched || is_match);
        if !is_match {
            return Ok(SinkFlow::Continue);
        }
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
