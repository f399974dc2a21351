//! Text cut to a size at its end, with the offset at which to go on.

use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{OutputRenderer, RenderOptions, RepeatMode};

use super::chunks::SinkFlow;
use super::head_tail::{gap_line, push_own_line};
use super::lines::{Line, OutputSink};

/// Bytes that the count of repeated lines, or the line about a gap, may take.
const MARKER_RESERVE_BYTES: usize = 120;

/// Takes whole lines as long as they fit.
#[derive(Debug)]
pub(super) struct Page {
    max: usize,
    text: String,
    counter: OutputRenderer,
    next: u64,
    /// Text and offset to go back to when the line that was begun does not fit.
    line_start: (usize, u64),
    state: PageState,
    truncated: bool,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageState {
    /// Everything fitted so far.
    Open,
    /// A line did not fit.
    Full,
    /// Not even the first line did.
    TooLong,
}

impl Page {
    /// Returns an empty page that begins at an offset.
    pub(super) fn new(max: usize, from: u64) -> Self {
        Self {
            max,
            text: String::new(),
            counter: repeat_folder(),
            next: from,
            line_start: (0, from),
            state: PageState::Open,
            truncated: false,
        }
    }

    /// Returns the text, the offset to go on from, and whether it lacks something; `None` when the
    /// first line alone is larger than the page. When all fitted, it goes on from `to`: what shows
    /// nothing, such as an escape sequence at the very end, was read too.
    pub(super) fn finish(mut self, to: u64) -> Option<(String, u64, bool)> {
        self.flush();
        if self.state == PageState::Open {
            self.next = to;
        }
        (self.state != PageState::TooLong).then_some((self.text, self.next, self.truncated))
    }

    fn flush(&mut self) {
        std::mem::replace(&mut self.counter, repeat_folder()).finish(&mut self.text);
    }

    fn mark_full(&mut self) -> SinkFlow {
        let (len, next) = self.line_start;
        self.text.truncate(len);
        self.next = next;
        self.state = if len == 0 { PageState::TooLong } else { PageState::Full };
        self.truncated = true;
        SinkFlow::Stop
    }
}

impl OutputSink for Page {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        if line.is_line_start {
            if !line.is_complete() {
                self.flush();
            }
            self.line_start = (self.text.len(), line.from);
        }
        if self.text.len() + line.text.len() + MARKER_RESERVE_BYTES.min(self.max / 2) > self.max {
            return Ok(self.mark_full());
        }
        if line.is_complete() {
            self.counter.push(line.text.as_bytes(), &mut self.text);
        } else {
            self.text.push_str(line.text);
        }
        self.next = line.to;
        Ok(SinkFlow::Continue)
    }

    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow> {
        self.flush();
        self.line_start = (self.text.len(), self.next);
        if self.text.len() + MARKER_RESERVE_BYTES > self.max && !self.text.is_empty() {
            return Ok(self.mark_full());
        }
        push_own_line(&mut self.text, &gap_line(gap));
        self.next = gap.to;
        self.truncated = true;
        Ok(SinkFlow::Continue)
    }

    fn skipped(&mut self, _from: u64, to: u64) -> io::Result<SinkFlow> {
        self.next = to;
        Ok(SinkFlow::Continue)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        Ok(SinkFlow::Continue)
    }
}

fn repeat_folder() -> OutputRenderer {
    OutputRenderer::new(RenderOptions { repeats: RepeatMode::Count })
}
