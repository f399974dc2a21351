//! Conversion of a buffer of character cells to the output that updates a terminal.
//!
//! Only cells that have changed are written, unless the content of the terminal is unknown or its
//! size has changed. The terminal is never queried, because it might not answer.

use std::fmt::Write as _;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};

use crate::geometry::Cursor;

/// Switches to the alternate screen, enables mouse reports in the SGR form and bracketed paste,
/// hides the cursor, and clears the screen.
pub(crate) const ENTER_SEQUENCE: &str =
    "\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[?25l\x1b[2J";
/// Resets every mode that this module sets, and returns to the main screen.
pub(crate) const RESET_SEQUENCE: &str =
    "\x1b[?2026l\x1b[?2004l\x1b[?1006l\x1b[?1000l\x1b[m\x1b[?25h\x1b[?1049l";

/// The content of a terminal as this program has drawn it.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    shown: Buffer,
    cursor: Cursor,
    /// Whether the content of the terminal is unknown.
    is_invalid: bool,
}

/// The style of a cell, in the form in which it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellStyle {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

const DEFAULT_STYLE: CellStyle =
    CellStyle { fg: Color::Reset, bg: Color::Reset, modifier: Modifier::empty() };

impl Screen {
    /// Makes the next update draw every cell.
    pub(crate) fn invalidate(&mut self) {
        self.is_invalid = true;
    }

    /// Returns whether the content of the terminal is unknown, so that the next update draws every
    /// cell.
    pub(crate) const fn is_unknown(&self) -> bool {
        self.is_invalid
    }

    /// Returns the output that changes the terminal to this content. It is empty if nothing has
    /// changed.
    pub(crate) fn update(&mut self, next: Buffer, cursor: Cursor) -> String {
        let mut out = String::new();
        if self.is_invalid || self.shown.area != next.area {
            self.shown = Buffer::empty(Rect { ..next.area });
            self.is_invalid = false;
            self.cursor = None;
            out.push_str("\x1b[m\x1b[?25l\x1b[2J");
        }
        let mut position = None;
        let mut style = DEFAULT_STYLE;
        for (x, y, cell) in self.shown.diff(&next) {
            if position != Some((x, y)) {
                write_position(&mut out, x, y);
            }
            let cell_style = CellStyle { fg: cell.fg, bg: cell.bg, modifier: cell.modifier };
            if cell_style != style {
                write_style(&mut out, cell_style);
                style = cell_style;
            }
            out.push_str(cell.symbol());
            // The cursor is positioned again after a non-ASCII character, because terminals disagree
            // about the width of some characters.
            position = cell.symbol().is_ascii().then_some((x + 1, y));
        }
        if style != DEFAULT_STYLE {
            out.push_str("\x1b[m");
        }
        let has_moved = cursor != self.cursor || (cursor.is_some() && !out.is_empty());
        if has_moved {
            match cursor {
                Some((x, y)) => {
                    write_position(&mut out, x, y);
                    out.push_str("\x1b[?25h");
                }
                None => out.push_str("\x1b[?25l"),
            }
        }
        (self.shown, self.cursor) = (next, cursor);
        if out.is_empty() {
            return out;
        }
        // Synchronized output shows the update as one change.
        format!("\x1b[?2026h{out}\x1b[?2026l")
    }
}

fn write_position(out: &mut String, x: u16, y: u16) {
    let _writing_to_string = write!(out, "\x1b[{};{}H", y + 1, x + 1);
}

fn write_style(out: &mut String, style: CellStyle) {
    out.push_str("\x1b[0");
    const ATTRIBUTES: [(Modifier, u8); 6] = [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::ITALIC, 3),
        (Modifier::UNDERLINED, 4),
        (Modifier::REVERSED, 7),
        (Modifier::CROSSED_OUT, 9),
    ];
    for (attribute, number) in ATTRIBUTES {
        if style.modifier.contains(attribute) {
            let _writing_to_string = write!(out, ";{number}");
        }
    }
    write_color(out, style.fg, 30);
    write_color(out, style.bg, 40);
    out.push('m');
}

