//! One look at a task's output.

use std::io;

use siding_model::record::OutputGap;
use siding_model::text::{RenderOptions, RepeatMode as Fold, render_output};

use super::chunks::{Chunks, Flow};
use super::ends::{Content, Ends};
use super::extent::gap_of;
use super::lines::{Lines, Sink, shown};
use super::page::Page;
use super::places;
use super::pour::Pour;
use super::repeats::Repeats;
use super::select::{Choose, Last, Select};
use crate::store::TaskDir;

/// Raw bytes that are read for the beginning of a text that is cut. Progress bars shrink a
/// hundredfold, so this is more than what is shown.
const HEAD_RAW: u64 = 256 << 10;
/// Raw bytes that are read for its end.
const TAIL_RAW: u64 = 1 << 20;

/// Smallest text that [`Size::Page`] makes, so that it always goes on.
pub const PAGE_MIN: usize = 64;

/// How much text is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// At most this many bytes: the beginning and the end, with a line between them about what is
    /// left out.
    Ends(usize),
    /// At most this many bytes, or [`PAGE_MIN`]: the beginning, to be read on from where it ends.
    Page(usize),
    /// All of it.
    Whole,
}

/// Whether more may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The task may write more: a character or escape sequence that is not complete is left for
    /// the next look.
    Growing,
    /// This is all.
    Finished,
}

/// What is wanted of a task's output.
#[derive(Debug, Clone)]
pub struct Query {
    /// Offset to begin at.
    pub from: u64,
    /// Which lines.
    pub choose: Choose,
    /// Only this many at the end of them.
    pub last: Option<usize>,
    /// How much text.
    pub size: Size,
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
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
    let query =
        Query { from: 0, choose: Choose::Everything, last: None, size: Size::Ends(max_bytes) };
    let mut text = String::new();
    let reading = read(dir, keep_head, Stream::Finished, &query, |part| {
        text.push_str(part);
        Ok(())
    })?;
    Ok(Excerpt { text, truncated: reading.truncated })
}

