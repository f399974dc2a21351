//! Text cut to a size: its beginning and its end, and between them a line that reports the omitted
//! part and, for a whole stream, how to read it if it is still stored. A very small size leaves
//! only the end.

use std::collections::VecDeque;
use std::io;

use siding_model::id::TaskId;
use siding_model::record::OutputGap;
use siding_model::size::size_in_words;
use siding_model::text::{cut_head, cut_tail};

use super::chunks::SinkFlow;
use super::lines::{Line, OutputSink};

/// Bytes reserved for the omission line.
const MAX_MARKER_BYTES: usize = 240;
/// Minimum number of bytes of text in addition to an omission line. If less text fits, the line is
/// dropped.
const MIN_TEXT_BYTES: usize = 80;

/// Smallest size limit at which cut text contains an omission line.
pub const MIN_MARKED_TEXT_BYTES: usize = MAX_MARKER_BYTES + MIN_TEXT_BYTES;

/// The source of the text, which determines the wording of the omission line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextSource {
    /// The whole stream, so that the omission line names the offsets.
    Stream(TaskId),
    /// Filtered lines, so that the omission line counts lines.
    FilteredLines,
}

/// A part of the text after the head.
#[derive(Debug)]
enum TailPart {
    Line { from: u64, to: u64, text: String },
    Hole(OutputGap),
    Skipped { from: u64, to: u64 },
}

impl TailPart {
    fn len(&self) -> usize {
        match self {
            Self::Line { text, .. } => text.len(),
            // In the text, a marker line replaces this part.
            Self::Hole(_) | Self::Skipped { .. } => MAX_MARKER_BYTES,
        }
    }

    const fn span(&self) -> (u64, u64) {
        match self {
            Self::Line { from, to, .. } | Self::Skipped { from, to } => (*from, *to),
            Self::Hole(gap) => (gap.from, gap.to),
        }
    }
}

/// The omitted range, and the numbers that the omission line reports about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Omission {
    from: u64,
    to: u64,
    lines: u64,
    /// Bytes of the range whose disk space was released.
    released_bytes: u64,
}

/// Collects the beginning and the end of a text, holding little more than `max` bytes.
#[derive(Debug)]
pub(super) struct HeadTail {
    content: TextSource,
    max: usize,
    head_max: usize,
    tail_max: usize,
    head: String,
    head_open: bool,
    tail: VecDeque<TailPart>,
    tail_len: usize,
    missing: Option<Omission>,
    /// Whether the text is incomplete, because parts were cut, skipped or released.
    truncated: bool,
}

impl HeadTail {
    pub(super) fn new(content: TextSource, max: usize) -> Self {
        let room = max.checked_sub(MAX_MARKER_BYTES).filter(|room| *room >= MIN_TEXT_BYTES);
        // Only a quarter is for the beginning, because most commands report their result at the
        // end.
        let head_room = room.map_or(0, |room| room / 4);
        Self {
            content,
            max,
            head_max: head_room,
            tail_max: room.unwrap_or(max) - head_room,
            head: String::new(),
            head_open: true,
            tail: VecDeque::new(),
            tail_len: 0,
            missing: None,
            truncated: false,
        }
    }

    /// Returns the text, and whether it is incomplete.
    pub(super) fn finish(self) -> (String, bool) {
        let Self { content, mut head, .. } = self;
        let shown = self.head_max > 0;
        let mut missing = self.missing;
        for part in self.tail {
            if let TailPart::Line { text, .. } = part {
                if let Some(missing) = missing.take().filter(|_| shown) {
                    push_own_line(&mut head, &missing.marker_line(content));
                }
                head.push_str(&text);
            } else {
                missing.get_or_insert_default().add(&part);
            }
        }
        if let Some(missing) = missing.filter(|_| shown) {
            push_own_line(&mut head, &missing.marker_line(content));
        }
        if head.len() > self.max {
            head = cut_tail(&head, self.max).to_owned();
        }
        (head, self.truncated)
    }

    fn push(&mut self, part: TailPart) {
        self.tail_len += part.len();
        self.tail.push_back(part);
        let most = match self.missing {
            None => self.max - self.head.len().min(self.max),
            Some(_) => self.tail_max,
        };
        if self.tail_len > most {
            self.trim_tail();
        }
    }

