//! Conversion of rows to control sequences of a terminal.
//!
//! Only the rows at the bottom are redrawn. The cursor moves up to the first drawn row, and
//! everything below is erased. New output is then printed and scrolls away, and the rows are drawn
//! again. The terminal is never queried, because it might not answer.

use super::frame::{Frame, Row, TextStyle};

/// Enables bracketed paste.
pub(super) const ENTER_SEQUENCE: &str = "\x1b[?2004h";
/// Resets every mode that the control sequences of this module set.
pub(super) const RESET_SEQUENCE: &str = "\x1b[?2026l\x1b[?2004l\x1b[?25h\x1b[m";

/// Remembers the [`Frame`] that the terminal shows, and returns the output that replaces this
/// frame.
#[derive(Debug)]
pub struct Screen {
    has_color: bool,
    last_frame: Option<(Frame, usize)>,
}

impl Screen {
    /// Creates a screen without a frame.
    #[must_use]
    pub const fn new(has_color: bool) -> Self {
        Self { has_color, last_frame: None }
    }

    /// Returns the output that prints `output` permanently and draws a frame below it, in a terminal
    /// with this number of columns. The output is empty if nothing has changed.
    pub fn draw(&mut self, output: &[Row], frame: &Frame, columns: usize) -> String {
        let is_new =
            self.last_frame.as_ref().is_none_or(|(drawn, at)| drawn != frame || *at != columns);
        if output.is_empty() && !is_new {
            return String::new();
        }
        // Synchronized output shows the update as one change; hiding the cursor avoids flicker.
        let mut out = "\x1b[?2026h\x1b[?25l".to_owned();
        out.push_str(&self.erase(columns));
        for row in output {
            self.push_row(row, &mut out);
            out.push_str("\r\n");
        }
        for (number, row) in frame.rows.iter().enumerate() {
            if number > 0 {
                out.push_str("\r\n");
            }
            self.push_row(row, &mut out);
        }
        let (row, column) = frame.cursor;
        cursor_up(frame.rows.len().saturating_sub(1 + row), &mut out);
        out.push('\r');
        if column > 0 {
            out.push_str(&format!("\x1b[{column}C"));
        }
        out.push_str("\x1b[?25h\x1b[?2026l");
        self.last_frame = Some((frame.clone(), columns));
        out
    }

    /// Returns the output that erases the frame and moves the cursor to the frame's first row.
    pub fn erase(&mut self, columns: usize) -> String {
        let Some((frame, _)) = self.last_frame.take() else { return "\r\x1b[J".to_owned() };
        let (row, column) = frame.cursor;
        // A terminal that has become narrower wraps the rows it shows.
        let broken = |width: usize| width.saturating_sub(1) / columns.max(1);
        let above: usize = frame.rows.iter().take(row).map(|row| 1 + broken(row.width())).sum();
        let mut out = String::new();
        cursor_up(above + broken(column + 1), &mut out);
        out.push_str("\r\x1b[J");
        out
    }

    /// Forgets the frame, because the screen was cleared or another program has written to the
    /// terminal.
    pub fn invalidate(&mut self) {
        self.last_frame = None;
    }

    fn push_row(&self, row: &Row, out: &mut String) {
        for (paint, text) in &row.0 {
            let code = if self.has_color { color_code(*paint) } else { "" };
            out.push_str(code);
            out.push_str(text);
            if !code.is_empty() {
                out.push_str("\x1b[m");
            }
        }
    }
}

const fn color_code(paint: TextStyle) -> &'static str {
    match paint {
        TextStyle::Plain => "",
        TextStyle::Strong => "\x1b[1m",
        TextStyle::Faint => "\x1b[2m",
        TextStyle::Success => "\x1b[32m",
        TextStyle::Error => "\x1b[31m",
        TextStyle::Active => "\x1b[36m",
    }
}

fn cursor_up(rows: usize, out: &mut String) {
    if rows > 0 {
        out.push_str(&format!("\x1b[{rows}A"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(rows: &[&str], cursor: (usize, usize)) -> Frame {
        let row = |text: &&str| Row(vec![(TextStyle::Active, (*text).to_owned())]);
        Frame { rows: rows.iter().map(row).collect(), cursor }
    }

    const UPDATE_BEGIN: &str = "\x1b[?2026h\x1b[?25l";
    const UPDATE_END: &str = "\x1b[?25h\x1b[?2026l";

    #[test]
    fn only_changes_are_drawn_from_the_first_row_of_the_frame() {
        let mut screen = Screen::new(false);
        let first = frame(&["ab", "> c", "end"], (1, 3));
        let drawn = screen.draw(&[], &first, 10);
        assert_eq!(
            drawn,
            format!("{UPDATE_BEGIN}\r\x1b[Jab\r\n> c\r\nend\x1b[1A\r\x1b[3C{UPDATE_END}")
        );
        assert_eq!(screen.draw(&[], &first, 10), "");
        let output = [Row(vec![(TextStyle::Plain, "said".to_owned())])];
        let drawn = screen.draw(&output, &frame(&["x"], (0, 0)), 10);
        assert_eq!(drawn, format!("{UPDATE_BEGIN}\x1b[1A\r\x1b[Jsaid\r\nx\r{UPDATE_END}"));
    }

    #[test]
    fn erasing_accounts_for_rows_wrapped_by_a_narrower_terminal() {
        let mut screen = Screen::new(false);
        let _best_effort = screen.draw(&[], &frame(&["0123456789", "> c"], (1, 3)), 10);
        assert_eq!(screen.erase(4), "\x1b[3A\r\x1b[J");
        assert_eq!(screen.erase(4), "\r\x1b[J", "nothing is shown any more");
    }

    #[test]
    fn color_is_reset_and_can_be_disabled() {
        let frame = frame(&["ab"], (0, 0));
        assert!(Screen::new(true).draw(&[], &frame, 10).contains("\x1b[36mab\x1b[m"));
        assert!(!Screen::new(false).draw(&[], &frame, 10).contains("[36m"));
    }
}
