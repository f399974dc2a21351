//! The output excerpt that a caller receives when its command moves to the background.
//!
//! The excerpt is not the final output: the caller decides whether to wait, and reads the rest when
//! a notice reports that the command has ended. By default the excerpt is therefore an eighth of
//! the size of the excerpt of a finished command. If the output does not fit, the excerpt starts
//! with those lines of the omitted part that look like errors, as far as they fit.

use std::io;

use siding_model::record::OutputGap;

use super::boundaries;
use super::chunks::{Chunks, SinkFlow};
use super::dedup_lines::DedupLines;
use super::error_lines::looks_like_error;
use super::head_tail::push_own_line;
use super::lines::{Line, LineSplitter, OutputSink};
use super::reader::{Excerpt, excerpt};
use crate::store::TaskDir;

/// Raw bytes at the end of the output that are searched for errors. The search is bounded because a
/// caller waits for the reply.
const ERROR_SCAN_BYTES: u64 = 1 << 20;
/// Line between the errors and the output.
const ERRORS_SEPARATOR: &str = "… these looked like errors; the output follows …";

/// Returns the output of a running task as rendered text of at most `max_bytes`.
///
/// If the output does not fit, the text starts with lines of the last MiB that look like errors, if
/// there are any, in their order. These lines take at most a quarter of the size. The text of
/// [`excerpt`] follows. Error lines in this text are not repeated before it.
///
/// # Errors
///
/// The I/O error of the system call. A task without output yields an empty text.
pub fn handover_excerpt(dir: &TaskDir, keep_head: u64, max_bytes: usize) -> io::Result<Excerpt> {
    let whole = excerpt(dir, keep_head, max_bytes)?;
    if !whole.truncated {
        return Ok(whole);
    }
    let room = max_bytes / 4;
    let rest = excerpt(dir, keep_head, max_bytes - room)?;
    let Some(mut text) =
        error_excerpt(dir, &rest.text, room.saturating_sub(ERRORS_SEPARATOR.len() + 1))?
    else {
        return Ok(whole);
    };
    push_own_line(&mut text, ERRORS_SEPARATOR);
    Ok(Excerpt { text: text + &rest.text, truncated: true })
}

/// Returns the first lines of the last MiB that look like errors and are not in `shown`, in at most
/// `room` bytes; `None` if there are no such lines, or the first of them does not fit.
fn error_excerpt(dir: &TaskDir, shown: &str, room: usize) -> io::Result<Option<String>> {
    let Some(mut chunks) = Chunks::open(dir)? else { return Ok(None) };
    let to = chunks.len()?;
    let from = match to.saturating_sub(ERROR_SCAN_BYTES) {
        0 => 0,
        from => boundaries::next_line_start(&chunks, from)?,
    };
    let mut errors = ErrorSink { shown, max_bytes: room, text: String::new() };
    let mut lines = LineSplitter::new(DedupLines::new(&mut errors));
    if chunks.for_each_chunk(from, to, |piece| lines.push_chunk(piece))? == SinkFlow::Continue {
        let _best_effort = lines.finish()?;
    }
    Ok(Some(errors.text).filter(|text| !text.is_empty()))
}

#[derive(Debug)]
struct ErrorSink<'s> {
    shown: &'s str,
    max_bytes: usize,
    text: String,
}

impl OutputSink for ErrorSink<'_> {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        // A fragment of an overlong line is not informative.
        let wanted = line.is_complete() && looks_like_error(line.text);
        let line = line.text.trim_end_matches('\n');
        if !wanted || self.shown.contains(line) || self.text.contains(line) {
            return Ok(SinkFlow::Continue);
        }
        if self.text.len() + line.len() + 1 > self.max_bytes {
            return Ok(SinkFlow::Stop);
        }
        push_own_line(&mut self.text, line);
        Ok(SinkFlow::Continue)
    }

    fn gap(&mut self, _: OutputGap) -> io::Result<SinkFlow> {
        Ok(SinkFlow::Continue)
    }

    fn skipped(&mut self, _: u64, _: u64) -> io::Result<SinkFlow> {
        Ok(SinkFlow::Continue)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        Ok(SinkFlow::Continue)
    }
}
