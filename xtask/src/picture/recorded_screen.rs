//! The screen that results from the output of programs at a terminal.
//!
//! Carriage returns, erasures and cursor movements change the screen as on a terminal, so that a
//! progress line that was erased is not in the picture, and a program that uses the whole screen is
//! shown as it was last. Of all other sequences only colors have an effect. The screen has as many
//! rows as were written, so no row scrolls off. Every character occupies one column.

use std::rc::Rc;

use anstyle_parse::{Params, Parser, Perform};
use anyhow::{Context as _, Result};
use serde_json::Value;

/// Distance of tab stops, in columns.
const TAB_COLUMNS: usize = 8;
/// The sequence that restores the default colors.
const RESET: &str = "\x1b[0m";

/// A character, and the color sequences in effect for it.
type Cell = (char, Rc<str>);

/// Returns the rows of the screen as lines in which only colors are escape sequences. Blanks at the
/// ends of lines and empty lines at the end are removed.
pub(super) fn render_terminal(bytes: &[u8], columns: usize) -> String {
    let mut screen = RecordedScreen::new(columns);
    let mut parser: Parser = Parser::default();
    for byte in bytes {
        parser.advance(&mut screen, *byte);
    }
    screen.format_rows()
}

/// Returns the last screen of a recording (asciicast v3) as [`render_terminal`] does, with the width
/// that its terminal had at the start.
pub(super) fn render_cast(cast: &str) -> Result<String> {
    let mut lines = cast.lines().filter(|line| !line.starts_with('#'));
    let header: Value = serde_json::from_str(lines.next().context("the file is empty")?)?;
    let columns = header["term"]["cols"].as_u64().filter(|columns| *columns > 0);
    let columns = columns.context("the first line has no `term.cols`")?;
    let mut output = String::new();
    for line in lines {
        let (_interval, code, data): (f64, String, String) = serde_json::from_str(line)?;
        if code == "o" {
            output.push_str(&data);
        }
    }
    Ok(render_terminal(output.as_bytes(), usize::try_from(columns)?))
}

#[derive(Debug)]
struct RecordedScreen {
    columns: usize,
    rows: Vec<Vec<Cell>>,
    row: usize,
    /// Column of the next character; `columns` after the last one of a full row.
    column: usize,
    /// The row and column that were saved last.
    saved: (usize, usize),
    /// The color sequences since the last reset.
    style: Rc<str>,
}

impl RecordedScreen {
    fn new(columns: usize) -> Self {
        let style = Rc::from("");
        Self { columns, rows: vec![Vec::new()], row: 0, column: 0, saved: (0, 0), style }
    }

    fn line_feed(&mut self) {
        self.move_to_row(self.row + 1);
    }

    fn move_to_row(&mut self, row: usize) {
        self.row = row;
        if row >= self.rows.len() {
            self.rows.resize(row + 1, Vec::new());
        }
    }

    fn erase_in_row(&mut self, mode: u16) {
        let (row, column) = (&mut self.rows[self.row], self.column);
        match mode {
            0 => row.truncate(column),
            1 => {
                let end = row.len().min(column + 1);
                row[..end].fill((' ', Rc::from("")));
            }
            2 => row.clear(),
            _ => {}
        }
    }

    fn apply_color(&mut self, params: &Params) {
        let format_values =
            |values: &[u16]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(":");
        let parameters: Vec<String> = params.iter().map(format_values).collect();
        let sequence = format!("\x1b[{}m", parameters.join(";"));
        let resets = parameters.first().is_none_or(|first| first == "0");
        self.style = match (resets, parameters.len()) {
            (true, 0 | 1) => Rc::from(""),
            (true, _) => Rc::from(sequence),
            (false, _) => Rc::from(format!("{}{sequence}", self.style)),
        };
    }

    fn format_rows(&self) -> String {
        let count = self.rows.iter().rposition(|row| !visible_cells(row).is_empty());
        let rows = &self.rows[..count.map_or(0, |last| last + 1)];
        rows.iter().map(|row| format_row(visible_cells(row))).collect()
    }
}

/// Returns a row without the blanks at its end.
fn visible_cells(row: &[Cell]) -> &[Cell] {
    let last = row.iter().rposition(|(c, style)| *c != ' ' || !style.is_empty());
    &row[..last.map_or(0, |last| last + 1)]
}

fn format_row(cells: &[Cell]) -> String {
    let mut text = String::new();
    for cells in cells.chunk_by(|one, other| one.1 == other.1) {
        let style = &*cells[0].1;
        text.push_str(style);
        text.extend(cells.iter().map(|(c, _)| *c));
        text.push_str(if style.is_empty() { "" } else { RESET });
    }
    text.push('\n');
    text
}

