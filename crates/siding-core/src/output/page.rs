//! Text cut to a size at its end, with the offset at which to go on.

use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{OutputRenderer, RenderOptions, RepeatMode};

use super::chunks::Flow;
use super::ends::{add_line, gone_line};
use super::lines::{Line, Sink};

/// Bytes that the count of repeated lines, or the line about a gap, may take.
const RESERVE: usize = 120;

/// Takes whole lines as long as they fit.
#[derive(Debug)]
pub(super) struct Page {
    max: usize,
    text: String,
    counter: OutputRenderer,
    next: u64,
    /// Text and offset to go back to when the line that was begun does not fit.
    line_start: (usize, u64),
    state: State,
    lacking: bool,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
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
            counter: counter(),
            next: from,
            line_start: (0, from),
            state: State::Open,
            lacking: false,
        }
    }

    /// Returns the text, the offset to go on from, and whether it lacks something; `None` when the
    /// first line alone is larger than the page. When all fitted, it goes on from `to`: what shows
    /// nothing, such as an escape sequence at the very end, was read too.
    pub(super) fn finish(mut self, to: u64) -> Option<(String, u64, bool)> {
        self.flush();
        if self.state == State::Open {
            self.next = to;
        }
        (self.state != State::TooLong).then_some((self.text, self.next, self.lacking))
    }

    fn flush(&mut self) {
        std::mem::replace(&mut self.counter, counter()).finish(&mut self.text);
    }

    fn full(&mut self) -> Flow {
        let (len, next) = self.line_start;
        self.text.truncate(len);
        self.next = next;
        self.state = if len == 0 { State::TooLong } else { State::Full };
        self.lacking = true;
        Flow::Enough
    }
}

impl Sink for Page {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        if line.begins {
            if !line.is_whole() {
                self.flush();
            }
            self.line_start = (self.text.len(), line.from);
        }
        if self.text.len() + line.text.len() + RESERVE.min(self.max / 2) > self.max {
            return Ok(self.full());
        }
        if line.is_whole() {
            self.counter.push(line.text.as_bytes(), &mut self.text);
        } else {
            self.text.push_str(line.text);
        }
        self.next = line.to;
        Ok(Flow::On)
    }

    fn gone(&mut self, gap: OutputGap) -> io::Result<Flow> {
        self.flush();
        self.line_start = (self.text.len(), self.next);
        if self.text.len() + RESERVE > self.max && !self.text.is_empty() {
            return Ok(self.full());
        }
        add_line(&mut self.text, &gone_line(gap));
        self.next = gap.to;
        self.lacking = true;
        Ok(Flow::On)
    }

    fn skipped(&mut self, _from: u64, to: u64) -> io::Result<Flow> {
        self.next = to;
        Ok(Flow::On)
    }

    fn end(&mut self) -> io::Result<Flow> {
        Ok(Flow::On)
    }
}

fn counter() -> OutputRenderer {
    OutputRenderer::new(RenderOptions { repeats: RepeatMode::Count })
}
