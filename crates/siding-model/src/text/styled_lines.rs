//! The output of a task as lines of styled text.
//!
//! Viewers that have their own notion of colors, such as `siding top` and the web page, show these
//! lines. Escape sequences of a task are interpreted and never passed on. Sequences that set colors
//! and text attributes, and those that move the cursor within its line or erase the line, have an
//! effect; all others are removed: titles, links, the clipboard sequence. A carriage return moves
//! to the start of the line, so that a progress bar is shown as a terminal shows it.

use super::char_style::CharStyle;
use super::printable::make_visible;

/// Maximum number of characters of one line. A longer line continues on the next one.
const MAX_LINE_CHARS: usize = 8 * 1024;
/// Distance of tab stops, in columns.
const TAB_COLUMNS: usize = 8;
/// Maximum number of bytes of the parameters of a control sequence. A longer sequence is removed.
const MAX_PARAMETER_BYTES: usize = 64;
/// Maximum distance of the cursor from the end of the text, so that a sequence cannot make a line
/// long.
const MAX_COLUMNS_BEYOND_TEXT: usize = 200;

/// One line of output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StyledLine {
    /// Stream offset of the first byte of the line.
    pub offset: u64,
    /// The visible text. Tabs are replaced by blanks, other control characters are removed or
    /// replaced by pictures, and invisible characters are escaped as in [`make_visible`].
    pub text: String,
    /// The styles of the text: each applies up to its byte position, which is exclusive.
    pub styles: Vec<(usize, CharStyle)>,
}

impl StyledLine {
    /// Returns the parts of the text that have one style each.
    pub fn spans(&self) -> impl Iterator<Item = (&str, CharStyle)> {
        let mut start = 0;
        self.styles.iter().map(move |(end, style)| {
            let part = &self.text[start..*end];
            start = *end;
            (part, *style)
        })
    }

    /// Appends the text of another part of the same line.
    fn append(&mut self, part: &Self) {
        let start = self.text.len();
        self.text.push_str(&part.text);
        self.styles.extend(part.styles.iter().map(|(end, style)| (start + end, *style)));
    }
}

/// Converts bytes to styled lines. A style continues on the next line.
#[derive(Debug, Default)]
pub struct StyledLineParser {
    state: ParserState,
    style: CharStyle,
    cells: Vec<(char, CharStyle)>,
    /// Index in `cells` of the next character.
    cursor: usize,
    /// Bytes of an incomplete character.
    partial: Vec<u8>,
    /// Stream offset of the first byte of the current line, and the style there.
    line_offset: u64,
    line_style: CharStyle,
    /// Stream offset of the next byte.
    offset: u64,
}

/// The position inside an escape sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum ParserState {
    #[default]
    Ground,
    Escape,
    /// After ESC and an intermediate byte, as in a charset selection.
    Charset,
    /// Inside a control sequence, with its parameters.
    Csi(String),
    /// Inside a title, a clipboard or hyperlink sequence, or a similar string.
    ControlString,
}

impl StyledLineParser {
    /// Returns a parser whose first byte has this stream offset.
    #[must_use]
    pub fn starting_at(offset: u64) -> Self {
        Self::resuming_line(offset, offset)
    }

    /// Returns a parser whose first byte has the stream offset `offset` and belongs to the line at
    /// `line_offset`, the earlier bytes of which are not needed: a carriage return precedes
    /// `offset`, and a progress bar overwrites the states before it.
    #[must_use]
    pub fn resuming_line(line_offset: u64, offset: u64) -> Self {
        Self { line_offset, offset, ..Self::default() }
    }

    /// Processes more output, and appends the completed lines.
    pub fn push(&mut self, bytes: &[u8], lines: &mut Vec<StyledLine>) {
        let joined;
        let mut rest = if self.partial.is_empty() {
            bytes
        } else {
            joined = [&std::mem::take(&mut self.partial), bytes].concat();
            &joined
        };
        while !rest.is_empty() {
            let (text, used, is_invalid) = match std::str::from_utf8(rest) {
                Ok(text) => (text, rest.len(), false),
                Err(error) => {
                    let valid = error.valid_up_to();
                    let text = std::str::from_utf8(&rest[..valid]).unwrap_or_default();
                    match error.error_len() {
                        Some(len) => (text, valid + len, true),
                        None => {
                            self.partial = rest[valid..].to_vec();
                            (text, rest.len(), false)
                        }
                    }
                }
            };
            for c in text.chars() {
                self.step(c, c.len_utf8() as u64, lines);
            }
            if is_invalid {
                self.step(char::REPLACEMENT_CHARACTER, (used - text.len()) as u64, lines);
            }
            rest = &rest[used..];
        }
    }

