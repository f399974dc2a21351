//! Raw bytes to lines of readable text, each with its place in the stream.

use std::borrow::Cow;
use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{OutputRenderer, RenderOptions, RepeatMode, make_visible};

use super::chunks::{Chunk, SinkFlow};

/// A line, or a piece of one that is longer than what can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'t> {
    /// Offset at which it begins.
    pub(super) from: u64,
    /// Offset behind it. Inside a line too long to be held this is exact for plain text only.
    pub(super) to: u64,
    /// The text, with its newline if it has one.
    pub(super) text: &'t str,
    /// Whether it begins where a line begins.
    pub(super) is_line_start: bool,
}

impl Line<'_> {
    /// Whether it is a line from its beginning to its newline.
    pub(super) fn is_complete(&self) -> bool {
        self.is_line_start && self.text.ends_with('\n')
    }
}

/// What takes lines.
pub(super) trait OutputSink {
    /// Takes a line.
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow>;

    /// Takes note that a part of the output is gone for good.
    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow>;

    /// Takes note that a part was not read.
    fn skipped(&mut self, from: u64, to: u64) -> io::Result<SinkFlow>;

    /// Takes note that a line which was begun ends here for now.
    fn end_partial_line(&mut self) -> io::Result<SinkFlow>;
}

impl<S: OutputSink + ?Sized> OutputSink for &mut S {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        (**self).line(line)
    }

    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow> {
        (**self).gap(gap)
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<SinkFlow> {
        (**self).skipped(from, to)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        (**self).end_partial_line()
    }
}

/// Cuts the stream into lines.
#[derive(Debug)]
pub(super) struct LineSplitter<S> {
    sink: S,
    folder: OutputRenderer,
    out: String,
    /// Where the text that was not given out yet begins.
    from: u64,
    to: u64,
    is_line_start: bool,
}

impl<S: OutputSink> LineSplitter<S> {
    pub(super) fn new(sink: S) -> Self {
        Self {
            sink,
            folder: line_folder(),
            out: String::new(),
            from: 0,
            to: 0,
            is_line_start: true,
        }
    }

    /// Returns the sink.
    pub(super) const fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the line that is not ended yet, and where it begins.
    pub(super) fn partial_line(&self) -> (u64, &str) {
        (self.from, self.folder.pending_line())
    }

    /// Takes the next piece of the file.
    pub(super) fn push_chunk(&mut self, piece: Chunk<'_>) -> io::Result<SinkFlow> {
        match piece {
            Chunk::Bytes(from, bytes) => self.push_bytes(from, bytes),
            Chunk::Hole(gap) => match self.flush_partial_line()? {
                SinkFlow::Continue => self.sink.gap(gap),
                SinkFlow::Stop => Ok(SinkFlow::Stop),
            },
        }
    }

    /// Takes note that a part is not read.
    pub(super) fn skip_range(&mut self, from: u64, to: u64) -> io::Result<SinkFlow> {
        match self.flush_partial_line()? {
            SinkFlow::Continue => self.sink.skipped(from, to),
            SinkFlow::Stop => Ok(SinkFlow::Stop),
        }
    }

    /// Gives out what is held and returns the sink.
    pub(super) fn finish(mut self) -> io::Result<S> {
        if self.flush_partial_line()? == SinkFlow::Continue {
            self.sink.end_partial_line()?;
        }
        Ok(self.sink)
    }

    fn push_bytes(&mut self, from: u64, bytes: &[u8]) -> io::Result<SinkFlow> {
        if from != self.to {
            self.from = from;
        }
        self.to = from;
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.folder.push(part, &mut self.out);
            self.to += part.len() as u64;
            if !self.out.is_empty() && self.emit_lines()? == SinkFlow::Stop {
                return Ok(SinkFlow::Stop);
            }
        }
        Ok(SinkFlow::Continue)
    }

    fn emit_lines(&mut self) -> io::Result<SinkFlow> {
        let ended = self.out.ends_with('\n');
        // What is given out before its line ends lacks what the folder still holds.
        let to = if ended { self.to } else { self.to.min(self.from + self.out.len() as u64) };
        let text = &visible_text(&self.out);
        let line = Line { from: self.from, to, text, is_line_start: self.is_line_start };
        let flow = self.sink.line(line)?;
        self.out.clear();
        self.from = to;
        self.is_line_start = ended;
        Ok(flow)
    }

    /// Ends the line that is being built where it stands.
    pub(super) fn flush_partial_line(&mut self) -> io::Result<SinkFlow> {
        std::mem::replace(&mut self.folder, line_folder()).finish(&mut self.out);
        let flow = if self.out.is_empty() {
            SinkFlow::Continue
        } else {
            let text = &visible_text(&self.out);
            let line =
                Line { from: self.from, to: self.to, text, is_line_start: self.is_line_start };
            self.sink.line(line)?
        };
        self.out.clear();
        self.from = self.to;
        self.is_line_start = true;
        Ok(flow)
    }
}

/// Returns folded text with what would hide in it, or turn it round, made visible: neither a person
/// nor a model may be shown something else than what is there.
pub(super) fn visible_text(text: &str) -> Cow<'_, str> {
    // Of ASCII the folder has left nothing that would.
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(make_visible(text)) }
}

fn line_folder() -> OutputRenderer {
    OutputRenderer::new(RenderOptions { repeats: RepeatMode::Keep })
}
