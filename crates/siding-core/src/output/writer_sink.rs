//! A sink that writes text without buffering it.

use std::io;

use siding_model::record::OutputGap;

use super::chunks::SinkFlow;
use super::head_tail::gap_line;
use super::lines::{Line, OutputSink};

/// A sink that passes each line to a function immediately.
pub(super) struct WriterSink<F> {
    out: F,
    at_line_start: bool,
    /// Whether the text lacks a range that was released or skipped.
    pub(super) truncated: bool,
}

impl<F: FnMut(&str) -> io::Result<()>> WriterSink<F> {
    pub(super) const fn new(out: F) -> Self {
        Self { out, at_line_start: true, truncated: false }
    }
}

impl<F: FnMut(&str) -> io::Result<()>> OutputSink for WriterSink<F> {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        (self.out)(line.text)?;
        self.at_line_start = line.text.ends_with('\n');
        Ok(SinkFlow::Continue)
    }

    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow> {
        self.truncated = true;
        let newline = if self.at_line_start { "" } else { "\n" };
        (self.out)(&format!("{newline}{}\n", gap_line(gap)))?;
        self.at_line_start = true;
        Ok(SinkFlow::Continue)
    }

    fn skipped(&mut self, _from: u64, _to: u64) -> io::Result<SinkFlow> {
        self.truncated = true;
        Ok(SinkFlow::Continue)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        Ok(SinkFlow::Continue)
    }
}