/// Writes the parameters of a color. `base` is 30 for the text and 40 for the background.
fn write_color(out: &mut String, color: Color, base: u8) {
    let number = match color {
        Color::Reset => return,
        Color::Black => base,
        Color::Red => base + 1,
        Color::Green => base + 2,
        Color::Yellow => base + 3,
        Color::Blue => base + 4,
        Color::Magenta => base + 5,
        Color::Cyan => base + 6,
        Color::Gray => base + 7,
        Color::DarkGray => base + 60,
        Color::LightRed => base + 61,
        Color::LightGreen => base + 62,
        Color::LightYellow => base + 63,
        Color::LightBlue => base + 64,
        Color::LightMagenta => base + 65,
        Color::LightCyan => base + 66,
        Color::White => base + 67,
        Color::Rgb(red, green, blue) => {
            let _writing_to_string = write!(out, ";{};2;{red};{green};{blue}", base + 8);
            return;
        }
        Color::Indexed(index) => {
            let _writing_to_string = write!(out, ";{};5;{index}", base + 8);
            return;
        }
    };
    let _writing_to_string = write!(out, ";{number}");
}

/// Returns the sequence (OSC 52) that copies a text, or its first 4096 bytes, to the clipboard of
/// the terminal.
pub(crate) fn copy_sequence(text: &str) -> String {
    const MAX_COPIED_BYTES: usize = 4096;
    let end = text.floor_char_boundary(MAX_COPIED_BYTES.min(text.len()));
    format!("\x1b]52;c;{}\x07", encode_base64(&text.as_bytes()[..end]))
}

fn encode_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            if index <= group.len() {
                let digit = bits >> (18 - 6 * index) & 63;
                text.push(char::from(ALPHABET[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use ratatui_core::style::Style;

    use super::*;

    fn buffer(lines: &[&str]) -> Buffer {
        Buffer::with_lines(lines.iter().copied())
    }

    #[test]
    fn only_changed_cells_are_written() {
        let mut screen = Screen::default();
        let first = screen.update(buffer(&["abc", "def"]), None);
        assert!(first.contains("\x1b[2J\x1b[1;1Habc\x1b[2;1Hdef"), "{first:?}");
        assert_eq!(screen.update(buffer(&["abc", "def"]), None), "");
        let second = screen.update(buffer(&["abc", "dxf"]), None);
        assert_eq!(second, "\x1b[?2026h\x1b[2;2Hx\x1b[?2026l");
        screen.invalidate();
        assert!(screen.update(buffer(&["abc", "dxf"]), None).contains("abc"));
        assert!(screen.update(buffer(&["a"]), None).contains("\x1b[2J"), "after a resize");
    }

    #[test]
    fn styles_are_written_once_for_a_run() {
        let mut screen = Screen::default();
        let mut next = buffer(&["abc"]);
        next.set_string(0, 0, "ab", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        next.set_string(2, 0, "c", Style::new().fg(Color::Indexed(9)).bg(Color::Rgb(1, 2, 3)));
        let out = screen.update(next, None);
        assert!(
            out.ends_with("\x1b[0;1;31mab\x1b[0;38;5;9;48;2;1;2;3mc\x1b[m\x1b[?2026l"),
            "{out:?}"
        );
    }

    #[test]
    fn the_cursor_is_shown_where_text_is_typed() {
        let mut screen = Screen::default();
        let shown = screen.update(buffer(&["ab"]), Some((1, 0)));
        assert!(shown.ends_with("\x1b[1;2H\x1b[?25h\x1b[?2026l"), "{shown:?}");
        assert_eq!(screen.update(buffer(&["ab"]), Some((1, 0))), "");
        assert_eq!(screen.update(buffer(&["ab"]), None), "\x1b[?2026h\x1b[?25l\x1b[?2026l");
    }

    #[test]
    fn a_copied_text_is_encoded() {
        assert_eq!(copy_sequence("hi"), "\x1b]52;c;aGk=\x07");
        for (text, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(encode_base64(text.as_bytes()), encoded);
        }
        assert!(copy_sequence(&"ä".repeat(5000)).len() < 6000);
    }
}
