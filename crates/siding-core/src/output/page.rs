//! Collects one page of text, and determines the offset of the next page.

use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{OutputRenderer, RenderOptions, RepeatMode};

use super::chunks::SinkFlow;
use super::head_tail::{gap_line, push_own_line};
use super::lines::{Line, OutputSink};

/// Bytes reserved for the count of repeated lines or the line about a gap.
const MARKER_RESERVE_BYTES: usize = 120;

/// A sink that collects whole lines while they fit the page.
#[derive(Debug)]
pub(super) struct Page {
    max: usize,
    text: String,
    counter: OutputRenderer,
    next: u64,
    /// Text length and offset at the start of the current line or gap, restored if the line or gap
    /// does not fit.
    line_start: (usize, u64),
    state: PageState,
    truncated: bool,
}

/// Whether a page accepts another line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageState {
    /// Everything so far has fitted.
    Open,
    /// A line or a gap did not fit, and the next page starts with it.
    Full,
    /// Not even the first line fits, so the page shows only the beginning of this line.
    TooLong,
}

impl Page {
    /// Creates an empty page of at most `max` bytes that starts at stream offset `from`.
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

    /// Returns the text, the offset of the next page, and whether the text is incomplete; `None` if
    /// the first line exceeds the page. If everything fitted, the next page starts at `to`, which
    /// skips bytes without visible text, such as an escape sequence at the end.
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
    OutputRenderer::new(RenderOptions { repeats: RepeatMode::Count, ..RenderOptions::default() })
}