/// Gives `out` what is wanted of a task's output, as readable text.
///
/// With [`Size::Whole`] it comes in pieces and nothing is held but the line being read.
///
/// # Errors
///
/// The operating system's, and those of `out`. A task without output has an empty text.
pub fn read(
    dir: &TaskDir,
    keep_head: u64,
    stream: Stream,
    query: &Query,
    mut out: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<Reading> {
    let Some(mut chunks) = Chunks::open(dir)? else {
        let from = query.from;
        return Ok(Reading { from, next: from, bytes: 0, gap: None, truncated: false });
    };
    let bytes = chunks.len()?;
    let gap = gap_of(chunks.file(), bytes, keep_head);
    let to = match stream {
        Stream::Growing => places::settled_end(&chunks, bytes)?,
        Stream::Finished => bytes,
    };
    let mut from = query.from.min(to);
    if let (Some(last), Choose::Everything) = (query.last, &query.choose) {
        from = places::last_lines(&chunks, from.max(floor(gap, to)), to, last)?;
    }
    let reading = Reading { from, next: to, bytes, gap, truncated: false };
    match query.size {
        Size::Ends(max) => {
            let content = match query.choose {
                Choose::Everything => Content::Stream(dir.id()),
                Choose::Matching(_) | Choose::Errors => Content::Chosen,
            };
            let mut ends = Ends::new(content, max);
            if content == Content::Chosen {
                choose(&mut chunks, (from, to), query, &mut ends)?;
            } else {
                read_ends(&mut chunks, (from, to), gap, max, &mut ends)?;
            }
            let (text, truncated) = ends.finish();
            out(&text)?;
            Ok(Reading { truncated, ..reading })
        }
        Size::Page(max) => {
            let (text, next, truncated) = read_page(&mut chunks, (from, to), query, max)?;
            out(&text)?;
            Ok(Reading { next, truncated, ..reading })
        }
        Size::Whole => {
            let mut pour = Pour::new(out);
            choose(&mut chunks, (from, to), query, &mut pour)?;
            Ok(Reading { truncated: pour.lacking, ..reading })
        }
    }
}

/// Returns the offset at which the last lines begin, not before `from` and not before the gap.
///
/// # Errors
///
/// The operating system's.
pub fn last_lines(dir: &TaskDir, keep_head: u64, from: u64, count: usize) -> io::Result<u64> {
    let Some(chunks) = Chunks::open(dir)? else { return Ok(from) };
    let to = chunks.len()?;
    let gap = gap_of(chunks.file(), to, keep_head);
    places::last_lines(&chunks, from.min(to).max(floor(gap, to)), to, count)
}

/// Returns where the part behind the gap begins, if there is one.
fn floor(gap: Option<OutputGap>, to: u64) -> u64 {
    gap.filter(|gap| gap.to < to).map_or(0, |gap| gap.to)
}

/// Passes the chosen lines between two offsets to a sink, repeated ones counted.
fn choose(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    query: &Query,
    sink: &mut dyn Sink,
) -> io::Result<()> {
    let repeats = Repeats::new(sink);
    // Without a choice the place of the last lines is known already.
    let last = query.last.filter(|_| !matches!(query.choose, Choose::Everything));
    match last {
        Some(last) => all(chunks, (from, to), Select::new(&query.choose, Last::new(last, repeats))),
        None => all(chunks, (from, to), Select::new(&query.choose, repeats)),
    }
}

fn all(chunks: &mut Chunks, (from, to): (u64, u64), sink: impl Sink) -> io::Result<()> {
    let mut lines = Lines::new(sink);
    match chunks.each(from, to, |piece| lines.piece(piece))? {
        Flow::On => lines.finish().map(drop),
        // What is held belongs behind what was refused.
        Flow::Enough => Ok(()),
    }
}

/// Reads the beginning and the end of a part, or all of it if that is not much more.
fn read_ends(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    gap: Option<OutputGap>,
    max: usize,
    sink: &mut Ends,
) -> io::Result<()> {
    let mut lines = Lines::new(Repeats::new(sink as &mut dyn Sink));
    let head_to = from.saturating_add(HEAD_RAW.max(max as u64));
    let tail_from = to.saturating_sub(TAIL_RAW.max((max as u64).saturating_mul(4)));
    if tail_from <= head_to {
        chunks.each(from, to, |piece| lines.piece(piece))?;
        return lines.finish().map(drop);
    }
    chunks.each(from, head_to, |piece| lines.piece(piece))?;
    let tail_from = places::line_start(chunks, tail_from)?;
    let mut at = head_to;
    if let Some(gap) = gap.filter(|gap| gap.from < tail_from && gap.to > at) {
        let (gone_from, gone_to) = (gap.from.max(at), gap.to.min(tail_from));
        skip(&mut lines, at, gone_from)?;
        // What the file system says is gone is read as such.
        chunks.each(gone_from, gone_to, |piece| lines.piece(piece))?;
        at = gone_to;
    }
    skip(&mut lines, at, tail_from)?;
    chunks.each(tail_from, to, |piece| lines.piece(piece))?;
    lines.finish().map(drop)
}

fn skip<S: Sink>(lines: &mut Lines<S>, from: u64, to: u64) -> io::Result<Flow> {
    if to > from { lines.skip(from, to) } else { Ok(Flow::On) }
}

fn read_page(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    query: &Query,
    max: usize,
) -> io::Result<(String, u64, bool)> {
    let max = max.max(PAGE_MIN);
    let mut page = Page::new(max, from);
    all(chunks, (from, to), Select::new(&query.choose, &mut page))?;
    match page.finish(to) {
        Some(page) => Ok(page),
        None => piece_of_line(chunks, from, max),
    }
}

/// Returns the beginning of a line that is longer than the page.
fn piece_of_line(chunks: &Chunks, from: u64, max: usize) -> io::Result<(String, u64, bool)> {
    let mut bytes = vec![0; max];
    let count = chunks.fill(&mut bytes, from)?;
    // What has to be shown by other characters takes at most four times as much.
    for most in [count, count / 4] {
        let settled = places::settled(&bytes[..most]);
        let used = if settled == 0 { most } else { settled };
        let text = render_output(&bytes[..used], RenderOptions { repeats: Fold::Count });
        let text = shown(&text).into_owned();
        if text.len() <= max {
            return Ok((text, from + used as u64, true));
        }
    }
    Ok((String::new(), from + count as u64, true))
}
