//! A screen as text for people and models.

use std::fmt::Write as _;

use siding_model::text::{make_visible, one_line};

use crate::screen::Screen;

/// The character in front of the cell with the cursor.
const CURSOR_MARK: char = '▮';
/// Length of the shown title, in columns.
const TITLE_COLUMNS: usize = 60;

/// Formats a screen: its rows without the blank rows at the end, with `▮` in front of the character
/// at the cursor, and a last line such as `cursor 5,12 · 80x24 · hash 1a2b3c4d5e6f7a8b`. The row
/// and the column of the cursor start at 1. Invisible and control characters are escaped.
#[must_use]
pub fn format_screen(screen: &Screen) -> String {
    let mut out = String::new();
    for row in 0..used_rows(screen) {
        out.push_str(&format_row(screen, row));
        out.push('\n');
    }
    push_status(screen, &mut out);
    out
}

/// Formats what has changed between two screens: each changed row after its number, where the first
/// row has the number 1. Rows that only moved up are counted instead of repeated. Returns the whole screen as
/// [`format_screen`] does if more than half of its rows changed, or if it has another size.
#[must_use]
pub fn format_changes(before: &Screen, after: &Screen) -> String {
    let has_same_form =
        before.size() == after.size() && before.is_alternate() == after.is_alternate();
    let (scrolled, mut changed) = find_changes(before, after);
    if !has_same_form || changed.len() * 2 > used_rows(after) {
        return format_screen(after);
    }
    let mut out = String::new();
    if scrolled > 0 {
        let _writing_to_string = writeln!(out, "rows moved up by {scrolled}");
    }
    let cursor_row = usize::from(after.cursor().row);
    if before.cursor() != after.cursor() && !changed.contains(&cursor_row) {
        changed.push(cursor_row);
        changed.sort_unstable();
    }
    if changed.is_empty() && scrolled == 0 {
        out.push_str("no change\n");
    }
    for row in changed {
        let _writing_to_string = writeln!(out, "{}: {}", row + 1, format_row(after, row));
    }
    push_status(after, &mut out);
    out
}

/// Returns by how many rows the screen moved up, and which rows differ nevertheless. The number is
/// the one with the fewest differences.
fn find_changes(before: &Screen, after: &Screen) -> (usize, Vec<usize>) {
    let differing = |scrolled: usize| -> Vec<usize> {
        let rows = after.rows().enumerate();
        rows.filter(|(row, text)| *text != before.row(row + scrolled)).map(|(row, _)| row).collect()
    };
    let candidates = (0..after.rows().len()).map(|scrolled| (scrolled, differing(scrolled)));
    // The first of several minima, so that an equal screen has not moved.
    candidates.min_by_key(|(_, rows)| rows.len()).unwrap_or_default()
}

/// Returns the number of rows up to the last one with text or with the cursor.
fn used_rows(screen: &Screen) -> usize {
    let with_text = screen.rows().rposition(|row| !row.is_empty()).map_or(0, |row| row + 1);
    let cursor = screen.cursor();
    if cursor.visible { with_text.max(usize::from(cursor.row) + 1) } else { with_text }
}

fn format_row(screen: &Screen, row: usize) -> String {
    let cursor = screen.cursor();
    if cursor.visible && usize::from(cursor.row) == row {
        make_visible(&screen.marked_row(row, cursor.column, CURSOR_MARK))
    } else {
        make_visible(screen.row(row))
    }
}

fn push_status(screen: &Screen, out: &mut String) {
    let cursor = screen.cursor();
    let hidden = if cursor.visible { "" } else { " hidden" };
    let (row, column) = (cursor.row + 1, cursor.column + 1);
    let hash = screen.content_hash();
    let size = screen.size();
    let _writing_to_string = write!(out, "cursor {row},{column}{hidden} · {size} · hash {hash}");
    if screen.is_alternate() {
        out.push_str(" · alternate screen");
    }
    if let Some(title) = screen.title() {
        let _writing_to_string = write!(out, " · title {}", one_line(title, TITLE_COLUMNS));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::TerminalSize;

    use super::*;
    use crate::Emulator;

    fn emulator(columns: u16, rows: u16, output: &str) -> Emulator {
        let mut emulator = Emulator::new(TerminalSize { columns, rows });
        emulator.feed(output.as_bytes());
        emulator
    }

    #[test]
    fn the_cursor_is_marked_in_the_text_and_in_the_last_line() {
        let screen = emulator(20, 5, "name: (demo) \r\n界x\x1b[2;3H").screen();
        let hash = screen.content_hash();
        let expected = format!("name: (demo)\n界▮x\ncursor 2,3 · 20x5 · hash {hash}\n");
        assert_eq!(format_screen(&screen), expected);
        let beyond = emulator(20, 5, "a\x1b[3;4H").screen();
        assert!(
            format_screen(&beyond).starts_with("a\n\n   ▮\ncursor 3,4"),
            "{}",
            format_screen(&beyond)
        );
        let hidden = emulator(20, 5, "a\x1b[?25l\x1b[?1049h\x1b]2;t\u{7}").screen();
        let text = format_screen(&hidden);
        assert!(text.starts_with("cursor 1,2 hidden · 20x5 · hash "), "{text}");
        assert!(text.ends_with(" · alternate screen · title t\n"), "{text}");
    }

    #[test]
    fn changes_are_compact_and_more_than_half_is_the_whole_screen() {
        let mut terminal = emulator(20, 10, "one\r\ntwo\r\nthree\r\nfour\r\n$ ");
        let before = terminal.screen();
        assert!(format_changes(&before, &before).starts_with("no change\ncursor 5,3"));
        terminal.feed(b"ls");
        let after = terminal.screen();
        assert!(format_changes(&before, &after).starts_with("5: $ ls▮\ncursor 5,5"));
        terminal.feed(b"\x1b[HONE\r\nTWO\r\nTHREE");
        let drawn = terminal.screen();
        assert_eq!(format_changes(&after, &drawn), format_screen(&drawn));
        terminal.feed(b"\x1b[5;5H");
        let moved = terminal.screen();
        assert!(format_changes(&drawn, &moved).starts_with("5: $ ls▮\ncursor 5,5"));
    }

    #[test]
    fn rows_that_move_up_are_not_repeated() {
        let mut terminal = emulator(20, 6, "1\r\n2\r\n3\r\n4\r\n5\r\n6");
        let before = terminal.screen();
        terminal.feed(b"\r\n7\r\n");
        let text = format_changes(&before, &terminal.screen());
        assert!(text.starts_with("rows moved up by 2\n5: 7\n6: ▮\ncursor 6,1"), "{text}");
    }

    #[test]
    fn characters_that_could_deceive_are_escaped() {
        let screen = emulator(40, 2, "a\u{200b}b").screen();
        assert!(format_screen(&screen).starts_with("a\\u{200b}b▮\n"), "{}", format_screen(&screen));
    }
}