    /// Drops the oldest parts of the tail until the tail fits its limit.
    fn trim_tail(&mut self) {
        self.truncated = true;
        while self.tail_len > self.tail_max {
            let Some(oldest) = self.tail.pop_front() else { return };
            self.tail_len -= oldest.len();
            let left = self.tail_max - self.tail_len.min(self.tail_max);
            match oldest {
                // The end of the line is kept if it can fill more than a quarter of the tail;
                // otherwise the whole line is dropped.
                TailPart::Line { from, to, text } if left > self.tail_max / 4 => {
                    let kept = cut_tail(&text, left).to_owned();
                    let cut = to.saturating_sub(kept.len() as u64).max(from);
                    self.omit_part(&TailPart::Line { from, to: cut, text: String::new() });
                    self.tail_len += kept.len();
                    self.tail.push_front(TailPart::Line { from: cut, to, text: kept });
                    return;
                }
                TailPart::Line { .. } | TailPart::Hole(_) | TailPart::Skipped { .. } => {
                    self.omit_part(&oldest);
                }
            }
        }
    }

    fn omit_part(&mut self, part: &TailPart) {
        self.missing.get_or_insert_default().add(part);
    }
}

impl OutputSink for HeadTail {
    fn line(&mut self, line: Line<'_>) -> io::Result<SinkFlow> {
        let Line { from, to, text, .. } = line;
        if !self.head_open {
            self.push(TailPart::Line { from, to, text: text.to_owned() });
            return Ok(SinkFlow::Continue);
        }
        if self.head.len() + text.len() <= self.head_max {
            self.head.push_str(text);
            return Ok(SinkFlow::Continue);
        }
        self.head_open = false;
        let left = self.head_max - self.head.len();
        // The line is cut to fill the head if more than a quarter of the head is free; otherwise
        // the whole line moves to the tail.
        if left > self.head_max / 4 {
            let begin = cut_head(text, left);
            self.head.push_str(begin);
            let cut = (from + begin.len() as u64).min(to);
            self.push(TailPart::Line { from: cut, to, text: text[begin.len()..].to_owned() });
        } else {
            self.push(TailPart::Line { from, to, text: text.to_owned() });
        }
        Ok(SinkFlow::Continue)
    }

    fn gap(&mut self, gap: OutputGap) -> io::Result<SinkFlow> {
        self.head_open = false;
        self.truncated = true;
        self.push(TailPart::Hole(gap));
        Ok(SinkFlow::Continue)
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<SinkFlow> {
        self.head_open = false;
        self.truncated = true;
        self.push(TailPart::Skipped { from, to });
        Ok(SinkFlow::Continue)
    }

    fn end_partial_line(&mut self) -> io::Result<SinkFlow> {
        Ok(SinkFlow::Continue)
    }
}

impl Omission {
    fn add(&mut self, part: &TailPart) {
        let (from, to) = part.span();
        if *self == Self::default() {
            self.from = from;
        }
        self.to = to;
        match part {
            TailPart::Line { .. } => self.lines += 1,
            TailPart::Hole(gap) => self.released_bytes += gap.len(),
            TailPart::Skipped { .. } => {}
        }
    }

    fn marker_line(&self, content: TextSource) -> String {
        let Self { from, to, lines, released_bytes: gone } = *self;
        let bytes = to.saturating_sub(from);
        if gone == bytes {
            return gap_line(OutputGap { from, to });
        }
        match content {
            TextSource::FilteredLines if lines == 1 => "… 1 line left out …".to_owned(),
            TextSource::FilteredLines => format!("… {lines} lines left out …"),
            TextSource::Stream(id) => {
                let gone = match gone {
                    0 => String::new(),
                    _ => format!(" {} of it no longer stored;", size_in_words(gone)),
                };
                let size = size_in_words(bytes);
                format!(
                    "… {size} left out, from offset {from} to {to};{gone} \
                     `siding output {id} --since {from}` continues from there …"
                )
            }
        }
    }
}

/// Formats the line that replaces released output.
pub(super) fn gap_line(gap: OutputGap) -> String {
    let size = size_in_words(gap.len());
    format!("… {size} no longer stored, from offset {} to {} …", gap.from, gap.to)
}

/// Appends a line of siding's own to the text, on a new line.
pub(super) fn push_own_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
}
