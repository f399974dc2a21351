//! The screen contents that result from the bytes written to a terminal. The model implements the
//! escape sequences that siding may send. It panics at any other sequence, because such a sequence
//! comes from unescaped text of another program or is not supported by every terminal.

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
    /// An incomplete character or sequence at the end of the input.
    incomplete: Vec<u8>,
}

impl ScreenModel {
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        Self { columns, rows, lines: vec![Vec::new()], row: 0, column: 0, incomplete: Vec::new() }
    }

    /// Changes the size of the screen. Like xterm, the model does not rewrap rows that no longer
    /// fit.
    pub(super) fn resize(&mut self, columns: usize, rows: usize) {
        (self.columns, self.rows) = (columns, rows);
        self.row = self.row.max(self.top_row());
    }

    pub(super) fn visible_rows(&self) -> Vec<String> {
        self.lines[self.top_row()..].iter().map(|line| row_text(line)).collect()
    }

    pub(super) fn scrollback_text(&self) -> String {
        self.lines.iter().map(|line| row_text(line) + "\n").collect()
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
            let part = std::str::from_utf8(part).expect("the output is UTF-8");
            match part {
                "\r" => self.column = 0,
                "\n" => self.line_feed(),
                _ if part.starts_with('\x1b') => self.apply_sequence(part),
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
        let body = &sequence[2..];
        let (number, last) = body.split_at(body.len() - 1);
        match (number, last) {
            ("?2026" | "?2004" | "?25", "h" | "l") => {}
            (_, "m") => {}
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
            _ => panic!("{sequence:?} reached the terminal:\n{}", self.scrollback_text()),
        }
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
        Some(other) => panic!("ESC {other:#x} reached the terminal"),
    }
}

/// Returns the length of a character in UTF-8.
fn char_len(bytes: &[u8]) -> usize {
    match bytes[0] {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0.. => 4,
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
    fn rows_scroll_off_and_are_overwritten() {
        let mut shown = ScreenModel::new(4, 2);
        shown.feed("ab\r\ncd\r\n你好x".as_bytes());
        assert_eq!(shown.visible_rows(), ["你好", "x"]);
        shown.feed(b"\x1b[9A\r\x1b[2Cy\x1b[J\r\n");
        shown.feed(b"\x1b[31mz\x1b[m\x1b[?2");
        shown.feed(b"5l!");
        assert_eq!(shown.scrollback_text(), "ab\ncd\n你y\nz!\n");
    }
}