    /// Processes one line, given without its newline, and returns it undivided, however long it is.
    pub fn parse_line(&mut self, line: &[u8]) -> StyledLine {
        let mut parts = Vec::new();
        self.push(line, &mut parts);
        self.push(b"\n", &mut parts);
        let mut whole = StyledLine::default();
        if let Some(first) = parts.first() {
            whole.offset = first.offset;
        }
        parts.iter().for_each(|part| whole.append(part));
        whole
    }

    /// Returns the stream offset of the first byte of the line that has no newline yet.
    #[must_use]
    pub const fn line_offset(&self) -> u64 {
        self.line_offset
    }

    /// Removes the line that has no newline yet. Returns its stream offset, from which the output
    /// must then be processed again.
    pub fn rewind_line(&mut self) -> u64 {
        *self = Self {
            style: self.line_style,
            line_style: self.line_style,
            ..Self::starting_at(self.line_offset)
        };
        self.line_offset
    }

    /// Returns the line that has no newline yet; `None` if it is empty.
    #[must_use]
    pub fn pending_line(&self) -> Option<StyledLine> {
        (!self.cells.is_empty()).then(|| self.build_line())
    }

    fn step(&mut self, c: char, bytes: u64, lines: &mut Vec<StyledLine>) {
        self.offset += bytes;
        match std::mem::take(&mut self.state) {
            ParserState::Ground => self.step_ground(c, bytes, lines),
            _ if matches!(c, '\x18' | '\x1a') => {}
            _ if c == '\x1b' => self.state = ParserState::Escape,
            ParserState::Escape => match c {
                '[' => self.state = ParserState::Csi(String::new()),
                ']' | 'P' | 'X' | '^' | '_' | 'k' => self.state = ParserState::ControlString,
                ' '..='/' => self.state = ParserState::Charset,
                '0'..='~' => {}
                _ => self.step_ground(c, bytes, lines),
            },
            ParserState::Charset => match c {
                ' '..='/' => self.state = ParserState::Charset,
                '0'..='~' => {}
                _ => self.step_ground(c, bytes, lines),
            },
            ParserState::Csi(mut parameters) => match c {
                ' '..='?' => {
                    if parameters.len() < MAX_PARAMETER_BYTES {
                        parameters.push(c);
                    }
                    self.state = ParserState::Csi(parameters);
                }
                '@'..='~' => self.apply_control_sequence(&parameters, c),
                _ => self.step_ground(c, bytes, lines),
            },
            // An unterminated string hides at most the rest of its line.
            ParserState::ControlString => match c {
                '\x07' | '\u{9c}' => {}
                '\n' => self.step_ground(c, bytes, lines),
                _ => self.state = ParserState::ControlString,
            },
        }
    }

    fn step_ground(&mut self, c: char, bytes: u64, lines: &mut Vec<StyledLine>) {
        match c {
            '\x1b' => self.state = ParserState::Escape,
            '\u{9b}' => self.state = ParserState::Csi(String::new()),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.state = ParserState::ControlString,
            '\x0e' | '\x0f' | '\x07' | '\u{80}'..='\u{9f}' => {}
            '\n' => self.end_line(lines),
            '\r' => self.cursor = 0,
            '\x08' => self.cursor = self.cursor.saturating_sub(1),
            '\t' => {
                let blanks = TAB_COLUMNS - self.cursor % TAB_COLUMNS;
                (0..blanks).for_each(|_| self.put(' '));
            }
            c if c.is_control() => self.put(control_picture(c)),
            c => {
                if self.cursor >= MAX_LINE_CHARS {
                    self.offset -= bytes;
                    self.end_line(lines);
                    self.offset += bytes;
                }
                self.put(c);
            }
        }
    }

