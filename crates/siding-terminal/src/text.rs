//! A screen as text for people and models.

use std::fmt::Write as _;

use siding_model::terminal::KeyInput;
use siding_model::text::{make_visible, one_line};

use crate::screen::Screen;

/// The character in front of the cell with the cursor.
const CURSOR_MARK: char = '▮';
/// Stands for the rows that the reader has seen, at the same place or moved up.
const SEEN_ROWS: char = '…';
const HIDDEN_CURSOR: &str = "cursor hidden";
const ALTERNATE_SCREEN: &str = "alternate screen";
/// Length of the shown title, in columns.
const TITLE_COLUMNS: usize = 60;

/// Formats a screen: its rows without the blank rows at the end, with `▮` in front of the character
/// at the cursor, and a last line such as `80x24 · hash 1a2b3c4d` with the size and the first digits
/// of the hash. Invisible and control characters are escaped.
#[must_use]
pub fn format_screen(screen: &Screen) -> String {
    let mut out = format_rows(screen, 0);
    let mut facts = vec![screen.size().to_string(), format!("hash {}", screen.short_hash())];
    facts.extend((!screen.cursor().visible).then(|| HIDDEN_CURSOR.to_owned()));
    facts.extend(screen.is_alternate().then(|| ALTERNATE_SCREEN.to_owned()));
    facts.extend(screen.title().map(format_title));
    push_facts(&facts, &mut out);
    out
}

/// Formats what has changed between two screens for a reader who has seen the first. `keys` were
/// typed in between.
///
/// If the program only wrote below what the reader has seen, as a shell does, the result is `…` for
/// all that and the new rows. A row to which only the typed text was added is not repeated.
/// Otherwise it is each changed row after its number, where the first row has the number 1; rows
/// that only moved up are counted instead of repeated. If more than half of the rows changed, or the
/// screen has another size or is the other screen, it is all rows. A last line has the size, a
/// hidden cursor, the alternate screen and the title where they are new. The hash is not included.
#[must_use]
pub fn format_changes(before: &Screen, after: &Screen, keys: &[KeyInput]) -> String {
    let mut out = format_changed_rows(before, after, keys);
    let mut facts = Vec::new();
    if before.size() != after.size() {
        facts.push(after.size().to_string());
    }
    // No row has a mark then, so this fact is never left out.
    facts.extend((!after.cursor().visible).then(|| HIDDEN_CURSOR.to_owned()));
    if after.is_alternate() && !before.is_alternate() {
        facts.push(ALTERNATE_SCREEN.to_owned());
    }
    if before.title() != after.title() {
        facts.extend(after.title().map(format_title));
    }
    push_facts(&facts, &mut out);
    out
}

/// Formats the rows of [`format_changes`].
fn format_changed_rows(before: &Screen, after: &Screen, keys: &[KeyInput]) -> String {
    if before.size() != after.size() || before.is_alternate() != after.is_alternate() {
        return format_rows(after, 0);
    }
    let (scrolled, mut changed) = find_changes(before, after);
    if changed.is_empty() && scrolled == 0 && before.cursor() == after.cursor() {
        return "no change\n".to_owned();
    }
    if let Some(first) = first_new_row(before, after, (scrolled, changed.as_slice()), keys) {
        let above = if first > 0 { format!("{SEEN_ROWS}\n") } else { String::new() };
        return above + &format_rows(after, first);
    }
    if changed.len() * 2 > used_rows(after) {
        return format_rows(after, 0);
    }
    let cursor_row = usize::from(after.cursor().row);
    if before.cursor() != after.cursor() && !changed.contains(&cursor_row) {
        changed.push(cursor_row);
        changed.sort_unstable();
    }
    let mut out = String::new();
    if scrolled > 0 {
        let _writing_to_string = writeln!(out, "rows moved up by {scrolled}");
    }
    for row in changed {
        let _writing_to_string = writeln!(out, "{}: {}", row + 1, format_row(after, row));
    }
    out
}

