//! A part of a file, as a model reads it: each line behind its number.
//!
//! Takes bytes as they come and holds at most one line of them. What cannot be shown is said, never
//! left out in silence.

use std::fmt::Write as _;

/// Bytes of a line that are shown.
pub(super) const LINE_MAX: usize = 2_000;
/// Bytes of text that are shown, line numbers included.
pub(super) const TEXT_MAX: usize = 64 << 10;

/// Takes a file and keeps the lines that are wanted.
#[derive(Debug)]
pub(super) struct Excerpt {
    first: u64,
    most: u64,
    page: Page,
    /// Lines that have ended.
    lines: u64,
    /// The beginning of the line that has not, with one byte more than is shown.
    held: Vec<u8>,
    /// Bytes of that line.
    length: u64,
    /// Whether no more lines are kept.
    is_full: bool,
}

/// What was kept of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The lines, each behind its number and a tab.
    pub(super) text: String,
    /// How many there are in it.
    pub(super) shown: u64,
    /// Whether they were cut off by the size of the text.
    pub(super) is_cut: bool,
    /// Whether lines of it end in CR LF.
    pub(super) has_crlf: bool,
    /// Whether bytes of it are shown as `\xNN`.
    pub(super) has_bytes: bool,
    /// Whether the last of its lines is that of the file and has no newline.
    pub(super) is_unterminated: bool,
}

impl Excerpt {
    /// Wants `most` lines from the one of the number `first` on; lines count from 1.
    pub(super) fn new(first: u64, most: u64) -> Self {
        Self {
            first: first.max(1),
            most,
            page: Page::default(),
            lines: 0,
            held: Vec::new(),
            length: 0,
            is_full: most == 0,
        }
    }