    fn put(&mut self, c: char) {
        if self.cursor > MAX_LINE_CHARS + TAB_COLUMNS {
            return;
        }
        while self.cells.len() < self.cursor {
            self.cells.push((' ', CharStyle::default()));
        }
        if let Some(cell) = self.cells.get_mut(self.cursor) {
            *cell = (c, self.style);
        } else {
            self.cells.push((c, self.style));
        }
        self.cursor += 1;
    }

    fn end_line(&mut self, lines: &mut Vec<StyledLine>) {
        lines.push(self.build_line());
        self.cells.clear();
        self.cursor = 0;
        self.line_offset = self.offset;
        self.line_style = self.style;
    }

    fn build_line(&self) -> StyledLine {
        let mut line = StyledLine { offset: self.line_offset, ..StyledLine::default() };
        for cells in self.cells.chunk_by(|one, other| one.1 == other.1) {
            let text: String = cells.iter().map(|(c, _)| *c).collect();
            line.text.push_str(&make_visible(&text));
            line.styles.push((line.text.len(), cells[0].1));
        }
        line
    }

    fn apply_control_sequence(&mut self, parameters: &str, last: char) {
        if parameters.len() >= MAX_PARAMETER_BYTES {
            return;
        }
        let first = parameters.split(';').next().unwrap_or_default();
        let number = first.parse::<usize>().ok();
        let count = number.unwrap_or(1).max(1);
        match last {
            'm' => self.style.apply_parameters(parameters),
            'G' | '`' => self.move_to(count - 1),
            'C' => self.move_to(self.cursor.saturating_add(count)),
            'D' => self.move_to(self.cursor.saturating_sub(count)),
            'K' | 'J' => self.erase(last, number.unwrap_or(0)),
            _ => {}
        }
    }

    fn move_to(&mut self, column: usize) {
        let limit = self.cells.len() + MAX_COLUMNS_BEYOND_TEXT;
        self.cursor = column.min(limit).min(MAX_LINE_CHARS);
    }

    /// Erases a part of the line: to its end (0), to its start (1), or all of it (2). A sequence
    /// that erases the screen erases the line only in the first form: the lines above remain
    /// readable.
    fn erase(&mut self, last: char, mode: usize) {
        match (last, mode) {
            (_, 0) => self.cells.truncate(self.cursor),
            ('K', 1) => {
                let end = self.cells.len().min(self.cursor + 1);
                self.cells[..end].fill((' ', CharStyle::default()));
            }
            ('K', 2) => self.cells.clear(),
            _ => {}
        }
    }
}

