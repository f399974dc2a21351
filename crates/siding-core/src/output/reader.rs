//! Reads a task's output as text.

use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{RenderOptions, RepeatMode as Fold, render_output};

use super::boundaries;
use super::chunks::{Chunks, SinkFlow};
use super::dedup_lines::DedupLines;
use super::head_tail::{HeadTail, TextSource};
use super::line_filter::{FilterSink, LastLinesSink, LineFilter};
use super::lines::{ColorHandling, LineSplitter, OutputSink, visible_text};
use super::page::Page;
use super::size::find_gap;
use super::writer_sink::WriterSink;
use crate::store::TaskDir;

/// Minimum number of raw bytes read for the beginning of cut text. Rendering shrinks progress bars
/// a hundredfold, so more is read than the text can hold.
const HEAD_RAW_BYTES: u64 = 256 << 10;
/// Minimum number of raw bytes read for the end of cut text.
const TAIL_RAW_BYTES: u64 = 1 << 20;
/// Number of raw bytes read to find the last line. A progress bar rewrites its line many times.
const LAST_LINE_RAW_BYTES: u64 = 16 << 10;

/// Smallest [`TextLimit::Page`], in bytes. From this size on, every page advances the offset.
pub const MIN_PAGE_BYTES: usize = 64;

/// The size of the text to return, and the part of a longer output that is omitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextLimit {
    /// At most this many bytes: the beginning and the end, with an omission line between them.
    HeadTail(usize),
    /// At most this many bytes, but at least [`MIN_PAGE_BYTES`]: the beginning;
    /// [`ReadSummary::next`] is the start of the next page.
    Page(usize),
    /// No limit: the whole text is passed on.
    Unlimited,
}

/// Whether the stream may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// The task may write more, so an incomplete character or escape sequence at the end is left to
    /// the next read.
    Growing,
    /// The stream is complete, so an incomplete character or escape sequence at its end is
    /// rendered.
    Finished,
}

/// Selects a part of a task's output.
#[derive(Debug, Clone)]
pub struct OutputQuery {
    /// Stream offset at which to start.
    pub from: u64,
    /// Selects lines before `last_lines` and `limit` apply.
    pub filter: LineFilter,
    /// Number of the selected lines to return, counted from the end; `None` for all lines.
    pub last_lines: Option<usize>,
    /// The limit on the returned text.
    pub limit: TextLimit,
}

/// The range of the output that a read covered, and whether the text lacks a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadSummary {
    /// Offset in the output at which the read started, in bytes.
    pub from: u64,
    /// Offset at which the next read must start.
    pub next: u64,
    /// Length of the whole output at the time of the read, in bytes.
    pub bytes: u64,
    /// The range of the output whose disk space was released; `None` if nothing was released.
    pub gap: Option<OutputGap>,
    /// Whether the text lacks a part that the query selects, because this part was cut or released.
    pub truncated: bool,
}

/// Rendered text of a task's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// The text; its beginning and end if it was cut.
    pub text: String,
    /// Whether parts of the output are missing, because they were cut or released.
    pub truncated: bool,
}

/// Returns the output of a task as rendered text of at most `max_bytes`.
///
/// Reads only the beginning and the end of a large output. If `max_bytes` is at least
/// [`MIN_MARKED_TEXT_BYTES`](super::MIN_MARKED_TEXT_BYTES), a line in place of the omitted part
/// names the part's offsets and, unless the part was released, the command that shows it.
///
/// # Errors
///
/// The I/O error of the system call. A task without output yields an empty text.
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

/// Passes the selected part of a task's output to `out`, as rendered text.
///
/// With [`TextLimit::Unlimited`] the text is passed in pieces. Only the current line is held or,
/// with a filter and `last_lines`, the last selected lines.
///
/// # Errors
///
/// The I/O error of the system call, or of `out`. A task without output yields an empty text.
pub fn read(
    dir: &TaskDir,
    keep_head: u64,
    stream: StreamState,
    query: &OutputQuery,
    out: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<ReadSummary> {
    read_with_colors(dir, (keep_head, stream), query, ColorHandling::Removed, out)
}

/// Like [`read`], with `keep_head` and `stream` as one argument, for a caller that may want colors.
/// A filter would also see the encoded colors, so a query with a filter must not keep them.
///
/// # Errors
///
/// The errors of [`read`].
pub fn read_with_colors(
    dir: &TaskDir,
    (keep_head, stream): (u64, StreamState),
    query: &OutputQuery,
    colors: ColorHandling,
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
                read_filtered(&mut chunks, (from, to), query, colors, &mut ends)?;
            } else {
                read_head_tail(&mut chunks, (from, to), gap, (max, colors), &mut ends)?;
            }
            let (text, truncated) = ends.finish();
            out(&text)?;
            Ok(ReadSummary { truncated, ..reading })
        }
        TextLimit::Page(max) => {
            let (text, next, truncated) = read_page(&mut chunks, (from, to), query, (max, colors))?;
            out(&text)?;
            Ok(ReadSummary { next, truncated, ..reading })
        }
        TextLimit::Unlimited => {
            let mut pour = WriterSink::new(out);
            read_filtered(&mut chunks, (from, to), query, colors, &mut pour)?;
            Ok(ReadSummary { truncated: pour.truncated, ..reading })
        }
    }
}

