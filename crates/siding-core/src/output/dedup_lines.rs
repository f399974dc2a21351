//! Collapses repeated lines.

use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{OutputRenderer, RenderOptions, RepeatMode as Fold};

use super::chunks::SinkFlow;
use super::lines::{Line, OutputSink};

/// A sink that replaces each run of equal lines by one line and a count.
///
/// The renderer in `folder` only collapses repetitions, because the lines are already rendered.
#[derive(Debug)]
pub(super) struct DedupLines<S> {
    sink: S,
    folder: OutputRenderer,
    out: String,
    /// Span of the lines that were received and not yet emitted.
    pending_span: Option<(u64, u64)>,
}

impl<S: OutputSink> DedupLines<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { sink, folder: repeat_folder(), out: String::new(), pending_span: None }
    }

    fn emit(&mut self) -> io::Result<SinkFlow> {
        let Some((from, to)) = self.pending_span.filter(|_| !self.out.is_empty()) else {
            return Ok(SinkFlow::Continue);
        };
        self.pending_span = None;
        let flow = self.sink.line(Line { from, to, text: &self.out, is_line_start: true })?;
        self.out.clear();
        Ok(flow)
    }

    fn flush(&mut self) -> io::Result<SinkFlow> {
        std::mem::replace(&mut self.folder, repeat_folder()).finish(&mut self.out);
        let flow = self.emit()?;
        self.pending_span = None;
        Ok(flow)
    }
}

impl<S: OutputSink> OutputSink for DedupLines<S> {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        if !line.is_complete() {
            return match self.flush()? {
                SinkFlow::Continue => self.sink.line(line),
                SinkFlow::Stop => Ok(SinkFlow::Stop),
            };
        }
        self.folder.push(line.text.as_bytes(), &mut self.out);
        self.pending_span = Some((self.pending_span.map_or(line.from, |(from, _)| from), line.to));
        self.emit()
    }

    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow> {
        match self.flush()? {
            SinkFlow::Continue => self.sink.gap(gap),
            SinkFlow::Stop => Ok(SinkFlow::Stop),
        }
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<SinkFlow> {
        match self.flush()? {
            SinkFlow::Continue => self.sink.skipped(from, to),
            SinkFlow::Stop => Ok(SinkFlow::Stop),
        }
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        match self.flush()? {
            SinkFlow::Continue => self.sink.end_partial_line(),
            SinkFlow::Stop => Ok(SinkFlow::Stop),
        }
    }
}

fn repeat_folder() -> OutputRenderer {
    OutputRenderer::new(RenderOptions { repeats: Fold::Count, ..RenderOptions::default() })
}
