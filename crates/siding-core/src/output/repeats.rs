//! Lines that repeat, told once.

use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{OutputRenderer, RenderOptions, RepeatMode as Fold};

use super::chunks::Flow;
use super::lines::{Line, Sink};

/// Counts equal lines that follow each other.
///
/// The text is readable already; the folder changes nothing in it but repetitions.
#[derive(Debug)]
pub(super) struct Repeats<S> {
    sink: S,
    folder: OutputRenderer,
    out: String,
    /// Places of the lines that were taken and not given out yet.
    held: Option<(u64, u64)>,
}

impl<S: Sink> Repeats<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { sink, folder: folder(), out: String::new(), held: None }
    }

    fn give(&mut self) -> io::Result<Flow> {
        let Some((from, to)) = self.held.filter(|_| !self.out.is_empty()) else {
            return Ok(Flow::On);
        };
        self.held = None;
        let flow = self.sink.line(Line { from, to, text: &self.out, begins: true })?;
        self.out.clear();
        Ok(flow)
    }

    fn flush(&mut self) -> io::Result<Flow> {
        std::mem::replace(&mut self.folder, folder()).finish(&mut self.out);
        let flow = self.give()?;
        self.held = None;
        Ok(flow)
    }
}

impl<S: Sink> Sink for Repeats<S> {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        if !line.is_whole() {
            return match self.flush()? {
                Flow::On => self.sink.line(line),
                Flow::Enough => Ok(Flow::Enough),
            };
        }
        self.folder.push(line.text.as_bytes(), &mut self.out);
        self.held = Some((self.held.map_or(line.from, |(from, _)| from), line.to));
        self.give()
    }

    fn gone(&mut self, gap: OutputGap) -> io::Result<Flow> {
        match self.flush()? {
            Flow::On => self.sink.gone(gap),
            Flow::Enough => Ok(Flow::Enough),
        }
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<Flow> {
        match self.flush()? {
            Flow::On => self.sink.skipped(from, to),
            Flow::Enough => Ok(Flow::Enough),
        }
    }

    fn end(&mut self) -> io::Result<Flow> {
        match self.flush()? {
            Flow::On => self.sink.end(),
            Flow::Enough => Ok(Flow::Enough),
        }
    }
}

fn folder() -> OutputRenderer {
    OutputRenderer::new(RenderOptions { repeats: Fold::Count })
}