/// Returns the first row that the reader has not seen, if the program has only written at the end of
/// the text; `None` if it has drawn elsewhere. `scrolled` and `changed` are those of
/// [`find_changes`].
fn first_new_row(
    before: &Screen,
    after: &Screen,
    (scrolled, changed): (usize, &[usize]),
    keys: &[KeyInput],
) -> Option<usize> {
    let end = usize::from(before.cursor().row);
    let start = end.checked_sub(scrolled)?;
    let was_at_end = before.rows().skip(end + 1).all(str::is_empty);
    let cursor = after.cursor();
    let is_append = was_at_end
        && cursor.visible
        && usize::from(cursor.row) >= start
        && changed.iter().all(|row| *row >= start);
    if after.is_alternate() || !is_append {
        return None;
    }
    let typed = match keys.first() {
        Some(KeyInput::Text(text)) => text.trim(),
        Some(KeyInput::Key(_) | KeyInput::Mouse(_)) | None => "",
    };
    let added = after.row(start).strip_prefix(before.row(end));
    let is_echo = added.is_some_and(|added| added.trim() == typed);
    // The row with the cursor is always shown, because of the mark.
    Some(if is_echo && usize::from(cursor.row) > start { start + 1 } else { start })
}

/// Returns the number of rows by which the screen moved up, and the rows that differ after this
/// movement. Of all possible movements, chooses the one with the fewest differences.
fn find_changes(before: &Screen, after: &Screen) -> (usize, Vec<usize>) {
    let differing = |scrolled: usize| -> Vec<usize> {
        let rows = after.rows().enumerate();
        rows.filter(|(row, text)| *text != before.row(row + scrolled)).map(|(row, _)| row).collect()
    };
    let candidates = (0..after.rows().len()).map(|scrolled| (scrolled, differing(scrolled)));
    // Chooses the first of several minima, so that an equal screen counts as not moved.
    candidates.min_by_key(|(_, rows)| rows.len()).unwrap_or_default()
}

/// Returns the number of rows up to the last one with text or with the cursor.
fn used_rows(screen: &Screen) -> usize {
    let with_text = screen.rows().rposition(|row| !row.is_empty()).map_or(0, |row| row + 1);
    let cursor = screen.cursor();
    if cursor.visible { with_text.max(usize::from(cursor.row) + 1) } else { with_text }
}

/// Formats the rows from `first` on, without the blank rows at the end.
fn format_rows(screen: &Screen, first: usize) -> String {
    (first..used_rows(screen)).map(|row| format_row(screen, row) + "\n").collect()
}

fn format_row(screen: &Screen, row: usize) -> String {
    let cursor = screen.cursor();
    if cursor.visible && usize::from(cursor.row) == row {
        make_visible(&screen.marked_row(row, cursor.column, CURSOR_MARK))
    } else {
        make_visible(screen.row(row))
    }
}

fn format_title(title: &str) -> String {
    format!("title {}", one_line(title, TITLE_COLUMNS))
}

