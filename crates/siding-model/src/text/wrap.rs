//! Wrapping of text to the rows of a screen.

use unicode_width::UnicodeWidthChar as _;

use super::printable::make_visible;

/// Number of blanks that replace a tab.
const TAB_COLUMNS: usize = 4;

/// Returns the number of columns that a text occupies. A control character has width 0.
#[must_use]
pub fn display_width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Returns a character as [`wrap_text`] shows it: invisible characters are escaped as in
/// [`make_visible`], a tab becomes blanks, and a newline is removed.
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

    proptest! {
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
