//! A part of a file for a model, with line numbers.
//!
//! The input arrives in chunks, and at most one line of it is buffered. The result states what is
//! not shown.

use std::fmt::Write as _;

use siding_model::size::size_in_words;

/// Maximum shown bytes of a line.
pub(super) const MAX_LINE_BYTES: usize = 2_000;
/// Maximum bytes of the excerpt, including line numbers.
pub(super) const MAX_TEXT_BYTES: usize = 64 << 10;

/// Collects the requested lines of a file.
#[derive(Debug)]
pub(super) struct LineExcerpt {
    first_line: u64,
    max_lines: u64,
    page: ExcerptPage,
    /// The number of complete lines so far.
    finished_lines: u64,
    /// The start of the current line, up to one byte more than is shown.
    partial_line: Vec<u8>,
    /// The length of the current line in bytes so far.
    partial_line_bytes: u64,
    /// Whether the excerpt accepts no more lines.
    is_full: bool,
}

/// The lines of a file that are shown, and facts about them that the model should know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExcerptPage {
    /// The lines, each after its number and a tab.
    pub(super) text: String,
    /// The number of lines in the text.
    pub(super) shown_lines: u64,
    /// Whether the excerpt was cut at [`MAX_TEXT_BYTES`].
    pub(super) is_truncated: bool,
    /// Whether a shown line ends in CR LF.
    pub(super) has_crlf: bool,
    /// Whether bytes are shown as `\xNN`.
    pub(super) has_escaped_bytes: bool,
    /// Whether the last line shown ends the file without a newline.
    pub(super) is_unterminated: bool,
}

impl LineExcerpt {
    /// Creates an excerpt of up to `most` lines from line `first`, counted from 1.
    pub(super) fn new(first: u64, most: u64) -> Self {
        Self {
            first_line: first.max(1),
            max_lines: most,
            page: ExcerptPage::default(),
            finished_lines: 0,
            partial_line: Vec::new(),
            partial_line_bytes: 0,
            is_full: most == 0,
        }
    }

