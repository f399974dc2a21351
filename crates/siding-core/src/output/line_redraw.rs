//! A sink whose reader sees an incomplete line before the task completes or rewrites the line.

use std::io;

use siding_model::record::OutputGap;
use siding_model::text::encoded_colors;

use super::chunks::SinkFlow;
use super::lines::{ColorHandling, Line, OutputSink};

/// The way in which a line replaces the incomplete line that was emitted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRedraw {
    /// The new text follows on a line of its own.
    NextLine,
    /// Control sequences of a terminal erase the line.
    InPlace,
}

impl LineRedraw {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NextLine => "\n",
            Self::InPlace => "\r\x1b[K",
        }
    }
}

/// A sink that may receive the same incomplete line several times, and passes on only new text: the
/// addition to the line, or the whole line if the task has rewritten it.
#[derive(Debug)]
pub(super) struct RedrawSink<S> {
    sink: S,
    redraw: LineRedraw,
    colors: ColorHandling,
    /// The incomplete line that the reader sees; empty if there is none.
    shown: String,
    /// Stream offset of the shown line.
    shown_from: u64,
}

impl<S: OutputSink> RedrawSink<S> {
    pub(super) const fn new(sink: S, redraw: LineRedraw, colors: ColorHandling) -> Self {
        Self { sink, redraw, colors, shown: String::new(), shown_from: 0 }
    }

    /// Returns the text that turns the shown line into `text`.
    fn update_text(&self, text: &str) -> String {
        match text.strip_prefix(self.shown.as_str()) {
            Some("") => String::new(),
            // The shown text ended with a reset of its colors.
            Some(added) if self.colors == ColorHandling::Encoded => {
                format!("{}{added}", encoded_colors(&self.shown))
            }
            Some(added) => added.to_owned(),
            // On a line of its own, an erased line would appear as an empty line.
            None if text.is_empty() && self.redraw == LineRedraw::NextLine => String::new(),
            None => format!("{}{text}", self.redraw.as_str()),
        }
    }
}

impl<S: OutputSink> OutputSink for RedrawSink<S> {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        // The next part of an overlong line has a different offset.
        if self.shown_from != line.from {
            self.shown.clear();
        }
        let text = self.update_text(line.text);
        if text.is_empty() {
            return Ok(SinkFlow::Continue);
        }
        let flow = self.sink.line(Line { text: &text, ..line })?;
        self.shown.clear();
        if !line.text.ends_with('\n') {
            self.shown.push_str(line.text);
            self.shown_from = line.from;
        }
        Ok(flow)
    }

    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow> {
        self.shown.clear();
        self.sink.gap(gap)
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<SinkFlow> {
        self.shown.clear();
        self.sink.skipped(from, to)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        self.shown.clear();
        self.sink.end_partial_line()
    }
}
