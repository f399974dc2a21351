//! Sinks that select the lines to show: those that match a filter, or the last ones.

use std::collections::VecDeque;
use std::io;

use regex::Regex;
use siding_model::record::OutputGap;

use super::chunks::SinkFlow;
use super::error_lines::looks_like_error;
use super::lines::{Line, OutputSink};

/// Context lines before and after a line that looks like an error.
const ERROR_CONTEXT_LINES: usize = 2;
/// Maximum number of bytes buffered for the last lines, whatever the number of lines.
const MAX_HELD_BYTES: usize = 8 << 20;

/// Selects lines of an output.
#[derive(Debug, Clone)]
pub enum LineFilter {
    /// Every line.
    Everything,
    /// Lines that match the regular expression.
    Matching(Regex),
    /// Lines that look like errors, each with two lines of context before and after.
    Errors,
}

impl LineFilter {
    const fn context_lines(&self) -> usize {
        match self {
            Self::Everything | Self::Matching(_) => 0,
            Self::Errors => ERROR_CONTEXT_LINES,
        }
    }

    fn matches(&self, line: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Matching(regex) => regex.is_match(line.strip_suffix('\n').unwrap_or(line)),
            Self::Errors => looks_like_error(line),
        }
    }
}

/// A copy of a [`Line`] that outlives the chunk from which the line was read.
#[derive(Debug)]
struct OwnedLine {
    from: u64,
    to: u64,
    text: String,
    is_line_start: bool,
}

impl OwnedLine {
    fn new(line: Line<'_>) -> Self {
        Self {
            from: line.from,
            to: line.to,
            text: line.text.to_owned(),
            is_line_start: line.is_line_start,
        }
    }

    fn line(&self) -> Line<'_> {
        Line { from: self.from, to: self.to, text: &self.text, is_line_start: self.is_line_start }
    }
}

/// A sink that passes on the selected lines.
#[derive(Debug)]
pub(super) struct FilterSink<'c, S> {
    filter: &'c LineFilter,
    sink: S,
    context_before: VecDeque<OwnedLine>,
    /// Number of context lines still to be emitted after the last match.
    context_after: usize,
    /// Whether lines were omitted since the last emitted line or gap. Used only with a filter that
    /// emits context lines: the line `--` then separates the next emitted line from earlier ones.
    has_omitted: bool,
    has_emitted: bool,
}

impl<'c, S: OutputSink> FilterSink<'c, S> {
    pub(super) const fn new(choose: &'c LineFilter, sink: S) -> Self {
        Self {
            filter: choose,
            sink,
            context_before: VecDeque::new(),
            context_after: 0,
            has_omitted: false,
            has_emitted: false,
        }
    }

    fn emit_context(&mut self, from: u64) -> io::Result<SinkFlow> {
        let begin = self.context_before.front().map_or(from, |held_line| held_line.from);
        if self.has_omitted && self.has_emitted {
            self.sink.line(Line { from: begin, to: begin, text: "--\n", is_line_start: true })?;
        }
        self.has_omitted = false;
        for held_line in self.context_before.drain(..) {
            if self.sink.line(held_line.line())? == SinkFlow::Stop {
                return Ok(SinkFlow::Stop);
            }
        }
        Ok(SinkFlow::Continue)
    }
}

impl<S: OutputSink> OutputSink for FilterSink<'_, S> {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        if matches!(self.filter, LineFilter::Everything) {
            return self.sink.line(line);
        }
        let context = self.filter.context_lines();
        if self.filter.matches(line.text) {
            self.context_after = context;
            if context > 0 && self.emit_context(line.from)? == SinkFlow::Stop {
                return Ok(SinkFlow::Stop);
            }
        } else if self.context_after > 0 {
            self.context_after -= 1;
        } else {
            self.context_before.push_back(OwnedLine::new(line));
            if self.context_before.len() > context {
                self.context_before.pop_front();
                self.has_omitted = true;
            }
            return Ok(SinkFlow::Continue);
        }
        self.has_emitted = true;
        if line.text.ends_with('\n') {
            return self.sink.line(line);
        }
        // Without a newline, the next selected line would be appended to this line.
        let text = format!("{}\n", line.text);
        self.sink.line(Line { text: &text, is_line_start: true, ..line })
    }

    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow> {
        self.context_before.clear();
        (self.context_after, self.has_omitted) = (0, false);
        self.sink.gap(gap)
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<SinkFlow> {
        self.sink.skipped(from, to)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        self.sink.end_partial_line()
    }
}

/// A sink that buffers the last `count` lines, or fewer if these exceed [`MAX_HELD_BYTES`], and
/// passes them on at the end of the output.
#[derive(Debug)]
pub(super) struct LastLinesSink<S> {
    count: usize,
    sink: S,
    held: VecDeque<OwnedLine>,
    bytes: usize,
}

impl<S: OutputSink> LastLinesSink<S> {
    pub(super) const fn new(count: usize, sink: S) -> Self {
        Self { count, sink, held: VecDeque::new(), bytes: 0 }
    }
}

impl<S: OutputSink> OutputSink for LastLinesSink<S> {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        self.bytes += line.text.len();
        self.held.push_back(OwnedLine::new(line));
        while self.held.len() > self.count || self.bytes > MAX_HELD_BYTES {
            let Some(oldest) = self.held.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
        Ok(SinkFlow::Continue)
    }

    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow> {
        self.sink.gap(gap)
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<SinkFlow> {
        self.sink.skipped(from, to)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        for held_line in self.held.drain(..) {
            if self.sink.line(held_line.line())? == SinkFlow::Stop {
                return Ok(SinkFlow::Stop);
            }
        }
        self.sink.end_partial_line()
    }
}