    /// Adds the next bytes of the file.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(at) = bytes.iter().position(|&byte| byte == b'\n') {
            self.buffer(&bytes[..at]);
            self.end_line(true);
            bytes = &bytes[at + 1..];
        }
        self.buffer(bytes);
    }

    /// Returns whether the excerpt is complete and more bytes follow it.
    pub(super) const fn has_more(&self) -> bool {
        self.is_full
            && (self.finished_lines >= self.first_line + self.page.shown_lines
                || self.partial_line_bytes > 0)
    }

    /// Returns the excerpt and the number of lines read.
    pub(super) fn finish(mut self) -> (ExcerptPage, u64) {
        if self.partial_line_bytes > 0 {
            self.end_line(false);
        }
        (self.page, self.finished_lines)
    }

    fn buffer(&mut self, bytes: &[u8]) {
        self.partial_line_bytes += bytes.len() as u64;
        let room = (MAX_LINE_BYTES + 1).saturating_sub(self.partial_line.len());
        if !self.is_full && self.finished_lines + 1 >= self.first_line {
            self.partial_line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn end_line(&mut self, is_terminated: bool) {
        self.finished_lines += 1;
        if !self.is_full && self.finished_lines >= self.first_line {
            self.push_line(is_terminated);
        }
        self.partial_line.clear();
        self.partial_line_bytes = 0;
    }

    fn push_line(&mut self, is_terminated: bool) {
        let mut line = self.partial_line.as_slice();
        let mut length = self.partial_line_bytes;
        let has_crlf = is_terminated && line.len() as u64 == length && line.ends_with(b"\r");
        if has_crlf {
            line = &line[..line.len() - 1];
            length -= 1;
        }
        let head = shown_prefix(line);
        let before = self.page.text.len();
        let _writing_to_string = write!(self.page.text, "{}\t", self.finished_lines);
        let has_bytes = push_escaped(head, &mut self.page.text);
        let hidden = length - head.len() as u64;
        if hidden > 0 {
            let hidden = size_in_words(hidden);
            let _writing_to_string = write!(self.page.text, " [… {hidden} more in this line]");
        }
        self.page.text.push('\n');
        if self.page.text.len() > MAX_TEXT_BYTES {
            self.page.text.truncate(before);
            self.page.is_truncated = true;
            self.is_full = true;
            return;
        }
        self.page.shown_lines += 1;
        self.page.has_crlf |= has_crlf;
        self.page.has_escaped_bytes |= has_bytes;
        self.page.is_unterminated = !is_terminated;
        self.is_full = self.page.shown_lines == self.max_lines;
    }
}

/// Returns the part of a line that is shown, without splitting a character.
fn shown_prefix(line: &[u8]) -> &[u8] {
    if line.len() <= MAX_LINE_BYTES {
        return line;
    }
    let is_start = |at: &usize| line[*at] & 0xc0 != 0x80;
    // A UTF-8 character has at most four bytes, so a character starts at one of these offsets.
    // Other data may be cut anywhere.
    let end = (MAX_LINE_BYTES - 3..=MAX_LINE_BYTES).rev().find(is_start).unwrap_or(MAX_LINE_BYTES);
    &line[..end]
}

/// Appends bytes as text, with NUL and invalid bytes as `\xNN`. Returns whether there were any such
/// bytes.
fn push_escaped(bytes: &[u8], text: &mut String) -> bool {
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
            let _writing_to_string = write!(text, "\\x{byte:02x}");
            has_bytes = true;
        }
    }
    has_bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(content: &[u8], first: u64, most: u64) -> (ExcerptPage, u64) {
        let mut excerpt = LineExcerpt::new(first, most);
        excerpt.feed(content);
        excerpt.finish()
    }

    #[test]
    fn each_line_is_prefixed_with_its_number() {
        let (page, lines) = page(b"one\n\n\tthree\nfour", 1, 100);
        assert_eq!(page.text, "1\tone\n2\t\n3\t\tthree\n4\tfour\n");
        assert_eq!((page.shown_lines, lines, page.is_unterminated), (4, 4, true));
        let (page, lines) = self::page(b"one\ntwo\nthree\n", 2, 1);
        assert_eq!((page.text.as_str(), page.shown_lines, lines), ("2\ttwo\n", 1, 3));
        assert!(!page.is_unterminated);
        assert_eq!(self::page(b"", 1, 10), (ExcerptPage::default(), 0));
        assert_eq!(self::page(b"\n", 1, 10).0.text, "1\t\n");
    }

    #[test]
    fn has_more_is_set_only_by_bytes_after_the_excerpt() {
        let mut excerpt = LineExcerpt::new(1, 2);
        excerpt.feed(b"one\ntwo");
        assert!(!excerpt.has_more());
        excerpt.feed(b"\n");
        assert!(!excerpt.has_more(), "the file may end here");
        excerpt.feed(b"t");
        assert!(excerpt.has_more());
        assert_eq!(excerpt.finish().0.text, "1\tone\n2\ttwo\n");
        let mut empty_line = LineExcerpt::new(1, 1);
        empty_line.feed(b"one\n\n");
        assert!(empty_line.has_more());
    }

    #[test]
    fn bytes_that_are_not_text_are_escaped() {
        let (page, _) = page(b"caf\xe9\r\n\xff\0x\xe2\x82\n", 1, 10);
        assert_eq!(page.text, "1\tcaf\\xe9\n2\t\\xff\\x00x\\xe2\\x82\n");
        assert!(page.has_escaped_bytes && page.has_crlf);
    }

    #[test]
    fn a_long_line_is_cut_at_a_character_boundary() {
        for shift in 0..4 {
            let mut line = "a".repeat(shift) + &"€😀".repeat(1_000);
            let length = line.len();
            line.push('\n');
            let (page, _) = page(line.as_bytes(), 1, 10);
            let shown = page.text.strip_prefix("1\t").unwrap().split(" [… ").next().unwrap();
            assert!(line.starts_with(shown) && shown.len() > MAX_LINE_BYTES - 4, "{}", shown.len());
            let hidden = size_in_words((length - shown.len()) as u64);
            let hidden = format!(" [… {hidden} more in this line]\n");
            assert!(page.text.ends_with(&hidden), "{}", page.text);
            assert!(!page.has_escaped_bytes);
        }
    }

    #[test]
    fn a_line_of_exactly_the_maximum_length_is_not_cut() {
        for end in ["\n", "\r\n", ""] {
            let line = "x".repeat(MAX_LINE_BYTES);
            let (page, _) = page(format!("{line}{end}").as_bytes(), 1, 10);
            assert_eq!(page.text, format!("1\t{line}\n"), "{end:?}");
        }
    }

    #[test]
    fn the_text_is_bounded_and_cut_between_lines() {
        let content = format!("{}\n", "x".repeat(999)).repeat(200);
        let (page, lines) = page(content.as_bytes(), 1, 1_000);
        assert!(
            page.is_truncated
                && page.text.len() <= MAX_TEXT_BYTES
                && page.text.len() > MAX_TEXT_BYTES - 1_100
        );
        assert_eq!(page.text.lines().count() as u64, page.shown_lines);
        assert_eq!(lines, 200);
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_excerpt(
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
            let mut excerpt = LineExcerpt::new(first, most);
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
        fn the_excerpt_contains_the_requested_lines(
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
