//! The little that tells how a command went: what looks like errors, then the last lines.

use std::collections::VecDeque;
use std::io;

use siding_model::record::OutputGap;
use siding_model::spec::TaskSpec;
use siding_model::text::{cut_head, cut_tail, make_visible};

use super::chunks::{Chunks, Flow};
use super::errors::looks_like_error;
use super::lines::{Line, Lines, Sink};
use super::places;
use super::reading::{Query, Size, Stream, last_lines, read};
use super::repeats::Repeats;
use super::select::Choose;
use crate::store::TaskDir;

/// Raw bytes at the end that are read. What goes wrong is said near the end, and a summary is made
/// for every notice, so it must not take as long as reading all.
const RAW: u64 = 1 << 20;
/// Stands where something is left out.
const LEFT_OUT: &str = "…\n";

/// Lines at the end of a subagent's output that are looked at.
const LAST: usize = 40;

/// Returns the little that tells what came of a task, in at most `max` bytes: of a command its errors and
/// its last lines, of an agent the end of what it said.
///
/// # Errors
///
/// The operating system's. A task without output has an empty text.
pub fn gist(dir: &TaskDir, spec: &TaskSpec, max: usize) -> io::Result<String> {
    if spec.task_id.kind().has_session() {
        return ending(dir, spec.keep_head, max);
    }
    summary(dir, max)
}

/// Returns the last lines, as they follow one another.
fn ending(dir: &TaskDir, keep_head: u64, max: usize) -> io::Result<String> {
    let from = last_lines(dir, keep_head, 0, LAST)?;
    let (choose, size) = (Choose::Everything, Size::Ends(max));
    let query = Query { from, choose, last: Some(LAST), size };
    let mut text = String::new();
    read(dir, keep_head, Stream::Finished, &query, |part| {
        text.push_str(part);
        Ok(())
    })?;
    Ok(make_visible(text.trim_end()))
}

/// Returns what looks like errors in the last MiB of a task's output, the first of them first, then
/// the last lines, each line once, in at most `max` bytes of visible text.
///
/// Errors get at most half of it. A text that fits has all its lines, only in this order.
///
/// # Errors
///
/// The operating system's. A task without output has an empty text.
fn summary(dir: &TaskDir, max: usize) -> io::Result<String> {
    let Some(mut chunks) = Chunks::open(dir)? else { return Ok(String::new()) };
    let to = chunks.len()?;
    let from = match to.saturating_sub(RAW) {
        0 => 0,
        from => places::line_start(&chunks, from)?,
    };
    let mut gist = Gist::new(max);
    let mut lines = Lines::new(Repeats::new(&mut gist));
    chunks.each(from, to, |piece| lines.piece(piece))?;
    lines.finish()?;
    Ok(gist.finish(from > 0))
}

/// The first errors and the last other lines. Holds little more than the maximum.
#[derive(Debug)]
struct Gist {
    max: usize,
    errors: String,
    /// Whether an error was left out.
    more_errors: bool,
    last: VecDeque<String>,
    last_len: usize,
    /// Whether a line between was left out.
    cut: bool,
    /// Whether the line that is being given in pieces is an error that was taken.
    open_error: bool,
}

impl Gist {
    fn new(max: usize) -> Self {
        Self {
            max,
            errors: String::new(),
            more_errors: false,
            last: VecDeque::new(),
            last_len: 0,
            cut: false,
            open_error: false,
        }
    }

    fn error(&mut self, text: &str, begins: bool) -> bool {
        if begins && !self.errors.is_empty() && !self.errors.ends_with('\n') {
            self.errors.push('\n');
        }
        let room = (self.max / 2).saturating_sub(self.errors.len() + LEFT_OUT.len());
        // A short rest of a line says little.
        if self.more_errors || (text.len() > room && room < 80) {
            self.more_errors = true;
            return false;
        }
        self.errors.push_str(cut_head(text, room));
        if text.len() > room {
            self.more_errors = true;
            self.errors.push('\n');
        }
        true
    }

    fn other(&mut self, text: &str) {
        let text = cut_tail(text, self.max);
        self.last_len += text.len();
        self.last.push_back(text.to_owned());
        while self.last_len > self.max
            && self.last.len() > 1
            && let Some(oldest) = self.last.pop_front()
        {
            self.last_len -= oldest.len();
            self.cut = true;
        }
    }

    fn finish(mut self, cut_before: bool) -> String {
        let cut = self.cut || cut_before;
        if self.more_errors {
            self.errors.push_str(LEFT_OUT);
        }
        let room = self.max - self.errors.len();
        let last: String = self.last.into_iter().collect();
        if last.len() <= room && (!cut || last.len() + LEFT_OUT.len() <= room) {
            let mark = if cut && !last.is_empty() { LEFT_OUT } else { "" };
            return self.errors + mark + &last;
        }
        let tail = cut_tail(&last, room.saturating_sub(LEFT_OUT.len()));
        // Whole lines, unless that would cost most of it.
        let tail = match tail.find('\n') {
            Some(end) if end < tail.len() / 4 => &tail[end + 1..],
            _ => tail,
        };
        self.errors + LEFT_OUT + tail
    }
}

impl Sink for Gist {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        let text = make_visible(line.text);
        let is_error = if line.begins { looks_like_error(&text) } else { self.open_error };
        let taken = is_error && self.error(&text, line.begins);
        self.open_error = taken && !line.text.ends_with('\n');
        if !taken {
            self.other(&text);
        }
        Ok(Flow::On)
    }

    fn gone(&mut self, _: OutputGap) -> io::Result<Flow> {
        self.cut = true;
        Ok(Flow::On)
    }

    fn skipped(&mut self, _: u64, _: u64) -> io::Result<Flow> {
        self.cut = true;
        Ok(Flow::On)
    }

    fn end(&mut self) -> io::Result<Flow> {
        // What follows begins a line.
        if !self.errors.is_empty() && !self.errors.ends_with('\n') {
            self.errors.push('\n');
        }
        Ok(Flow::On)
    }
}
