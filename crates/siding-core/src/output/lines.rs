//! Raw bytes to lines of readable text, each with its place in the stream.

use std::borrow::Cow;
use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{OutputRenderer, RenderOptions, RepeatMode, make_visible};

use super::chunks::{Flow, Piece};

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
    pub(super) begins: bool,
}

impl Line<'_> {
    /// Whether it is a line from its beginning to its newline.
    pub(super) fn is_whole(&self) -> bool {
        self.begins && self.text.ends_with('\n')
    }
}

/// What takes lines.
pub(super) trait Sink {
    /// Takes a line.
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow>;

    /// Takes note that a part of the output is gone for good.
    fn gone(&mut self, gap: OutputGap) -> io::Result<Flow>;

    /// Takes note that a part was not read.
    fn skipped(&mut self, from: u64, to: u64) -> io::Result<Flow>;

    /// Takes note that a line which was begun ends here for now.
    fn end(&mut self) -> io::Result<Flow>;
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        (**self).line(line)
    }

    fn gone(&mut self, gap: OutputGap) -> io::Result<Flow> {
        (**self).gone(gap)
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<Flow> {
        (**self).skipped(from, to)
    }

    fn end(&mut self) -> io::Result<Flow> {
        (**self).end()
    }
}

/// Cuts the stream into lines.
#[derive(Debug)]
pub(super) struct Lines<S> {
    sink: S,
    folder: OutputRenderer,
    out: String,
    /// Where the text that was not given out yet begins.
    from: u64,
    to: u64,
    begins: bool,
}

impl<S: Sink> Lines<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { sink, folder: folder(), out: String::new(), from: 0, to: 0, begins: true }
    }

    /// Returns the sink.
    pub(super) const fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the line that is not ended yet, and where it begins.
    pub(super) fn unended(&self) -> (u64, &str) {
        (self.from, self.folder.pending_line())
    }

    /// Takes the next piece of the file.
    pub(super) fn piece(&mut self, piece: Piece<'_>) -> io::Result<Flow> {
        match piece {
            Piece::Bytes(from, bytes) => self.bytes(from, bytes),
            Piece::Gone(gap) => match self.break_off()? {
                Flow::On => self.sink.gone(gap),
                Flow::Enough => Ok(Flow::Enough),
            },
        }
    }

    /// Takes note that a part is not read.
    pub(super) fn skip(&mut self, from: u64, to: u64) -> io::Result<Flow> {
        match self.break_off()? {
            Flow::On => self.sink.skipped(from, to),
            Flow::Enough => Ok(Flow::Enough),
        }
    }

    /// Gives out what is held and returns the sink.
    pub(super) fn finish(mut self) -> io::Result<S> {
        if self.break_off()? == Flow::On {
            self.sink.end()?;
        }
        Ok(self.sink)
    }

    fn bytes(&mut self, from: u64, bytes: &[u8]) -> io::Result<Flow> {
        if from != self.to {
            self.from = from;
        }
        self.to = from;
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.folder.push(part, &mut self.out);
            self.to += part.len() as u64;
            if !self.out.is_empty() && self.give()? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::On)
    }

    fn give(&mut self) -> io::Result<Flow> {
        let ended = self.out.ends_with('\n');
        // What is given out before its line ends lacks what the folder still holds.
        let to = if ended { self.to } else { self.to.min(self.from + self.out.len() as u64) };
        let text = &shown(&self.out);
        let line = Line { from: self.from, to, text, begins: self.begins };
        let flow = self.sink.line(line)?;
        self.out.clear();
        self.from = to;
        self.begins = ended;
        Ok(flow)
    }

    /// Ends the line that is being built where it stands.
    pub(super) fn break_off(&mut self) -> io::Result<Flow> {
        std::mem::replace(&mut self.folder, folder()).finish(&mut self.out);
        let flow = if self.out.is_empty() {
            Flow::On
        } else {
            let text = &shown(&self.out);
            let line = Line { from: self.from, to: self.to, text, begins: self.begins };
            self.sink.line(line)?
        };
        self.out.clear();
        self.from = self.to;
        self.begins = true;
        Ok(flow)
    }
}

/// Returns folded text with what would hide in it, or turn it round, made visible: neither a person
/// nor a model may be shown something else than what is there.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    // Of ASCII the folder has left nothing that would.
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(make_visible(text)) }
}

fn folder() -> OutputRenderer {
    OutputRenderer::new(RenderOptions { repeats: RepeatMode::Keep })
}
