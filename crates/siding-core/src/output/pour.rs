//! Text passed on as it comes.

use std::io;

use siding_model::record::OutputGap;

use super::chunks::Flow;
use super::ends::gone_line;
use super::lines::{Line, Sink};

/// Passes text to a function and keeps nothing.
pub(super) struct Pour<F> {
    out: F,
    at_line_start: bool,
    /// Whether anything was missing.
    pub(super) lacking: bool,
}

impl<F: FnMut(&str) -> io::Result<()>> Pour<F> {
    pub(super) const fn new(out: F) -> Self {
        Self { out, at_line_start: true, lacking: false }
    }
}

impl<F: FnMut(&str) -> io::Result<()>> Sink for Pour<F> {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        (self.out)(line.text)?;
        self.at_line_start = line.text.ends_with('\n');
        Ok(Flow::On)
    }

    fn gone(&mut self, gap: OutputGap) -> io::Result<Flow> {
        self.lacking = true;
        let newline = if self.at_line_start { "" } else { "\n" };
        (self.out)(&format!("{newline}{}\n", gone_line(gap)))?;
        self.at_line_start = true;
        Ok(Flow::On)
    }

    fn skipped(&mut self, _from: u64, _to: u64) -> io::Result<Flow> {
        self.lacking = true;
        Ok(Flow::On)
    }

    fn end(&mut self) -> io::Result<Flow> {
        Ok(Flow::On)
    }
}
