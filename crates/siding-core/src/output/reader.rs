//! One look at a task's output.

use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{RenderOptions, RepeatMode as Fold, render_output};

use super::boundaries;
use super::chunks::{Chunks, SinkFlow};
use super::dedup_lines::DedupLines;
use super::head_tail::{HeadTail, TextSource};
use super::line_filter::{FilterSink, LastLinesSink, LineFilter};
use super::lines::{LineSplitter, OutputSink, visible_text};
use super::page::Page;
use super::size::find_gap;
use super::writer_sink::WriterSink;
use crate::store::TaskDir;

/// Raw bytes that are read for the beginning of a text that is cut. Progress bars shrink a
/// hundredfold, so this is more than what is shown.
const HEAD_RAW_BYTES: u64 = 256 << 10;
/// Raw bytes that are read for its end.
const TAIL_RAW_BYTES: u64 = 1 << 20;

/// Smallest text that [`Size::Page`] makes, so that it always goes on.
pub const MIN_PAGE_BYTES: usize = 64;

/// How much text is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextLimit {
    /// At most this many bytes: the beginning and the end, with a line between them about what is
    /// left out.
    HeadTail(usize),
    /// At most this many bytes, or [`MIN_PAGE_BYTES`]: the beginning, to be read on from where it ends.
    Page(usize),
    /// All of it.
    Unlimited,
}

/// Whether more may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// The task may write more: a character or escape sequence that is not complete is left for
    /// the next look.
    Growing,
    /// This is all.
    Finished,
}

/// What is wanted of a task's output.
#[derive(Debug, Clone)]
pub struct OutputQuery {
    /// Offset to begin at.
    pub from: u64,
    /// Which lines.
    pub filter: LineFilter,
    /// Only this many at the end of them.
    pub last_lines: Option<usize>,
    /// How much text.
    pub limit: TextLimit,
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadSummary {
    /// Offset at which the text begins.
    pub from: u64,
    /// Offset at which to go on.
    pub next: u64,
    /// Bytes there were.
    pub bytes: u64,
    /// The part of all output that is gone for good.
    pub gap: Option<OutputGap>,
    /// Whether the text lacks something that lies between `from` and `bytes`.
    pub truncated: bool,
}

/// Readable text of a task's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// The text: its beginning and its end, where there is too much of it.
    pub text: String,
    /// Whether something was left out, or is gone.
    pub truncated: bool,
}

/// Returns the output of a task as readable text of at most `max_bytes`.
///
/// Reads at most a few times that much, however much there is. What is left out is named in a
/// line of its own, with the command that shows it.
///
/// # Errors
///
/// The operating system's. A task without output has an empty text.
pub fn excerpt(dir: &TaskDir, keep_head: u64, max_bytes: usize) -> io::Result<Excerpt> {
    let query = OutputQuery {
        from: 0,
        filter: LineFilter::Everything,
        last_lines: None,
        limit: TextLimit::HeadTail(max_bytes),
    };
    let mut text = String::new();
    let reading = read(dir, keep_head, StreamState::Finished, &query, |part| {
        text.push_str(part);
        Ok(())
    })?;
    Ok(Excerpt { text, truncated: reading.truncated })
}