/// Returns the Unicode picture of a control character of ASCII.
fn control_picture(c: char) -> char {
    match c {
        '\x00'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(c),
        _ => '\u{2421}',
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::char_style::TextColor;
    use super::*;

    fn parse(bytes: &[u8]) -> Vec<StyledLine> {
        let mut parser = StyledLineParser::starting_at(0);
        let mut lines = Vec::new();
        parser.push(bytes, &mut lines);
        lines.extend(parser.pending_line());
        lines
    }

    fn texts(bytes: &[u8]) -> Vec<String> {
        parse(bytes).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn colors_are_kept() {
        let lines = parse(b"a\x1b[1;31mred\x1b[0mb\n");
        let spans: Vec<_> = lines[0].spans().collect();
        let plain = CharStyle::default();
        let red = CharStyle { foreground: Some(TextColor::Palette(1)), bold: true, ..plain };
        assert_eq!(spans, [("a", plain), ("red", red), ("b", plain)]);
        let lines = parse(b"\x1b[32mgreen\nstill");
        assert_eq!(lines[1].styles[0].1.foreground, Some(TextColor::Palette(2)));
    }

    #[test]
    fn a_carriage_return_overwrites_as_on_a_terminal() {
        assert_eq!(texts(b" 10%\r 50%\r100%\n"), ["100%"]);
        assert_eq!(texts(b"abcdef\rxy\n"), ["xycdef"]);
        assert_eq!(texts(b"abcdef\r\x1b[Kxy"), ["xy"]);
        assert_eq!(texts(b"abcdef\x1b[2K\x1b[1Gxy"), ["xy"]);
        assert_eq!(texts(b"ab\x08c\tx"), ["ac      x"]);
        assert_eq!(texts(b"a\r\nb\r\n"), ["a", "b"]);
        assert_eq!(texts(b"abc\x08\x08X"), ["aXc"]);
        assert_eq!(texts(b"ab\x1b[3Cx"), ["ab   x"]);
        assert_eq!(texts(b"abc\x1b[1K"), ["   "]);
    }

    #[test]
    fn other_sequences_have_no_effect() {
        for sequence in [
            "\x1b]0;title\x07",
            "\x1b]52;c;aGk=\x07",
            "\x1b]8;;https://example.org\x1b\\",
            "\u{9d}0;title\u{9c}",
            "\x1bP1$r0m\x1b\\",
            "\x1b[2J\x1b[?1049h",
            "\x1b[6n\x1b[c",
            "\x1b(B\x1b=",
            "\u{9b}5n",
            "\x07",
        ] {
            assert_eq!(texts(format!("a{sequence}b").as_bytes()), ["ab"], "{sequence:?}");
        }
        assert_eq!(texts(b"a\x1b]0;unterminated\nb"), ["a", "b"]);
        for sequence in ["\x1b[12345678901234567890C", "\x1b[999999999999G"] {
            let text = &texts(format!("{sequence}x").as_bytes())[0];
            assert!(text.ends_with('x') && text.len() < 500, "{}", text.len());
        }
    }

    #[test]
    fn hidden_characters_are_visible() {
        assert_eq!(texts(b"a\xff\xfeb\x00"), ["a\u{fffd}\u{fffd}b\u{2400}"]);
        assert_eq!(texts("a\u{202e}\u{200b}b".as_bytes()), ["a\\u{202e}\\u{200b}b"]);
        assert_eq!(texts("e\u{301}".as_bytes()), ["e\u{301}"]);
    }

    #[test]
    fn lines_know_their_offsets() {
        let mut parser = StyledLineParser::starting_at(100);
        let mut lines = Vec::new();
        parser.push("ä\nb".as_bytes(), &mut lines);
        parser.push(b"\nc", &mut lines);
        let offsets: Vec<u64> = lines.iter().map(|line| line.offset).collect();
        assert_eq!(offsets, [100, 103]);
        assert_eq!(parser.pending_line().expect("c").offset, 105);
        let mut parser = StyledLineParser::resuming_line(3, 200);
        lines.clear();
        parser.push(b"99%\r100%\nnext\n", &mut lines);
        let found: Vec<_> = lines.iter().map(|line| (line.offset, line.text.as_str())).collect();
        assert_eq!(found, [(3, "100%"), (209, "next")]);
    }

    #[test]
    fn an_endless_line_is_divided() {
        let lines = texts(&vec![b'x'; 3 * MAX_LINE_CHARS + 1]);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[3], "x");
        let long = [vec![b'x'; MAX_LINE_CHARS], b"\x1b[32my".to_vec()].concat();
        let line = StyledLineParser::starting_at(7).parse_line(&long);
        assert_eq!((line.offset, line.text.len()), (7, MAX_LINE_CHARS + 1));
        let spans: Vec<_> = line.spans().map(|(text, _)| text.len()).collect();
        assert_eq!(spans, [MAX_LINE_CHARS, 1]);
    }

    #[test]
    fn a_line_is_processed_again_with_the_style_at_its_start() {
        let (whole, rest) = (b"a\x1b[31mb\nred\x1b[32m green\n", 8);
        let expected = parse(whole);
        for cut in rest..whole.len() {
            let mut parser = StyledLineParser::starting_at(0);
            let mut lines = Vec::new();
            parser.push(&whole[..cut], &mut lines);
            assert_eq!((parser.rewind_line(), parser.pending_line()), (8, None), "{cut}");
            parser.push(&whole[rest..], &mut lines);
            assert_eq!(lines, expected, "{cut}");
        }
    }

    proptest! {
        #[test]
        fn the_split_of_the_input_does_not_change_the_lines(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(0x1b), Just(b'['), Just(b'm'), Just(b'\n'), Just(b'\r')],
                0..200,
            ),
            cut in 0_usize..200,
        ) {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut parser = StyledLineParser::starting_at(0);
            let mut lines = Vec::new();
            parser.push(first, &mut lines);
            parser.push(second, &mut lines);
            lines.extend(parser.pending_line());
            prop_assert_eq!(&lines, &parse(&bytes));
            for line in lines {
                prop_assert!(!line.text.chars().any(char::is_control));
                prop_assert_eq!(line.styles.last().map_or(0, |(end, _)| *end), line.text.len());
            }
        }
    }
}
