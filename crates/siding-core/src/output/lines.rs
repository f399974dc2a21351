//! Splits raw bytes into lines of rendered text, each with its stream offsets.

use std::borrow::Cow;
use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{OutputRenderer, RenderOptions, RepeatMode, make_visible};

use super::chunks::{Chunk, SinkFlow};

/// Whether the colors of the output are a part of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorHandling {
    /// Colors are removed, as is every escape sequence.
    Removed,
    /// Colors are kept, encoded for [`decode_colors`](siding_model::text::decode_colors). Only for a
    /// terminal.
    Encoded,
}

/// A line, or a part of one: a fragment of a line that exceeds the buffer, or an incomplete line at
/// the end of a read or before a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'t> {
    /// Stream offset of the first byte.
    pub(super) from: u64,
    /// Stream offset after the last byte. For a fragment of an overlong line, the offset is exact
    /// only if rendering has not changed the text.
    pub(super) to: u64,
    /// The rendered text, including its newline if there is one.
    pub(super) text: &'t str,
    /// Whether the text starts at the beginning of a line.
    pub(super) is_line_start: bool,
}

impl Line<'_> {
    /// Returns whether this is a whole line including its newline.
    pub(super) fn is_complete(&self) -> bool {
        self.is_line_start && self.text.ends_with('\n')
    }
}

/// A receiver of the lines, gaps and skipped ranges of a read, in stream order.
pub(super) trait OutputSink {
    /// Receives a line, or a fragment of an overlong line.
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow>;

    /// Reports a range whose disk space was released.
    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow>;

    /// Reports a range that was not read.
    fn skipped(&mut self, from: u64, to: u64) -> io::Result<SinkFlow>;

    /// Reports that no more text follows in this read, even if the last line is incomplete.
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

/// Renders the stream, splits it into lines, and passes the lines to a sink.
#[derive(Debug)]
pub(super) struct LineSplitter<S> {
    sink: S,
    folder: OutputRenderer,
    colors: ColorHandling,
    out: String,
    /// Stream offset of the first byte whose text was not emitted yet.
    from: u64,
    to: u64,
    is_line_start: bool,
}

impl<S: OutputSink> LineSplitter<S> {
    pub(super) fn new(sink: S) -> Self {
        Self::with_colors(sink, ColorHandling::Removed)
    }

    pub(super) fn with_colors(sink: S, colors: ColorHandling) -> Self {
        Self {
            sink,
            folder: line_folder(colors),
            colors,
            out: String::new(),
            from: 0,
            to: 0,
            is_line_start: true,
        }
    }

    pub(super) const fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the incomplete line and its offset.
    pub(super) fn partial_line(&self) -> (u64, &str) {
        (self.from, self.folder.pending_line())
    }

    /// Processes the next chunk of the file.
    pub(super) fn push_chunk(&mut self, piece: Chunk<'_>) -> io::Result<SinkFlow> {
        match piece {
            Chunk::Bytes(from, bytes) => self.push_bytes(from, bytes),
            Chunk::Hole(gap) => match self.flush_partial_line()? {
                SinkFlow::Continue => self.sink.gap(gap),
                SinkFlow::Stop => Ok(SinkFlow::Stop),
            },
        }
    }

    /// Flushes the incomplete line, and reports a range that is not read.
    pub(super) fn skip_range(&mut self, from: u64, to: u64) -> io::Result<SinkFlow> {
        match self.flush_partial_line()? {
            SinkFlow::Continue => self.sink.skipped(from, to),
            SinkFlow::Stop => Ok(SinkFlow::Stop),
        }
    }

    /// Flushes the incomplete line and returns the sink.
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
        // The renderer may still hold bytes of an incomplete line, which are not in this text.
        let to = if ended { self.to } else { self.to.min(self.from + self.out.len() as u64) };
        let text = &visible_text(&self.out);
        let line = Line { from: self.from, to, text, is_line_start: self.is_line_start };
        let flow = self.sink.line(line)?;
        self.out.clear();
        self.from = to;
        self.is_line_start = ended;
        Ok(flow)
    }

    /// Emits the present text of the incomplete line. Unlike after [`Self::flush_partial_line`],
    /// the sink receives the line again when the task has completed or rewritten it.
    pub(super) fn show_partial_line(&mut self) -> io::Result<SinkFlow> {
        let text = &visible_text(self.folder.pending_line());
        let line = Line { from: self.from, to: self.to, text, is_line_start: self.is_line_start };
        self.sink.line(line)
    }

    /// Emits the incomplete line. The next byte then starts a new line.
    pub(super) fn flush_partial_line(&mut self) -> io::Result<SinkFlow> {
        std::mem::replace(&mut self.folder, line_folder(self.colors)).finish(&mut self.out);
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

/// Returns rendered text with invisible and bidirectional control characters escaped, so that
/// neither a person nor a model misses or misreads them (promise P28).
pub(super) fn visible_text(text: &str) -> Cow<'_, str> {
    // The renderer has already removed ASCII control characters.
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(make_visible(text)) }
}

fn line_folder(colors: ColorHandling) -> OutputRenderer {
    let keeps_colors = colors == ColorHandling::Encoded;
    OutputRenderer::new(RenderOptions { repeats: RepeatMode::Keep, keeps_colors })
}
