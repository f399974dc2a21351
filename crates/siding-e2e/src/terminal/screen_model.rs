//! Computes the screen contents from the bytes that were written to a terminal. The model
//! implements the escape sequences that siding may send. It panics at any other sequence, because
//! such a sequence comes from unescaped text of another program or is not supported by every
//! terminal. The terminal of a task has further modes, which `siding attach` restores. The model
//! accepts the sequences that set their usual state.

use siding_model::text::display_width;

/// The placeholder in the second column of a wide character.
const WIDE_CHAR_TAIL: char = '\0';

/// The visible rows of a terminal and those scrolled off.
#[derive(Debug)]
pub(super) struct ScreenModel {
    columns: usize,
    rows: usize,
    /// All rows so far; the last `rows` of them are the screen.
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The saved row and column, relative to the top of the screen.
    saved: (usize, usize),
    /// The addresses of the links so far (OSC 8).
    links: Vec<String>,
    /// The parameters of the color sequences so far (SGR), such as `31`.
    colors: Vec<String>,
    /// An incomplete character or sequence at the end of the input.
    incomplete: Vec<u8>,
    /// The rows and the position of the main screen, while the alternate screen is shown.
    main_screen: Option<(Vec<Vec<char>>, usize, usize)>,
    /// The text that a program has copied to the clipboard, in base64.
    clipboard: Option<String>,
    /// The title of the window; empty if no program has set it.
    title: String,
}

