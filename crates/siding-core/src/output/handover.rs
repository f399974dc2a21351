//! What a caller is shown of a command that goes on without it.
//!
//! It is not a result: the caller decides whether to wait, and reads the rest when the end is told.
//! So it is an eighth of what a finished command shows, and what looks like an error comes first,
//! wherever it stands.

use std::io;

use siding_model::record::OutputGap;

use super::chunks::{Chunks, Flow};
use super::ends::add_line;
use super::errors::looks_like_error;
use super::lines::{Line, Lines, Sink};
use super::places;
use super::reading::{Excerpt, excerpt};
use super::repeats::Repeats;
use crate::store::TaskDir;

/// Raw bytes at the end in which errors are looked for: a caller waits for the answer.
const RAW: u64 = 1 << 20;
/// Stands between the errors and the output.
const THEN: &str = "… these looked like errors; the output follows …";

/// Returns the output of a task that goes on, as readable text of at most `max_bytes`.
///
/// All of it when that fits. Otherwise its beginning and its end as [`excerpt`] gives them, behind
/// at most a quarter of lines that look like errors and are not in there, the first of them first.
///
/// # Errors
///
/// The operating system's. A task without output has an empty text.
pub fn so_far(dir: &TaskDir, keep_head: u64, max_bytes: usize) -> io::Result<Excerpt> {
    let whole = excerpt(dir, keep_head, max_bytes)?;
    if !whole.truncated {
        return Ok(whole);
    }
    let room = max_bytes / 4;
    let rest = excerpt(dir, keep_head, max_bytes - room)?;
    let Some(mut text) = errors(dir, &rest.text, room.saturating_sub(THEN.len() + 1))? else {
        return Ok(whole);
    };
    add_line(&mut text, THEN);
    Ok(Excerpt { text: text + &rest.text, truncated: true })
}

/// Returns lines that look like errors and are not in a text, if there are any.
fn errors(dir: &TaskDir, shown: &str, room: usize) -> io::Result<Option<String>> {
    let Some(mut chunks) = Chunks::open(dir)? else { return Ok(None) };
    let to = chunks.len()?;
    let from = match to.saturating_sub(RAW) {
        0 => 0,
        from => places::line_start(&chunks, from)?,
    };
    let mut errors = Errors { shown, room, text: String::new() };
    let mut lines = Lines::new(Repeats::new(&mut errors));
    if chunks.each(from, to, |piece| lines.piece(piece))? == Flow::On {
        let _taken = lines.finish()?;
    }
    Ok(Some(errors.text).filter(|text| !text.is_empty()))
}

#[derive(Debug)]
struct Errors<'s> {
    shown: &'s str,
    room: usize,
    text: String,
}

impl Sink for Errors<'_> {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        // Pieces of a line longer than any screen say little.
        let wanted = line.is_whole() && looks_like_error(line.text);
        let line = line.text.trim_end_matches('\n');
        if !wanted || self.shown.contains(line) || self.text.contains(line) {
            return Ok(Flow::On);
        }
        if self.text.len() + line.len() + 1 > self.room {
            return Ok(Flow::Enough);
        }
        add_line(&mut self.text, line);
        Ok(Flow::On)
    }

    fn gone(&mut self, _: OutputGap) -> io::Result<Flow> {
        Ok(Flow::On)
    }

    fn skipped(&mut self, _: u64, _: u64) -> io::Result<Flow> {
        Ok(Flow::On)
    }

    fn end(&mut self) -> io::Result<Flow> {
        Ok(Flow::On)
    }
}