fn push_facts(facts: &[String], out: &mut String) {
    if !facts.is_empty() {
        let _writing_to_string = writeln!(out, "{}", facts.join(" · "));
    }
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::{TerminalSize, parse_key};

    use super::*;
    use crate::Emulator;

    fn emulator(columns: u16, rows: u16, output: &str) -> Emulator {
        let mut emulator = Emulator::new(TerminalSize { columns, rows });
        emulator.feed(output.as_bytes());
        emulator
    }

    fn typed(words: &[&str]) -> Vec<KeyInput> {
        words.iter().map(|word| parse_key(word).expect("a key or a text")).collect()
    }

    #[test]
    fn the_cursor_is_marked_and_the_last_line_has_the_size_and_the_hash() {
        let screen = emulator(20, 5, "name: (demo) \r\n界x\x1b[2;3H").screen();
        let hash = &screen.content_hash()[..8];
        let expected = format!("name: (demo)\n界▮x\n20x5 · hash {hash}\n");
        assert_eq!(format_screen(&screen), expected);
        let beyond = format_screen(&emulator(20, 5, "a\x1b[3;4H").screen());
        assert!(beyond.starts_with("a\n\n   ▮\n20x5 · hash "), "{beyond}");
        let hidden = emulator(20, 5, "a\x1b[?25l\x1b[?1049h\x1b]2;t\u{7}").screen();
        let text = format_screen(&hidden);
        assert!(text.starts_with("20x5 · hash "), "{text}");
        assert!(text.ends_with(" · cursor hidden · alternate screen · title t\n"), "{text}");
    }

    #[test]
    fn a_dialog_is_shown_by_its_new_rows_without_the_echo() {
        let mut terminal = emulator(20, 6, "hello\r\nname: ");
        let asked = terminal.screen();
        assert_eq!(format_changes(&asked, &asked, &[]), "no change\n");
        terminal.feed(b"Ada");
        let echoed = terminal.screen();
        assert_eq!(format_changes(&asked, &echoed, &typed(&["Ada"])), "…\nname: Ada▮\n");
        terminal.feed(b"\r\nage: ");
        let next = terminal.screen();
        assert_eq!(format_changes(&asked, &next, &typed(&["Ada", "Enter"])), "…\nage: ▮\n");
        assert_eq!(format_changes(&echoed, &next, &typed(&["Enter"])), "…\nage: ▮\n");
        // The program has written another text than the typed one.
        let other = format_changes(&asked, &next, &typed(&["Eve", "Enter"]));
        assert_eq!(other, "…\nname: Ada\nage: ▮\n");
        terminal.feed(b"36\r\n1\r\n2\r\n3\r\n$ ");
        let scrolled = format_changes(&next, &terminal.screen(), &typed(&["36", "Enter"]));
        assert_eq!(scrolled, "…\n1\n2\n3\n$ ▮\n");
    }

    #[test]
    fn drawn_rows_have_their_numbers_and_more_than_half_is_the_whole_screen() {
        let mut terminal = emulator(20, 10, "one\r\ntwo\r\nthree\r\nfour\r\n$ ");
        let before = terminal.screen();
        terminal.feed(b"\x1b[2;1HTWO\x1b[5;3H");
        let after = terminal.screen();
        assert_eq!(format_changes(&before, &after, &[]), "2: TWO\n");
        terminal.feed(b"\x1b[1;1H");
        let moved = terminal.screen();
        assert_eq!(format_changes(&after, &moved, &[]), "1: ▮one\n");
        terminal.feed(b"ONE\r\n2\r\nTHREE");
        let drawn = terminal.screen();
        let all = "ONE\n2WO\nTHREE▮\nfour\n$\n";
        assert_eq!(format_changes(&moved, &drawn, &[]), all);
    }

    #[test]
    fn a_menu_below_the_cursor_is_shown_by_its_changed_rows() {
        let mut terminal = emulator(20, 8, "> \r\n  a\r\n  b\r\n  c\r\n  d\x1b[1;3H");
        let before = terminal.screen();
        terminal.feed(b"\x1b[3;1H*\x1b[1;3H");
        assert_eq!(format_changes(&before, &terminal.screen(), &[]), "3: * b\n");
    }

    #[test]
    fn facts_about_the_screen_are_shown_when_they_change() {
        let mut terminal = emulator(20, 6, "$ \x1b]2;shell\u{7}");
        let shell = terminal.screen();
        terminal.feed(b"\x1b[?1049h\x1b[Hmenu");
        let menu = terminal.screen();
        let text = format_changes(&shell, &menu, &typed(&["Enter"]));
        assert_eq!(text, "menu▮\nalternate screen\n");
        terminal.feed(b"\x1b[?25l\x1b]2;editor\x07");
        let text = format_changes(&menu, &terminal.screen(), &[]);
        assert!(text.ends_with("cursor hidden · title editor\n"), "{text}");
    }

    #[test]
    fn rows_that_move_up_are_not_repeated() {
        let mut terminal = emulator(20, 6, "1\r\n2\r\n3\r\n4\r\n5\r\n6");
        terminal.feed(b"\x1b[1;1H");
        let before = terminal.screen();
        terminal.feed(b"\x1b[6;2H\r\n7\r\n");
        let text = format_changes(&before, &terminal.screen(), &[]);
        assert_eq!(text, "rows moved up by 2\n5: 7\n6: ▮\n");
    }

    #[test]
    fn characters_that_could_deceive_are_escaped() {
        let screen = emulator(40, 2, "a\u{200b}b").screen();
        assert!(format_screen(&screen).starts_with("a\\u{200b}b▮\n"), "{}", format_screen(&screen));
    }
}