/// Gives `out` what is wanted of a task's output, as readable text.
///
/// With [`TextLimit::Unlimited`] it comes in pieces and nothing is held but the line being read.
///
/// # Errors
///
/// The operating system's, and those of `out`. A task without output has an empty text.
pub fn read(
    dir: &TaskDir,
    keep_head: u64,
    stream: StreamState,
    query: &OutputQuery,
    mut out: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<ReadSummary> {
    let Some(mut chunks) = Chunks::open(dir)? else {
        let from = query.from;
        return Ok(ReadSummary { from, next: from, bytes: 0, gap: None, truncated: false });
    };
    let bytes = chunks.len()?;
    let gap = find_gap(chunks.file(), bytes, keep_head);
    let to = match stream {
        StreamState::Growing => boundaries::complete_text_end(&chunks, bytes)?,
        StreamState::Finished => bytes,
    };
    let mut from = query.from.min(to);
    if let (Some(last), LineFilter::Everything) = (query.last_lines, &query.filter) {
        from = boundaries::last_lines_start(&chunks, from.max(gap_end(gap, to)), to, last)?;
    }
    let reading = ReadSummary { from, next: to, bytes, gap, truncated: false };
    match query.limit {
        TextLimit::HeadTail(max) => {
            let content = match query.filter {
                LineFilter::Everything => TextSource::Stream(dir.id()),
                LineFilter::Matching(_) | LineFilter::Errors => TextSource::FilteredLines,
            };
            let mut ends = HeadTail::new(content, max);
            if content == TextSource::FilteredLines {
                read_filtered(&mut chunks, (from, to), query, &mut ends)?;
            } else {
                read_head_tail(&mut chunks, (from, to), gap, max, &mut ends)?;
            }
            let (text, truncated) = ends.finish();
            out(&text)?;
            Ok(ReadSummary { truncated, ..reading })
        }
        TextLimit::Page(max) => {
            let (text, next, truncated) = read_page(&mut chunks, (from, to), query, max)?;
            out(&text)?;
            Ok(ReadSummary { next, truncated, ..reading })
        }
        TextLimit::Unlimited => {
            let mut pour = WriterSink::new(out);
            read_filtered(&mut chunks, (from, to), query, &mut pour)?;
            Ok(ReadSummary { truncated: pour.truncated, ..reading })
        }
    }
}

/// Returns the offset at which the last lines begin, not before `from` and not before the gap.
///
/// # Errors
///
/// The operating system's.
pub fn last_lines_offset(
    dir: &TaskDir,
    keep_head: u64,
    from: u64,
    count: usize,
) -> io::Result<u64> {
    let Some(chunks) = Chunks::open(dir)? else { return Ok(from) };
    let to = chunks.len()?;
    let gap = find_gap(chunks.file(), to, keep_head);
    boundaries::last_lines_start(&chunks, from.min(to).max(gap_end(gap, to)), to, count)
}

/// Returns where the part behind the gap begins, if there is one.
fn gap_end(gap: Option<OutputGap>, to: u64) -> u64 {
    gap.filter(|gap| gap.to < to).map_or(0, |gap| gap.to)
}

/// Passes the chosen lines between two offsets to a sink, repeated ones counted.
fn read_filtered(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    query: &OutputQuery,
    sink: &mut dyn OutputSink,
) -> io::Result<()> {
    let repeats = DedupLines::new(sink);
    // Without a choice the place of the last lines is known already.
    let last = query.last_lines.filter(|_| !matches!(query.filter, LineFilter::Everything));
    match last {
        Some(last) => read_all(
            chunks,
            (from, to),
            FilterSink::new(&query.filter, LastLinesSink::new(last, repeats)),
        ),
        None => read_all(chunks, (from, to), FilterSink::new(&query.filter, repeats)),
    }
}

fn read_all(chunks: &mut Chunks, (from, to): (u64, u64), sink: impl OutputSink) -> io::Result<()> {
    let mut lines = LineSplitter::new(sink);
    match chunks.for_each_chunk(from, to, |piece| lines.push_chunk(piece))? {
        SinkFlow::Continue => lines.finish().map(drop),
        // What is held belongs behind what was refused.
        SinkFlow::Stop => Ok(()),
    }
}

/// Reads the beginning and the end of a part, or all of it if that is not much more.
fn read_head_tail(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    gap: Option<OutputGap>,
    max: usize,
    sink: &mut HeadTail,
) -> io::Result<()> {
    let mut lines = LineSplitter::new(DedupLines::new(sink as &mut dyn OutputSink));
    let head_to = from.saturating_add(HEAD_RAW_BYTES.max(max as u64));
    let tail_from = to.saturating_sub(TAIL_RAW_BYTES.max((max as u64).saturating_mul(4)));
    if tail_from <= head_to {
        chunks.for_each_chunk(from, to, |piece| lines.push_chunk(piece))?;
        return lines.finish().map(drop);
    }
    chunks.for_each_chunk(from, head_to, |piece| lines.push_chunk(piece))?;
    let tail_from = boundaries::next_line_start(chunks, tail_from)?;
    let mut at = head_to;
    if let Some(gap) = gap.filter(|gap| gap.from < tail_from && gap.to > at) {
        let (gone_from, gone_to) = (gap.from.max(at), gap.to.min(tail_from));
        skip_range(&mut lines, at, gone_from)?;
        // What the file system says is gone is read as such.
        chunks.for_each_chunk(gone_from, gone_to, |piece| lines.push_chunk(piece))?;
        at = gone_to;
    }
    skip_range(&mut lines, at, tail_from)?;
    chunks.for_each_chunk(tail_from, to, |piece| lines.push_chunk(piece))?;
    lines.finish().map(drop)
}

fn skip_range<S: OutputSink>(
    lines: &mut LineSplitter<S>,
    from: u64,
    to: u64,
) -> io::Result<SinkFlow> {
    if to > from { lines.skip_range(from, to) } else { Ok(SinkFlow::Continue) }
}

fn read_page(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    query: &OutputQuery,
    max: usize,
) -> io::Result<(String, u64, bool)> {
    let max = max.max(MIN_PAGE_BYTES);
    let mut page = Page::new(max, from);
    read_all(chunks, (from, to), FilterSink::new(&query.filter, &mut page))?;
    match page.finish(to) {
        Some(page) => Ok(page),
        None => page_of_long_line(chunks, from, max),
    }
}

/// Returns the beginning of a line that is longer than the page.
fn page_of_long_line(chunks: &Chunks, from: u64, max: usize) -> io::Result<(String, u64, bool)> {
    let mut bytes = vec![0; max];
    let count = chunks.fill_from(&mut bytes, from)?;
    // What has to be shown by other characters takes at most four times as much.
    for most in [count, count / 4] {
        let settled = boundaries::complete_len(&bytes[..most]);
        let used = if settled == 0 { most } else { settled };
        let text = render_output(&bytes[..used], RenderOptions { repeats: Fold::Count });
        let text = visible_text(&text).into_owned();
        if text.len() <= max {
            return Ok((text, from + used as u64, true));
        }
    }
    Ok((String::new(), from + count as u64, true))
}
