//! Wrapping of text to the rows of a screen.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar as _;

use super::printable::make_visible;
use super::render::{RenderOptions, render_output};

/// Number of blanks that replace a tab.
const TAB_COLUMNS: usize = 4;
/// The words that start a message. The rows below are aligned with the text after such a word.
const MESSAGE_LABELS: [&str; 4] = ["siding: ", "hint: ", "error: ", "tip: "];
/// Indentation of the rows below the first one of a message without a label.
const HANGING_COLUMNS: usize = 2;

/// Returns the number of columns that a text occupies. A control character has width 0.
#[must_use]
pub fn display_width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Returns a character as [`wrap_text`] shows it: control characters and invisible characters are
/// escaped as in [`make_visible`], but a tab becomes blanks, and a newline is removed.
#[must_use]
pub fn visible_char(c: char) -> String {
    match c {
        '\t' => " ".repeat(TAB_COLUMNS),
        '\n' => String::new(),
        _ => make_visible(c.encode_utf8(&mut [0; 4])),
    }
}

/// Wraps a text to rows of at most `columns` columns that are safe to print. Lines are broken at
/// blanks, or inside a word that is longer than a row. Continued rows are not indented.
///
/// A row that consists of one wide character may exceed `columns`.
#[must_use]
pub fn wrap_text(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let text = make_visible(text).replace('\t', &" ".repeat(TAB_COLUMNS));
    let mut rows = Vec::new();
    for line in text.split('\n') {
        wrap_line(line, columns, &mut rows);
    }
    rows
}

/// Wraps one line to rows of at most `columns` columns, between words. Text between backticks is
/// one word. A word that is wider than a row, such as a path, is not broken, so that it can be
/// copied.
#[must_use]
pub fn wrap_words(line: &str, columns: usize) -> Vec<String> {
    fill_rows(line, columns, columns)
}

/// Wraps each line of a message as [`wrap_words`] does, and indents the rows below the first one of
/// a line. Escape sequences take no columns. A line that fits is unchanged.
#[must_use]
pub fn wrap_message(message: &str, columns: usize) -> String {
    let wrapped: Vec<String> =
        message.split('\n').map(|line| wrap_message_line(line, columns)).collect();
    wrapped.join("\n")
}

fn wrap_message_line(line: &str, columns: usize) -> String {
    if printed_width(line) <= columns {
        return line.to_owned();
    }
    let text = line.trim_start_matches(' ');
    // The first row of a narrow screen must leave room for a word, too.
    let lead = (line.len() - text.len()).min(columns / 4);
    let indent = (lead + label_columns(text)).min(columns / 4);
    let rows = fill_rows(text, columns.saturating_sub(lead), columns.saturating_sub(indent));
    let indented = rows.iter().enumerate().map(|(number, row)| {
        let blanks = if number == 0 { lead } else { indent };
        // A wide word may need the columns of the indentation.
        let blanks = blanks.min(columns.saturating_sub(printed_width(row)));
        format!("{}{row}", " ".repeat(blanks))
    });
    indented.collect::<Vec<_>>().join("\n")
}

/// Returns by how many columns the rows below the first one of a message are indented.
fn label_columns(text: &str) -> usize {
    let text = remove_escape_sequences(text);
    let label = MESSAGE_LABELS.into_iter().find(|label| text.starts_with(label));
    label.map_or(HANGING_COLUMNS, str::len)
}

/// Fills a first row of `first` columns, and further rows of `others` columns.
fn fill_rows(line: &str, first: usize, others: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    let mut used = 0;
    for word in split_words(line) {
        let width = printed_width(word);
        let room = if rows.len() <= 1 { first } else { others };
        match rows.last_mut() {
            Some(row) if used + 1 + width <= room => {
                row.push(' ');
                row.push_str(word);
                used += 1 + width;
            }
            // A break replaces all blanks between two words.
            Some(_) if word.is_empty() => {}
            Some(_) | None => {
                rows.push(word.to_owned());
                used = width;
            }
        }
    }
    rows
}

/// Splits a line at its blanks, except at those between a pair of backticks.
fn split_words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut is_quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '`' => is_quoted = !is_quoted && line[at + 1..].contains('`'),
            ' ' if !is_quoted => {
                words.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&line[start..]);
    words
}

/// Returns the number of columns that a text with escape sequences occupies.
#[must_use]
pub fn printed_width(text: &str) -> usize {
    display_width(&remove_escape_sequences(text))
}

fn remove_escape_sequences(text: &str) -> Cow<'_, str> {
    if text.contains('\x1b') {
        Cow::Owned(render_output(text.as_bytes(), RenderOptions::default()))
    } else {
        Cow::Borrowed(text)
    }
}

