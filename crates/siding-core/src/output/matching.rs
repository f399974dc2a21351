//! Lines that match, found as output grows.

use std::io;
use std::ops::ControlFlow;

use regex::Regex;
use siding_model::record::OutputGap;

use super::chunks::{Chunks, Flow, Piece};
use super::lines::{Line, Lines, Sink};
use crate::store::TaskDir;

/// A line that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit<'t> {
    /// Stream offset at which it begins.
    pub from: u64,
    /// Stream offset behind it.
    pub to: u64,
    /// Its text as it is read, without its newline. Of a line too long to be held it is the piece
    /// that matched.
    pub text: &'t str,
}

/// Takes lines that match.
pub trait Hits {
    /// Takes one. `Break` when no more are wanted.
    fn hit(&mut self, hit: Hit<'_>) -> ControlFlow<()>;
}

/// Looks at every line of a stream once, however it is cut into pieces.
///
/// Holds the line that is not ended yet, at most
/// [`LINE_HELD_MAX`](siding_model::text::LINE_HELD_MAX) bytes of it. A longer line is looked at in
/// pieces, and is one line all the same.
pub struct Matching<H> {
    lines: Lines<Finder<H>>,
}

impl<H> std::fmt::Debug for Matching<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matching").finish_non_exhaustive()
    }
}

impl<H: Hits> Matching<H> {
    /// Begins. Without a pattern every line matches that is not blank.
    pub fn new(pattern: Option<Regex>, hits: H) -> Self {
        Self { lines: Lines::new(Finder { pattern, hits, found: false }) }
    }

    /// Returns who takes the lines.
    pub const fn hits(&mut self) -> &mut H {
        &mut self.lines.sink().hits
    }

    /// Looks at bytes that stand at this offset of the stream.
    pub fn feed(&mut self, from: u64, bytes: &[u8]) {
        // A sink that only looks never fails.
        let _enough = self.lines.piece(Piece::Bytes(from, bytes));
    }

    /// Looks at what the output file holds from an offset on. Returns the offset behind it.
    ///
    /// # Errors
    ///
    /// The operating system's. A task without output has nothing to look at.
    pub fn read(&mut self, dir: &TaskDir, from: u64) -> io::Result<u64> {
        let Some(mut chunks) = Chunks::open(dir)? else { return Ok(from) };
        let to = chunks.len()?.max(from);
        if to > from {
            chunks.each(from, to, |piece| self.lines.piece(piece))?;
        }
        Ok(to)
    }

    /// Whether the line that is not ended yet matches as it stands. Gives it to nobody: it may go
    /// on.
    pub fn unended_hit(&mut self) -> Option<(u64, String)> {
        let (from, text) = self.lines.unended();
        let text = text.to_owned();
        let finder = self.lines.sink();
        (!finder.found && finder.wants(&text)).then_some((from, text))
    }

    /// Looks at the last line, which lacks its newline.
    pub fn end(&mut self) {
        let _enough = self.lines.break_off();
    }
}

/// The sink behind the lines.
struct Finder<H> {
    pattern: Option<Regex>,
    hits: H,
    /// Whether a piece of the line being read has matched.
    found: bool,
}

impl<H> Finder<H> {
    fn wants(&self, text: &str) -> bool {
        match &self.pattern {
            Some(pattern) => pattern.is_match(text),
            None => !text.trim().is_empty(),
        }
    }
}

impl<H: Hits> Sink for Finder<H> {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        if line.begins {
            self.found = false;
        }
        let text = line.text.strip_suffix('\n').unwrap_or(line.text);
        if self.found || !self.wants(text) {
            return Ok(Flow::On);
        }
        self.found = true;
        Ok(match self.hits.hit(Hit { from: line.from, to: line.to, text }) {
            ControlFlow::Continue(()) => Flow::On,
            ControlFlow::Break(()) => Flow::Enough,
        })
    }

    fn gone(&mut self, _gap: OutputGap) -> io::Result<Flow> {
        Ok(Flow::On)
    }

    fn skipped(&mut self, _from: u64, _to: u64) -> io::Result<Flow> {
        Ok(Flow::On)
    }

    fn end(&mut self) -> io::Result<Flow> {
        Ok(Flow::On)
    }
}