    /// Takes the next bytes of the file.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(at) = bytes.iter().position(|&byte| byte == b'\n') {
            self.hold(&bytes[..at]);
            self.end_line(true);
            bytes = &bytes[at + 1..];
        }
        self.hold(bytes);
    }

    /// Whether all that is wanted was seen, and that there is more behind it.
    pub(super) const fn has_more(&self) -> bool {
        self.is_full && (self.lines >= self.first + self.page.shown || self.length > 0)
    }

    /// Returns what was kept and how many lines were seen, at the end of the file or before.
    pub(super) fn finish(mut self) -> (Page, u64) {
        if self.length > 0 {
            self.end_line(false);
        }
        (self.page, self.lines)
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let room = (LINE_MAX + 1).saturating_sub(self.held.len());
        if !self.is_full && self.lines + 1 >= self.first {
            self.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn end_line(&mut self, is_terminated: bool) {
        self.lines += 1;
        if !self.is_full && self.lines >= self.first {
            self.keep(is_terminated);
        }
        self.held.clear();
        self.length = 0;
    }

    fn keep(&mut self, is_terminated: bool) {
        let mut line = self.held.as_slice();
        let mut length = self.length;
        let has_crlf = is_terminated && line.len() as u64 == length && line.ends_with(b"\r");
        if has_crlf {
            line = &line[..line.len() - 1];
            length -= 1;
        }
        let head = head(line);
        let before = self.page.text.len();
        let _in_memory = write!(self.page.text, "{}\t", self.lines);
        let has_bytes = show(head, &mut self.page.text);
        let hidden = length - head.len() as u64;
        if hidden > 0 {
            let _in_memory = write!(self.page.text, " [… {hidden} more bytes in this line]");
        }
        self.page.text.push('\n');
        if self.page.text.len() > TEXT_MAX {
            self.page.text.truncate(before);
            self.page.is_cut = true;
            self.is_full = true;
            return;
        }
        self.page.shown += 1;
        self.page.has_crlf |= has_crlf;
        self.page.has_bytes |= has_bytes;
        self.page.is_unterminated = !is_terminated;
        self.is_full = self.page.shown == self.most;
    }
}

/// Returns the part of a line that is shown: no character is cut.
fn head(line: &[u8]) -> &[u8] {
    if line.len() <= LINE_MAX {
        return line;
    }
    let is_start = |at: &usize| line[*at] & 0xc0 != 0x80;
    // A character has four bytes at most; what is none is cut anywhere.
    let end = (LINE_MAX - 3..=LINE_MAX).rev().find(is_start).unwrap_or(LINE_MAX);
    &line[..end]
}

/// Appends bytes as text, those that are none as `\xNN`. Whether there were any.
fn show(bytes: &[u8], text: &mut String) -> bool {
    let mut has_bytes = false;
    for chunk in bytes.utf8_chunks() {
        for part in chunk.valid().split_inclusive('\0') {
            text.push_str(part.trim_end_matches('\0'));
            if part.ends_with('\0') {
                text.push_str("\\x00");
                has_bytes = true;
            }
        }
        for byte in chunk.invalid() {
            let _in_memory = write!(text, "\\x{byte:02x}");
            has_bytes = true;
        }
    }
    has_bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(content: &[u8], first: u64, most: u64) -> (Page, u64) {
        let mut excerpt = Excerpt::new(first, most);
        excerpt.feed(content);
        excerpt.finish()
    }

    #[test]
    fn each_line_is_behind_its_number() {
        let (page, lines) = page(b"one\n\n\tthree\nfour", 1, 100);
        assert_eq!(page.text, "1\tone\n2\t\n3\t\tthree\n4\tfour\n");
        assert_eq!((page.shown, lines, page.is_unterminated), (4, 4, true));
        let (page, lines) = self::page(b"one\ntwo\nthree\n", 2, 1);
        assert_eq!((page.text.as_str(), page.shown, lines), ("2\ttwo\n", 1, 3));
        assert!(!page.is_unterminated);
        assert_eq!(self::page(b"", 1, 10), (Page::default(), 0));
        assert_eq!(self::page(b"\n", 1, 10).0.text, "1\t\n");
    }

    #[test]
    fn more_is_told_only_of_what_was_seen_behind() {
        let mut excerpt = Excerpt::new(1, 2);
        excerpt.feed(b"one\ntwo");
        assert!(!excerpt.has_more());
        excerpt.feed(b"\n");
        assert!(!excerpt.has_more(), "the file may end here");
        excerpt.feed(b"t");
        assert!(excerpt.has_more());
        assert_eq!(excerpt.finish().0.text, "1\tone\n2\ttwo\n");
        let mut empty_line = Excerpt::new(1, 1);
        empty_line.feed(b"one\n\n");
        assert!(empty_line.has_more());
    }

    #[test]
    fn what_is_no_text_is_shown_as_numbers() {
        let (page, _) = page(b"caf\xe9\r\n\xff\0x\xe2\x82\n", 1, 10);
        assert_eq!(page.text, "1\tcaf\\xe9\n2\t\\xff\\x00x\\xe2\\x82\n");
        assert!(page.has_bytes && page.has_crlf);
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_says_so() {
        for shift in 0..4 {
            let mut line = "a".repeat(shift) + &"€😀".repeat(1_000);
            let length = line.len();
            line.push('\n');
            let (page, _) = page(line.as_bytes(), 1, 10);
            let shown = page.text.strip_prefix("1\t").unwrap().split(" [… ").next().unwrap();
            assert!(line.starts_with(shown) && shown.len() > LINE_MAX - 4, "{}", shown.len());
            let hidden = format!(" [… {} more bytes in this line]\n", length - shown.len());
            assert!(page.text.ends_with(&hidden), "{}", page.text);
            assert!(!page.has_bytes);
        }
    }

    #[test]
    fn a_line_of_just_the_length_is_whole_whatever_ends_it() {
        for end in ["\n", "\r\n", ""] {
            let line = "x".repeat(LINE_MAX);
            let (page, _) = page(format!("{line}{end}").as_bytes(), 1, 10);
            assert_eq!(page.text, format!("1\t{line}\n"), "{end:?}");
        }
    }

    #[test]
    fn the_text_is_bounded_and_cut_between_lines() {
        let content = format!("{}\n", "x".repeat(999)).repeat(200);
        let (page, lines) = page(content.as_bytes(), 1, 1_000);
        assert!(page.is_cut && page.text.len() <= TEXT_MAX && page.text.len() > TEXT_MAX - 1_100);
        assert_eq!(page.text.lines().count() as u64, page.shown);
        assert_eq!(lines, 200);
    }

    proptest! {
        #[test]
        fn how_the_bytes_come_makes_no_difference(
            content in proptest::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), Just(0xe2), Just(0x82), Just(0xac), any::<u8>()],
                0..200,
            ),
            cuts in proptest::collection::vec(0_usize..200, 0..5),
            first in 1_u64..5,
            most in 1_u64..5,
        ) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut excerpt = Excerpt::new(first, most);
            let mut from = 0;
            for cut in cuts {
                let cut = cut.min(content.len());
                excerpt.feed(&content[from..cut]);
                from = cut;
            }
            excerpt.feed(&content[from..]);
            prop_assert_eq!(excerpt.finish(), page(&content, first, most));
        }

        #[test]
        fn what_is_shown_is_what_is_there(
            lines in proptest::collection::vec("[^\\n\\r\\x00]{0,20}", 0..20),
            first in 1_usize..25,
            most in 1_usize..25,
        ) {
            let content: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let (page, seen) = page(content.as_bytes(), first as u64, most as u64);
            let wanted: String = lines
                .iter()
                .enumerate()
                .skip(first - 1)
                .take(most)
                .map(|(at, line)| format!("{}\t{line}\n", at + 1))
                .collect();
            prop_assert_eq!(page.text, wanted);
            prop_assert_eq!(seen, lines.len() as u64);
        }
    }
}
