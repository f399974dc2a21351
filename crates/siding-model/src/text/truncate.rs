//! Truncation of text to a size in bytes, always between characters.

use std::borrow::Cow;

use crate::size::size_in_words;

/// Minimum number of bytes for head and tail together. With less space, only a tail without a
/// marker is shown.
const MIN_HEAD_TAIL_BYTES: usize = 16;

/// Returns the longest prefix of `text` with at most `max_bytes`.
#[must_use]
pub fn cut_head(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Returns the longest suffix of `text` with at most `max_bytes`.
#[must_use]
pub fn cut_tail(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}

/// Returns the marker line for `bytes` omitted bytes, with its newline.
#[must_use]
pub fn omitted_marker(bytes: u64) -> String {
    format!("… {} left out …\n", size_in_words(bytes))
}

/// Returns `text`, or its head and its tail around an [`omitted_marker`], in at most `max_bytes`.
///
/// The head gets a quarter of the space, because a command reports its result at the end. An
/// incomplete line at a cut is dropped, unless it is more than a quarter of the head or tail. When
/// little more than the marker would fit, only a tail is returned.
#[must_use]
pub fn head_and_tail(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    let Some(room) = HeadTailSizes::new(max_bytes) else {
        return Cow::Borrowed(cut_tail(text, max_bytes));
    };
    let head = whole_lines_head(cut_head(text, room.head));
    let tail = whole_lines_tail(cut_tail(text, room.tail));
    Cow::Owned(join_head_tail(head, tail, (text.len() - head.len() - tail.len()) as u64))
}

/// The sizes of head and tail, in bytes.
#[derive(Debug, Clone, Copy)]
struct HeadTailSizes {
    head: usize,
    tail: usize,
}

impl HeadTailSizes {
    /// Divides `max_bytes` between head, marker and tail. Returns `None` when little more than the
    /// marker would fit.
    fn new(max_bytes: usize) -> Option<Self> {
        // No size in words is longer than that of 1023 bytes. A newline may have to precede the
        // marker.
        let marker = omitted_marker(1023).len() + 1;
        let room = max_bytes.checked_sub(marker).filter(|room| *room >= MIN_HEAD_TAIL_BYTES)?;
        Some(Self { head: room / 4, tail: room - room / 4 })
    }
}

fn join_head_tail(head: &str, tail: &str, bytes: u64) -> String {
    let newline = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{newline}{}{tail}", omitted_marker(bytes))
}

/// Drops an incomplete last line, unless it is more than a quarter of the text.
fn whole_lines_head(head: &str) -> &str {
    match head.rfind('\n') {
        Some(newline) if head.len() - newline - 1 <= head.len() / 4 => &head[..=newline],
        _ => head,
    }
}

/// Drops an incomplete first line, unless it is more than a quarter of the text.
fn whole_lines_tail(tail: &str) -> &str {
    match tail.find('\n') {
        Some(newline) if newline < tail.len() / 4 => &tail[newline + 1..],
        _ => tail,
    }
}

/// The streaming form of [`head_and_tail`], for text that may be larger than memory.
///
/// The buffer holds at most three times the maximum.
#[derive(Debug)]
pub struct HeadAndTail {
    max_bytes: usize,
    room: HeadTailSizes,
    /// The beginning of the text. `head` holds up to the maximum, so that a text that fits is
    /// complete.
    pub(super) head: String,
    /// The end of the text after `head`.
    pub(super) tail: String,
    total: u64,
}

impl HeadAndTail {
    /// Creates an empty buffer whose result has at most `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        let room =
            HeadTailSizes::new(max_bytes).unwrap_or(HeadTailSizes { head: 0, tail: max_bytes });
        Self { max_bytes, room, head: String::new(), tail: String::new(), total: 0 }
    }

    /// Appends the next piece of the text.
    pub fn push(&mut self, text: &str) {
        let whole_so_far = self.total == self.head.len() as u64;
        self.total = self.total.saturating_add(text.len() as u64);
        let fits = if whole_so_far { self.max_bytes - self.head.len() } else { 0 };
        let to_head = cut_head(text, fits);
        self.head.push_str(to_head);
        let to_tail = &text[to_head.len()..];
        let end = cut_tail(to_tail, self.room.tail);
        if end.len() < to_tail.len() {
            self.tail.clear();
        }
        self.tail.push_str(end);
        // The tail is trimmed only when it exceeds twice the needed size, so that the average cost
        // for each byte is constant.
        if self.tail.len() > 2 * self.room.tail {
            let keep = cut_tail(&self.tail, self.room.tail).len();
            self.tail.drain(..self.tail.len() - keep);
        }
    }

    /// Returns the number of bytes that were added.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns whether the result omits a part of the text.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.total > self.max_bytes as u64
    }

    /// Returns the whole text, or its head and tail around a marker.
    #[must_use]
    pub fn finish(self) -> String {
        if !self.is_cut() {
            return self.head + &self.tail;
        }
        let nothing_dropped = self.total == (self.head.len() + self.tail.len()) as u64;
        let before = match self.room.tail.checked_sub(self.tail.len()) {
            Some(more) if nothing_dropped => cut_tail(&self.head, more),
            _ => "",
        };
        let tail = format!("{before}{}", cut_tail(&self.tail, self.room.tail));
        if self.room.head == 0 {
            return tail;
        }
        let head = whole_lines_head(cut_head(&self.head, self.room.head));
        let tail = whole_lines_tail(&tail);
        join_head_tail(head, tail, self.total - (head.len() + tail.len()) as u64)
    }
}