impl Perform for RecordedScreen {
    fn print(&mut self, c: char) {
        if self.column >= self.columns {
            self.column = 0;
            self.line_feed();
        }
        let row = &mut self.rows[self.row];
        while row.len() <= self.column {
            row.push((' ', Rc::from("")));
        }
        row[self.column] = (c, Rc::clone(&self.style));
        self.column += 1;
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => self.line_feed(),
            b'\r' => self.column = 0,
            b'\t' => {
                let next = (self.column / TAB_COLUMNS + 1) * TAB_COLUMNS;
                self.column = next.min(self.columns.saturating_sub(1));
            }
            b'\x08' => self.column = self.column.saturating_sub(1),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _ignore: bool, action: u8) {
        // A private sequence, such as `CSI ? 25 l`, does not change the rows.
        if !intermediates.is_empty() {
            return;
        }
        let mut values = params.iter().map(|values| values.first().copied().unwrap_or(0));
        let (first, second) = (values.next().unwrap_or(0), values.next().unwrap_or(0));
        let count = usize::from(first.max(1));
        match action {
            b'm' => self.apply_color(params),
            b'A' => self.row = self.row.saturating_sub(count),
            b'B' => self.move_to_row(self.row + count),
            b'C' => self.column = (self.column + count).min(self.columns.saturating_sub(1)),
            b'D' => self.column = self.column.saturating_sub(count),
            b'G' => self.column = (count - 1).min(self.columns.saturating_sub(1)),
            b'H' => {
                self.move_to_row(count - 1);
                self.column = usize::from(second.max(1)).min(self.columns) - 1;
            }
            b'K' => self.erase_in_row(first),
            b'J' if first == 0 => {
                self.erase_in_row(0);
                self.rows.truncate(self.row + 1);
            }
            b'J' if first == 2 => self.rows.iter_mut().for_each(Vec::clear),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (intermediates, byte) {
            ([], b'7') => self.saved = (self.row, self.column),
            ([], b'8') => {
                self.column = self.saved.1;
                // An erasure may have removed the row.
                self.row = self.saved.0.min(self.rows.len() - 1);
            }
            ([], b'D') => self.line_feed(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, shown: &str) {
        assert_eq!(render_terminal(written.as_bytes(), 20), shown, "{written:?}");
    }

    #[test]
    fn an_erased_progress_line_is_not_shown() {
        check("1s \x1b[2mlast\x1b[0m\x1b[K\r2s\x1b[K\r\x1b[Kended\r\n", "ended\n");
        check("a\r\n1s\x1b[K\r\x1b[K", "a\n");
        check("long text\rshort", "shorttext\n");
        check("ab\x1b[1K\r\n", "");
    }

    /// siding saves the cursor at the end of an incomplete line, and writes its progress below.
    #[test]
    fn a_progress_line_below_a_prompt_is_not_shown() {
        let progress = "\x1bD\x1b[1A\x1b7\r\n5s\x1b[K\r6s\x1b[K\r\x1b[K\x1b8";
        check(&format!("Name? {progress}Ann\r\n"), "Name? Ann\n");
        check("\x1b7a\r\nb\x1b8\x1b[JX", "X\n");
    }

    #[test]
    fn cursor_movements_change_earlier_rows() {
        check("a\r\nb\r\n\x1b[2A\x1b[2KX\x1b[1BY", "X\nbY\n");
        check("abc\x1b[2DX\x1b[5GY\x1b[1Cz", "aXc Y z\n");
        check("a\tb\x08c", "a       c\n");
        check("a\r\nb\x1b[9Ac\x1b[J", "ac\n");
        check("old\x1b[2J\x1b[3;2Hx\x1b[1;1Hy\x1b[Hz\x1b[;4Hw", "z  w\n\n x\n");
    }

    #[test]
    fn a_recording_is_drawn_with_its_width() {
        let cast = [
            r#"{"version":3,"term":{"cols":4,"rows":2}}"#,
            "# a comment",
            r#"[0.010, "o", "abcdef\u001b"]"#,
            r#"[1.000, "r", "90x30"]"#,
            r#"[0.000, "o", "[1mg\r\n"]"#,
            r#"[0.000, "x", "0"]"#,
        ];
        let screen = render_cast(&cast.join("\n")).expect("a recording");
        assert_eq!(screen, "abcd\nef\x1b[1mg\x1b[0m\n");
        for broken in ["", "{}", "{\"term\":{\"cols\":0}}", "{\"term\":{\"cols\":4}}\n[]"] {
            assert!(render_cast(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn colors_are_kept() {
        check("\x1b[1;32mok\x1b[0m done", "\x1b[1;32mok\x1b[0m done\n");
        check("\x1b[1m\x1b[38;5;8mx\x1b[my", "\x1b[1m\x1b[38;5;8mx\x1b[0my\n");
        check(
            "\x1b[31mred\r\nred\x1b[0;1mb",
            "\x1b[31mred\x1b[0m\n\x1b[31mred\x1b[0m\x1b[0;1mb\x1b[0m\n",
        );
    }

    #[test]
    fn other_sequences_are_removed() {
        check("\x1b]0;title\x07\x1b]8;;file:///tmp/x\x1b\\link\x1b]8;;\x1b\\", "link\n");
        check("\x1b[?25l\x1b(B\x1b[6nx\x07", "x\n");
    }

    #[test]
    fn a_line_longer_than_the_terminal_wraps() {
        check(&"x".repeat(20), &format!("{}\n", "x".repeat(20)));
        check(&format!("{}\r\ny", "x".repeat(20)), &format!("{}\ny\n", "x".repeat(20)));
        check(&"ä".repeat(21), &format!("{}\nä\n", "ä".repeat(20)));
    }
}