/// Returns the last line of a task's output that is not blank, as rendered text. Reads only the last
/// `LAST_LINE_RAW_BYTES`, so the beginning of a longer line is missing.
///
/// # Errors
///
/// The I/O error of the system call. A task without output yields an empty text.
pub fn last_line(dir: &TaskDir) -> io::Result<String> {
    let Some(mut chunks) = Chunks::open(dir)? else { return Ok(String::new()) };
    let to = boundaries::complete_text_end(&chunks, chunks.len()?)?;
    let from = to.saturating_sub(LAST_LINE_RAW_BYTES);
    let mut text = String::new();
    let sink = WriterSink::new(|part: &str| {
        text.push_str(part);
        Ok(())
    });
    // Repetitions are not counted, because the count would take the place of the last line.
    read_all(&mut chunks, (from, to), ColorHandling::Removed, sink)?;
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Ok(last.unwrap_or_default().trim_end().to_owned())
}

/// Returns the offset at which the last `count` lines start. The offset is at least `from`, or the
/// end of the output if that is smaller, and never before the end of a gap after which there is
/// output.
///
/// # Errors
///
/// The I/O error of the system call.
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

/// Returns the offset after the gap; 0 if there is no gap or no output after it.
fn gap_end(gap: Option<OutputGap>, to: u64) -> u64 {
    gap.filter(|gap| gap.to < to).map_or(0, |gap| gap.to)
}

/// Passes the selected lines between two offsets to a sink, with repetitions counted.
fn read_filtered(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    query: &OutputQuery,
    colors: ColorHandling,
    sink: &mut dyn OutputSink,
) -> io::Result<()> {
    let repeats = DedupLines::new(sink);
    // Without a filter the caller has already computed the offset of the last lines.
    let last = query.last_lines.filter(|_| !matches!(query.filter, LineFilter::Everything));
    match last {
        Some(last) => read_all(
            chunks,
            (from, to),
            colors,
            FilterSink::new(&query.filter, LastLinesSink::new(last, repeats)),
        ),
        None => read_all(chunks, (from, to), colors, FilterSink::new(&query.filter, repeats)),
    }
}

fn read_all(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    colors: ColorHandling,
    sink: impl OutputSink,
) -> io::Result<()> {
    let mut lines = LineSplitter::with_colors(sink, colors);
    match chunks.for_each_chunk(from, to, |piece| lines.push_chunk(piece))? {
        SinkFlow::Continue => lines.finish().map(drop),
        // A flush would pass another line to a sink that has returned `Stop`.
        SinkFlow::Stop => Ok(()),
    }
}

/// Reads the beginning and the end of a range, or the whole range if these two parts cover it.
fn read_head_tail(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    gap: Option<OutputGap>,
    (max, colors): (usize, ColorHandling),
    sink: &mut HeadTail,
) -> io::Result<()> {
    let sink = DedupLines::new(sink as &mut dyn OutputSink);
    let mut lines = LineSplitter::with_colors(sink, colors);
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
        // Only the file system knows which blocks of the gap were really released.
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
    (max, colors): (usize, ColorHandling),
) -> io::Result<(String, u64, bool)> {
    let max = max.max(MIN_PAGE_BYTES);
    let mut page = Page::new(max, from);
    read_all(chunks, (from, to), colors, FilterSink::new(&query.filter, &mut page))?;
    match page.finish(to) {
        Some(page) => Ok(page),
        None => page_of_long_line(chunks, from, max),
    }
}

/// Returns the beginning of a line that exceeds the page.
fn page_of_long_line(chunks: &Chunks, from: u64, max: usize) -> io::Result<(String, u64, bool)> {
    let mut bytes = vec![0; max];
    let count = chunks.fill_from(&mut bytes, from)?;
    // Escaping makes a character at most four times as long, so a quarter of the bytes always fits.
    for most in [count, count / 4] {
        let settled = boundaries::complete_len(&bytes[..most]);
        let used = if settled == 0 { most } else { settled };
        let text = render_output(
            &bytes[..used],
            RenderOptions { repeats: Fold::Count, ..RenderOptions::default() },
        );
        let text = visible_text(&text).into_owned();
        if text.len() <= max {
            return Ok((text, from + used as u64, true));
        }
    }
    Ok((String::new(), from + count as u64, true))
}