impl ScreenModel {
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        Self {
            columns,
            rows,
            lines: vec![Vec::new()],
            row: 0,
            column: 0,
            saved: (0, 0),
            links: Vec::new(),
            colors: Vec::new(),
            incomplete: Vec::new(),
            main_screen: None,
            clipboard: None,
            title: String::new(),
        }
    }

    /// Changes the size of the screen. Like xterm, the model does not rewrap rows that no longer
    /// fit.
    pub(super) fn resize(&mut self, columns: usize, rows: usize) {
        (self.columns, self.rows) = (columns, rows);
        self.row = self.row.max(self.top_row());
    }

    /// Wraps the rows that no longer fit into this number of columns. The cursor stays at its
    /// character.
    pub(super) fn rewrap(&mut self, columns: usize) {
        let cursor = self.column.min(self.lines[self.row].len().saturating_sub(1));
        let count_rows = |line: &Vec<char>| line.len().div_ceil(columns).max(1);
        let above: usize = self.lines[..self.row].iter().map(count_rows).sum();
        (self.row, self.column) = (above + cursor / columns, self.column % columns);
        for line in std::mem::take(&mut self.lines) {
            let first = line.iter().take(columns).copied().collect();
            self.lines.push(first);
            self.lines.extend(line.chunks(columns).skip(1).map(<[char]>::to_vec));
        }
    }

    pub(super) fn visible_rows(&self) -> Vec<String> {
        self.lines[self.top_row()..].iter().map(|line| row_text(line)).collect()
    }

    pub(super) fn scrollback_text(&self) -> String {
        self.lines.iter().map(|line| row_text(line) + "\n").collect()
    }

    /// Returns whether the alternate screen is shown.
    pub(super) fn is_alternate(&self) -> bool {
        self.main_screen.is_some()
    }

    /// Returns the text that a program has copied to the clipboard, in base64.
    pub(super) fn clipboard(&self) -> Option<&str> {
        self.clipboard.as_deref()
    }

    /// Returns the title of the window; empty if no program has set it.
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    pub(super) fn links(&self) -> &[String] {
        &self.links
    }

    /// Returns the parameters of the color sequences so far, such as `31`.
    pub(super) fn colors(&self) -> &[String] {
        &self.colors
    }

    fn top_row(&self) -> usize {
        self.lines.len().saturating_sub(self.rows)
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.incomplete.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.incomplete);
        let mut rest = held.as_slice();
        while let Some(first) = rest.first() {
            let len = match first {
                0x1b => sequence_len(rest),
                _ => char_len(rest),
            };
            if len > rest.len() {
                break;
            }
            let (part, after) = rest.split_at(len);
            let part = String::from_utf8_lossy(part);
            match part.as_ref() {
                "\r" => self.column = 0,
                "\n" => self.line_feed(),
                "\x08" => self.column = self.column.saturating_sub(1),
                // Shift in: selects the usual one of the two character sets.
                "\x0f" => {}
                _ if part.starts_with('\x1b') => self.apply_sequence(&part),
                _ => part.chars().for_each(|c| self.put_char(c)),
            }
            rest = after;
        }
        self.incomplete = rest.to_vec();
    }

    fn put_char(&mut self, c: char) {
        assert!(!c.is_control(), "{c:?} reached the terminal:\n{}", self.scrollback_text());
        let wide = display_width(c.encode_utf8(&mut [0; 4]));
        if self.column + wide > self.columns {
            self.column = 0;
            self.line_feed();
        }
        let column = self.column;
        let line = &mut self.lines[self.row];
        if wide == 0 {
            line.insert(column.min(line.len()), c);
            return;
        }
        while line.len() < column + wide {
            line.push(' ');
        }
        line[column] = c;
        if wide == 2 {
            line[column + 1] = WIDE_CHAR_TAIL;
        }
        self.column += wide;
    }

    fn line_feed(&mut self) {
        self.row += 1;
        if self.row == self.lines.len() {
            self.lines.push(Vec::new());
        }
    }

    fn apply_sequence(&mut self, sequence: &str) {
        match sequence {
            "\x1bD" => return self.line_feed(),
            "\x1b7" => return self.saved = (self.row - self.top_row(), self.column),
            "\x1b8" => {
                let (row, column) = self.saved;
                return (self.row, self.column) = (self.top_row() + row, column);
            }
            // The usual character sets, and the usual mode of the keypad.
            "\x1b(B" | "\x1b)B" | "\x1b>" => return,
            _ => {}
        }
        if let Some(title) = sequence.strip_prefix("\x1b]2;") {
            self.title = title.trim_end_matches("\x1b\\").trim_end_matches('\x07').to_owned();
            return;
        }
        if let Some(link) = sequence.strip_prefix("\x1b]8;;") {
            let address = link.trim_end_matches("\x1b\\");
            return self.links.extend((!address.is_empty()).then(|| address.to_owned()));
        }
        if let Some(copied) = sequence.strip_prefix("\x1b]52;c;") {
            self.clipboard = Some(copied.trim_end_matches('\x07').to_owned());
            return;
        }
        let body = &sequence[2..];
        let (number, last) = body.split_at(body.len() - 1);
        match (number, last) {
            // The model has no scrolling region that `r` could reset.
            ("?2026" | "?2004" | "?25" | "?1000" | "?1006", "h" | "l") | ("", "r") => {}
            // The usual state of modes that the model does not support.
            ("?1" | "?6" | "4", "l") | ("?7", "h") => {}
            ("?1049", "h") => {
                // The alternate screen has no rows that have scrolled off.
                let lines = std::mem::replace(&mut self.lines, vec![Vec::new()]);
                self.main_screen = Some((lines, self.row, self.column));
                (self.row, self.column) = (0, 0);
            }
            ("?1049", "l") => {
                if let Some(main) = self.main_screen.take() {
                    (self.lines, self.row, self.column) = main;
                }
            }
            (position, "H") if position.contains(';') => self.move_cursor(position),
            (color, "m") => self.colors.push(color.to_owned()),
            ("", "H") => (self.row, self.column) = (self.top_row(), 0),
            ("", "J") => {
                self.lines[self.row].truncate(self.column);
                self.lines[self.row + 1..].iter_mut().for_each(Vec::clear);
            }
            ("", "K") => self.lines[self.row].truncate(self.column),
            ("2", "J") => {
                let top = self.top_row();
                self.lines[top..].iter_mut().for_each(Vec::clear);
            }
            (count, "A") => {
                let count: usize = count.parse().expect("a number of rows");
                self.row = self.row.saturating_sub(count).max(self.top_row());
            }
            (count, "C") => {
                let count: usize = count.parse().expect("a number of columns");
                self.column = (self.column + count).min(self.columns - 1);
            }
            // Save and restore the title.
            ("22;2" | "23;2", "t") => {}
            _ => panic!("{sequence:?} reached the terminal:\n{}", self.scrollback_text()),
        }
    }
}

