//! Text cut to a size: its beginning and its end, with a line between them that says what is
//! missing and how to get it.

use std::collections::VecDeque;
use std::io;

use siding_model::id::TaskId;
use siding_model::record::OutputGap;
use siding_model::text::{cut_head, cut_tail};

use super::chunks::Flow;
use super::lines::{Line, Sink};

/// Bytes set aside for the line about what is left out.
const MARKER_MAX: usize = 240;
/// Bytes of text that must be left beside that line to make it worth while.
const ROOM_MIN: usize = 80;

/// Smallest size at which a text that is cut says so in a line of its own.
pub const MARKED_MIN: usize = MARKER_MAX + ROOM_MIN;

/// What the text is made of, for the line about what is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Everything: what is left out can be named by its offsets.
    Stream(TaskId),
    /// Lines that were chosen.
    Chosen,
}

/// A part of the text behind the beginning.
#[derive(Debug)]
enum Part {
    Line { from: u64, to: u64, text: String },
    Gone(OutputGap),
    Skipped { from: u64, to: u64 },
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Self::Line { text, .. } => text.len(),
            // Each becomes a line of its own.
            Self::Gone(_) | Self::Skipped { .. } => MARKER_MAX,
        }
    }

    const fn span(&self) -> (u64, u64) {
        match self {
            Self::Line { from, to, .. } | Self::Skipped { from, to } => (*from, *to),
            Self::Gone(gap) => (gap.from, gap.to),
        }
    }
}

/// What was left out at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Missing {
    from: u64,
    to: u64,
    lines: u64,
    /// Bytes of it that are not kept at all.
    gone: u64,
}

/// Keeps the beginning and the end of a text. Holds little more than the maximum.
#[derive(Debug)]
pub(super) struct Ends {
    content: Content,
    max: usize,
    head_room: usize,
    tail_room: usize,
    head: String,
    head_open: bool,
    tail: VecDeque<Part>,
    tail_len: usize,
    missing: Option<Missing>,
    /// Whether anything, cut or gone, is not in the text.
    lacking: bool,
}

impl Ends {
    pub(super) fn new(content: Content, max: usize) -> Self {
        let room = max.checked_sub(MARKER_MAX).filter(|room| *room >= ROOM_MIN);
        // A quarter for the beginning, since a command says at its end how it went.
        let head_room = room.map_or(0, |room| room / 4);
        Self {
            content,
            max,
            head_room,
            tail_room: room.unwrap_or(max) - head_room,
            head: String::new(),
            head_open: true,
            tail: VecDeque::new(),
            tail_len: 0,
            missing: None,
            lacking: false,
        }
    }

    /// Returns the text, and whether it lacks something.
    pub(super) fn finish(self) -> (String, bool) {
        let Self { content, mut head, .. } = self;
        let shown = self.head_room > 0;
        let mut missing = self.missing;
        for part in self.tail {
            if let Part::Line { text, .. } = part {
                if let Some(missing) = missing.take().filter(|_| shown) {
                    add_line(&mut head, &missing.line(content));
                }
                head.push_str(&text);
            } else {
                missing.get_or_insert_default().add(&part);
            }
        }
        if let Some(missing) = missing.filter(|_| shown) {
            add_line(&mut head, &missing.line(content));
        }
        if head.len() > self.max {
            head = cut_tail(&head, self.max).to_owned();
        }
        (head, self.lacking)
    }

    fn push(&mut self, part: Part) {
        self.tail_len += part.len();
        self.tail.push_back(part);
        let most = match self.missing {
            None => self.max - self.head.len().min(self.max),
            Some(_) => self.tail_room,
        };
        if self.tail_len > most {
            self.shrink();
        }
    }

    /// Drops the oldest of the end until it has its size.
    fn shrink(&mut self) {
        self.lacking = true;
        while self.tail_len > self.tail_room {
            let Some(oldest) = self.tail.pop_front() else { return };
            self.tail_len -= oldest.len();
            let left = self.tail_room - self.tail_len.min(self.tail_room);
            match oldest {
                // A long line keeps its end: a short one is dropped whole.
                Part::Line { from, to, text } if left > self.tail_room / 4 => {
                    let kept = cut_tail(&text, left).to_owned();
                    let cut = to.saturating_sub(kept.len() as u64).max(from);
                    self.drop_part(&Part::Line { from, to: cut, text: String::new() });
                    self.tail_len += kept.len();
                    self.tail.push_front(Part::Line { from: cut, to, text: kept });
                    return;
                }
                Part::Line { .. } | Part::Gone(_) | Part::Skipped { .. } => {
                    self.drop_part(&oldest);
                }
            }
        }
    }

    fn drop_part(&mut self, part: &Part) {
        self.missing.get_or_insert_default().add(part);
    }
}

impl Sink for Ends {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        let Line { from, to, text, .. } = line;
        if !self.head_open {
            self.push(Part::Line { from, to, text: text.to_owned() });
            return Ok(Flow::On);
        }
        if self.head.len() + text.len() <= self.head_room {
            self.head.push_str(text);
            return Ok(Flow::On);
        }
        self.head_open = false;
        let left = self.head_room - self.head.len();
        // A long line begins in the head, a short one is not worth being cut.
        if left > self.head_room / 4 {
            let begin = cut_head(text, left);
            self.head.push_str(begin);
            let cut = (from + begin.len() as u64).min(to);
            self.push(Part::Line { from: cut, to, text: text[begin.len()..].to_owned() });
        } else {
            self.push(Part::Line { from, to, text: text.to_owned() });
        }
        Ok(Flow::On)
    }

    fn gone(&mut self, gap: OutputGap) -> io::Result<Flow> {
        self.head_open = false;
        self.lacking = true;
        self.push(Part::Gone(gap));
        Ok(Flow::On)
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<Flow> {
        self.head_open = false;
        self.lacking = true;
        self.push(Part::Skipped { from, to });
        Ok(Flow::On)
    }

    fn end(&mut self) -> io::Result<Flow> {
        Ok(Flow::On)
    }
}

impl Missing {
    fn add(&mut self, part: &Part) {
        let (from, to) = part.span();
        if *self == Self::default() {
            self.from = from;
        }
        self.to = to;
        match part {
            Part::Line { .. } => self.lines += 1,
            Part::Gone(gap) => self.gone += gap.len(),
            Part::Skipped { .. } => {}
        }
    }

    fn line(&self, content: Content) -> String {
        let Self { from, to, lines, gone } = *self;
        let bytes = to.saturating_sub(from);
        if gone == bytes {
            return gone_line(OutputGap { from, to });
        }
        match content {
            Content::Chosen => format!("… {lines} lines left out …"),
            Content::Stream(id) => {
                let gone = match gone {
                    0 => String::new(),
                    _ => format!(" {gone} of them are gone for good;"),
                };
                format!(
                    "… {bytes} bytes left out, from offset {from} to {to};{gone} \
                     `siding output {id} --since {from}` reads on from there …"
                )
            }
        }
    }
}

/// Returns the line that stands for output that is no longer kept.
pub(super) fn gone_line(gap: OutputGap) -> String {
    format!("… {} bytes are gone for good, from offset {} to {} …", gap.len(), gap.from, gap.to)
}

/// Adds a line of siding's own.
pub(super) fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
}