fn wrap_line(line: &str, columns: usize, rows: &mut Vec<String>) {
    let mut row = String::new();
    let mut used = 0;
    // Position in the row after the last blank at which the row can be broken.
    let mut blank: Option<usize> = None;
    'characters: for c in line.chars() {
        let wide = c.width().unwrap_or(0);
        // A loop, because the word that moves to the next row may leave no space for the character
        // there.
        while used + wide > columns && !row.is_empty() {
            let rest = match blank.take() {
                // The row breaks at this blank, which is dropped.
                _ if c == ' ' => String::new(),
                Some(at) => row.split_off(at),
                None => String::new(),
            };
            row.truncate(row.trim_end_matches(' ').len());
            rows.push(std::mem::replace(&mut row, rest));
            used = display_width(&row);
            if c == ' ' {
                continue 'characters;
            }
        }
        row.push(c);
        used += wide;
        if c == ' ' && !row.trim_start_matches(' ').is_empty() {
            blank = Some(row.len());
        }
    }
    rows.push(row);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_break_at_blanks_and_words_only_when_too_long() {
        assert_eq!(wrap_text("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap_text("aa bb cc", 6), ["aa bb", "cc"]);
        assert_eq!(wrap_text("aa\n\nb", 6), ["aa", "", "b"]);
        assert_eq!(wrap_text("", 6), [""]);
        assert_eq!(wrap_text("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap_text("  an indented one", 9), ["  an", "indented", "one"]);
    }

    #[test]
    fn wide_characters_take_two_columns_and_hidden_ones_are_visible() {
        assert_eq!(wrap_text("你好吗", 4), ["你好", "吗"]);
        assert_eq!(wrap_text("你", 1), ["你"]);
        assert_eq!(wrap_text("\u{1b}[2J", 80), ["\\e[2J"]);
        assert_eq!(display_width("e\u{301}你"), 3);
        assert_eq!(visible_char('\u{7}'), "\\x07");
        // The word moves to the second row, where its last character does not fit.
        assert_eq!(wrap_text("\u{301} 你你你你你", 9), ["\u{301}", "你你你你", "你"]);
    }

    #[test]
    fn words_and_quoted_commands_are_not_broken() {
        assert_eq!(wrap_words("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap_words("a /long/path/to b", 6), ["a", "/long/path/to", "b"]);
        assert_eq!(
            wrap_words("so `siding ps --all` lists", 12),
            ["so", "`siding ps --all`", "lists"]
        );
        assert_eq!(wrap_words("one ` two", 5), ["one `", "two"]);
        assert_eq!(wrap_words("a  b", 3), ["a ", "b"]);
        assert_eq!(wrap_words("", 3), [""]);
    }

    #[test]
    fn the_rows_of_a_message_are_aligned_with_its_text() {
        assert_eq!(
            wrap_message("siding: no task is named\n  hint: `siding stop b-4k` stops it\n", 40),
            "siding: no task is named\n  hint: `siding stop b-4k` stops it\n"
        );
        assert_eq!(
            wrap_message("siding: nothing new from b-4k, exited 0\n  hint: try again\n", 24),
            "siding: nothing new from\n      b-4k, exited 0\n  hint: try again\n"
        );
        assert_eq!(wrap_message("one two three", 8), "one two\n  three");
        assert_eq!(wrap_message("one /a/path two", 4), "one\n/a/path\n two");
        assert_eq!(wrap_message("    one two", 8), "  one\n  two");
    }

    #[test]
    fn escape_sequences_take_no_columns() {
        let error = "\x1b[1m\x1b[31merror:\x1b[0m the word\n";
        assert_eq!(wrap_message(error, 15), error);
        assert_eq!(wrap_message(error, 14), "\x1b[1m\x1b[31merror:\x1b[0m the\n   word\n");
        let link = "\x1b]8;;file:///a/b\x1b\\b-4k\x1b]8;;\x1b\\ ends";
        assert_eq!(wrap_message(link, 9), link);
    }

    proptest! {
        #[test]
        fn rows_of_a_message_fit_unless_a_word_does_not_and_nothing_is_lost(
            text in "[a-c` 你\\n]{0,60}",
            columns in 0_usize..30,
        ) {
            let wrapped = wrap_message(&text, columns);
            for row in wrapped.split('\n') {
                let is_one_word = split_words(row.trim_matches(' ')).len() == 1;
                let fits = display_width(row) <= columns;
                prop_assert!(fits || (is_one_word && !row.starts_with(' ')), "{row:?} in {wrapped:?}");
            }
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&wrapped), bare(&text));
        }

        #[test]
        fn rows_contain_every_word_and_are_never_too_wide(
            text in "[a-c 你\u{301}\\n]{0,60}",
            columns in 2_usize..20,
        ) {
            let rows = wrap_text(&text, columns);
            prop_assert!(rows.iter().all(|row| display_width(row) <= columns), "{rows:?}");
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&rows.concat()), bare(&make_visible(&text)));
        }
    }
}