impl ScreenModel {
    /// Moves the cursor to `ROW;COLUMN`, which count from 1. As on a terminal, a position outside is
    /// the last one inside: a program may draw for the old size until it learns of the new one.
    fn move_cursor(&mut self, position: &str) {
        let (row, column) = position.split_once(';').expect("two numbers");
        let number = |text: &str| text.parse::<usize>().expect("a number");
        while self.lines.len() < self.rows {
            self.lines.push(Vec::new());
        }
        self.row = (self.top_row() + number(row) - 1).min(self.lines.len() - 1);
        self.column = (number(column) - 1).min(self.columns - 1);
    }
}

/// Returns the length of an escape sequence in bytes. If its end has not arrived, returns a value
/// greater than the number of available bytes.
fn sequence_len(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        None => 2,
        Some(b'[') => {
            let end = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte));
            end.map_or(bytes.len() + 1, |end| end + 3)
        }
        Some(b']') => {
            // A control string ends with BEL or with `ESC \`.
            let is_end = |end: &usize| bytes[*end] == 0x07 || bytes[*end..].starts_with(b"\x1b\\");
            let end = (2..bytes.len()).find(is_end);
            end.map_or(bytes.len() + 1, |end| end + if bytes[end] == 0x07 { 1 } else { 2 })
        }
        Some(b'D' | b'7' | b'8' | b'>') => 2,
        Some(b'(' | b')') => 3,
        Some(other) => panic!("ESC {other:#x} reached the terminal"),
    }
}

/// Returns the length of a character in UTF-8.
fn char_len(bytes: &[u8]) -> usize {
    match bytes[0] {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        // The byte is shown as U+FFFD.
        0x80..0xc2 | 0xf5.. => 1,
    }
}

fn row_text(line: &[char]) -> String {
    let text: String = line.iter().filter(|c| **c != WIDE_CHAR_TAIL).collect();
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alternate_screen_is_separate() {
        let mut shown = ScreenModel::new(4, 3);
        shown.feed(b"main\x1b[?1049h\x1b[2J\x1b[3;2Hx\x1b]52;c;aGk=\x07");
        assert!(shown.is_alternate());
        assert_eq!(shown.visible_rows(), ["", "", " x"]);
        assert_eq!(shown.clipboard(), Some("aGk="));
        shown.feed(b"\x1b[?1049l");
        assert_eq!(shown.visible_rows(), ["main"]);
    }

    #[test]
    fn the_usual_modes_of_a_terminal_change_nothing() {
        let mut shown = ScreenModel::new(8, 2);
        shown.feed(b"\x1b[?1049l\x1b[r\x1b[?6l\x1b[4l\x1b[?7h\x1b(B\x1b)B\x0f\x1b[0m\x1b[H\x1b[2J");
        shown.feed(b"\x1b[1;1Htext\x1b>\x1b[?1l\x1b]2;title\x07");
        assert_eq!(shown.visible_rows(), ["text", ""]);
        assert_eq!(shown.title(), "title");
    }

    #[test]
    fn a_narrower_screen_wraps_its_rows_and_moves_the_cursor() {
        let mut shown = ScreenModel::new(6, 4);
        shown.feed(b"abcdef\r\n\r\nxyz");
        shown.rewrap(4);
        assert_eq!(shown.visible_rows(), ["abcd", "ef", "", "xyz"]);
        shown.feed(b"\x1b[3A\r!");
        assert_eq!(shown.visible_rows(), ["!bcd", "ef", "", "xyz"]);
    }

    #[test]
    fn rows_scroll_off_and_are_overwritten() {
        let mut shown = ScreenModel::new(4, 2);
        shown.feed("ab\r\ncd\r\n你好x".as_bytes());
        assert_eq!(shown.visible_rows(), ["你好", "x"]);
        shown.feed(b"\x1b[9A\r\x1b[2Cy\x1b[J\r\n");
        shown.feed(b"\x1b[31mz\x1b[m\x1b[?2");
        shown.feed(b"5l!");
        assert_eq!(shown.scrollback_text(), "ab\ncd\n你y\nz!\n");
        shown.feed(b"\x1bD\x1b[1A\x1b7\r\nrow");
        assert_eq!(shown.visible_rows(), ["z!", "row"]);
        shown.feed(b"\r\x1b[K\x1b8?");
        assert_eq!(shown.visible_rows(), ["z!?", ""]);
    }
}
