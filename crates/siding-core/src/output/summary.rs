//! Short summaries of output: for a command, lines that look like errors and then the last lines;
//! for an agent, the end of its text.

use std::collections::VecDeque;
use std::io;

use siding_model::record::OutputGap;
use siding_model::spec::TaskSpec;
use siding_model::text::{cut_head, cut_tail, make_visible};

use super::boundaries;
use super::chunks::{Chunks, SinkFlow};
use super::dedup_lines::DedupLines;
use super::error_lines::looks_like_error;
use super::line_filter::LineFilter;
use super::lines::{Line, LineSplitter, OutputSink};
use super::reader::{OutputQuery, StreamState, TextLimit, last_lines_offset, read};
use crate::store::TaskDir;

/// Raw bytes read from the end. Errors are usually reported near the end, and a summary is created
/// for every notice, so its creation must not read the whole output.
const SUMMARY_SCAN_BYTES: u64 = 1 << 20;
/// Replaces an omitted part of the text.
const OMISSION_MARKER: &str = "…\n";

/// Lines read from the end of an agent's output.
const AGENT_TAIL_LINES: usize = 40;

/// Returns a summary of a task's output in at most `max` bytes: for a command its errors and last
/// lines, for an agent the end of its text.
///
/// # Errors
///
/// The I/O error of the system call. A task without output yields an empty text.
pub fn task_summary(dir: &TaskDir, spec: &TaskSpec, max: usize) -> io::Result<String> {
    if spec.task_id.kind().has_session() {
        return agent_summary(dir, spec.keep_head, max);
    }
    command_summary(dir, max)
}

/// Returns the last [`AGENT_TAIL_LINES`] lines of an agent's output, cut to `max` bytes.
fn agent_summary(dir: &TaskDir, keep_head: u64, max: usize) -> io::Result<String> {
    let from = last_lines_offset(dir, keep_head, 0, AGENT_TAIL_LINES)?;
    let (choose, size) = (LineFilter::Everything, TextLimit::HeadTail(max));
    let query =
        OutputQuery { from, filter: choose, last_lines: Some(AGENT_TAIL_LINES), limit: size };
    let mut text = String::new();
    read(dir, keep_head, StreamState::Finished, &query, |part| {
        text.push_str(part);
        Ok(())
    })?;
    Ok(make_visible(text.trim_end()))
}

/// Returns lines from the last MiB of a task's output in at most `max` bytes of visible text: the
/// earliest ones that look like errors, then the last of the other lines.
///
/// The first part takes at most half of the text; errors that do not fit there count as other
/// lines. Output that fits is complete but reordered, and repeated lines are combined.
///
/// # Errors
///
/// The I/O error of the system call. A task without output yields an empty text.
fn command_summary(dir: &TaskDir, max: usize) -> io::Result<String> {
    let Some(mut chunks) = Chunks::open(dir)? else { return Ok(String::new()) };
    let to = chunks.len()?;
    let from = match to.saturating_sub(SUMMARY_SCAN_BYTES) {
        0 => 0,
        from => boundaries::next_line_start(&chunks, from)?,
    };
    let mut gist = SummarySink::new(max);
    let mut lines = LineSplitter::new(DedupLines::new(&mut gist));
    chunks.for_each_chunk(from, to, |piece| lines.push_chunk(piece))?;
    lines.finish()?;
    Ok(gist.finish(from > 0))
}

/// Collects the first errors and the last other lines, in at most one and a half times `max` bytes.
#[derive(Debug)]
struct SummarySink {
    max: usize,
    errors: String,
    /// Whether an error was cut, or was added to the other lines, because the errors are full.
    more_errors: bool,
    last_lines: VecDeque<String>,
    last_len: usize,
    /// Whether a line or a released range before the last lines was omitted.
    truncated: bool,
    /// Whether the previous fragments of the current line were added to the errors. If so, the next
    /// fragment is treated as an error too.
    open_error: bool,
}

impl SummarySink {
    fn new(max: usize) -> Self {
        Self {
            max,
            errors: String::new(),
            more_errors: false,
            last_lines: VecDeque::new(),
            last_len: 0,
            truncated: false,
            open_error: false,
        }
    }

    fn push_error(&mut self, text: &str, begins: bool) -> bool {
        if begins && !self.errors.is_empty() && !self.errors.ends_with('\n') {
            self.errors.push('\n');
        }
        let room = (self.max / 2).saturating_sub(self.errors.len() + OMISSION_MARKER.len());
        // A short fragment of a line is not informative.
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

    fn push_other(&mut self, text: &str) {
        let text = cut_tail(text, self.max);
        self.last_len += text.len();
        self.last_lines.push_back(text.to_owned());
        while self.last_len > self.max
            && self.last_lines.len() > 1
            && let Some(oldest) = self.last_lines.pop_front()
        {
            self.last_len -= oldest.len();
            self.truncated = true;
        }
    }

    fn finish(mut self, cut_before: bool) -> String {
        let cut = self.truncated || cut_before;
        if self.more_errors {
            self.errors.push_str(OMISSION_MARKER);
        }
        let room = self.max - self.errors.len();
        let last: String = self.last_lines.into_iter().collect();
        if last.len() <= room && (!cut || last.len() + OMISSION_MARKER.len() <= room) {
            let marker = if cut && !last.is_empty() { OMISSION_MARKER } else { "" };
            return self.errors + marker + &last;
        }
        let tail = cut_tail(&last, room.saturating_sub(OMISSION_MARKER.len()));
        // The tail starts at a whole line, unless that would drop a quarter of the tail or more.
        let tail = match tail.find('\n') {
            Some(end) if end < tail.len() / 4 => &tail[end + 1..],
            _ => tail,
        };
        self.errors + OMISSION_MARKER + tail
    }
}

impl OutputSink for SummarySink {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        let text = make_visible(line.text);
        let is_error = if line.is_line_start { looks_like_error(&text) } else { self.open_error };
        let taken = is_error && self.push_error(&text, line.is_line_start);
        self.open_error = taken && !line.text.ends_with('\n');
        if !taken {
            self.push_other(&text);
        }
        Ok(SinkFlow::Continue)
    }

    fn gap(&mut self, _: OutputGap) -> io::Result<SinkFlow> {
        self.truncated = true;
        Ok(SinkFlow::Continue)
    }

    fn skipped(&mut self, _: u64, _: u64) -> io::Result<SinkFlow> {
        self.truncated = true;
        Ok(SinkFlow::Continue)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        // The text after the errors must start on a new line.
        if !self.errors.is_empty() && !self.errors.ends_with('\n') {
            self.errors.push('\n');
        }
        Ok(SinkFlow::Continue)
    }
}
