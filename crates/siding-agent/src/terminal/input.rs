//! The input line: the text that a person edits, and the history of prompts.

use siding_model::text::{display_width, visible_char};

/// Maximum number of prompts in the history.
const MAX_HISTORY_PROMPTS: usize = 200;
/// Maximum bytes of a prompt; an insertion that would exceed this limit is ignored.
const MAX_PROMPT_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct InputLine {
    text: String,
    /// Byte offset of the cursor, always at the boundary of a character.
    cursor: usize,
    /// Earlier prompts, the newest last.
    history: Vec<String>,
    /// The index of the prompt shown from the history, and the hidden draft; `None` while the draft
    /// is shown.
    recalled: Option<(usize, String)>,
}

impl InputLine {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Inserts text at the cursor. Control characters other than line feeds and tabs are removed.
    pub(super) fn insert(&mut self, text: &str) {
        let taken: String =
            text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        if self.text.len() + taken.len() <= MAX_PROMPT_BYTES {
            self.text.insert_str(self.cursor, &taken);
            self.cursor += taken.len();
        }
    }

    /// Returns the text, adds it to the history and clears the line.
    pub(super) fn submit(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.clear();
        self.add_to_history(&text);
        text
    }

    /// Adds a prompt to the history, unless the newest prompt is equal.
    pub(super) fn add_to_history(&mut self, text: &str) {
        if self.history.last().is_none_or(|last| last != text) {
            self.history.push(text.to_owned());
        }
        let too_many = self.history.len().saturating_sub(MAX_HISTORY_PROMPTS);
        self.history.drain(..too_many);
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
        self.recalled = None;
    }

    pub(super) fn move_left(&mut self) {
        self.cursor = self.previous_char(self.cursor);
    }

    pub(super) fn move_right(&mut self) {
        self.cursor = self.next_char(self.cursor);
    }

    pub(super) fn move_home(&mut self) {
        self.cursor = self.text[..self.cursor].rfind('\n').map_or(0, |feed| feed + 1);
    }

    pub(super) fn move_end(&mut self) {
        self.cursor =
            self.text[self.cursor..].find('\n').map_or(self.text.len(), |feed| self.cursor + feed);
    }

    pub(super) fn move_word_left(&mut self) {
        let before = self.text[..self.cursor].trim_end();
        self.cursor = before.rfind(char::is_whitespace).map_or(0, |blank| self.next_char(blank));
    }

    pub(super) fn move_word_right(&mut self) {
        let after = &self.text[self.cursor..];
        let word = after.find(|c: char| !c.is_whitespace()).unwrap_or(after.len());
        let len = after[word..].find(char::is_whitespace).unwrap_or(after.len() - word);
        self.cursor += word + len;
    }

    pub(super) fn backspace(&mut self) {
        let from = self.previous_char(self.cursor);
        self.remove_range(from, self.cursor);
    }

    pub(super) fn delete(&mut self) {
        self.remove_range(self.cursor, self.next_char(self.cursor));
    }

    /// Removes the word before the cursor.
    pub(super) fn delete_word(&mut self) {
        let to = self.cursor;
        self.move_word_left();
        self.remove_range(self.cursor, to);
    }

    /// Removes the text from the start of the line to the cursor.
    pub(super) fn delete_to_start(&mut self) {
        let to = self.cursor;
        self.move_home();
        self.remove_range(self.cursor, to);
    }

    /// Removes the text from the cursor to the end of the line.
    pub(super) fn delete_to_end(&mut self) {
        let from = self.cursor;
        self.move_end();
        self.remove_range(from, self.cursor);
    }

    /// Shows the previous prompt of the history.
    pub(super) fn history_previous(&mut self) {
        let at = self.recalled.as_ref().map_or(self.history.len(), |(at, _)| *at);
        let Some(earlier) = at.checked_sub(1) else { return };
        let written = match self.recalled.take() {
            Some((_, written)) => written,
            None => std::mem::take(&mut self.text),
        };
        self.recalled = Some((earlier, written));
        self.show_history(earlier);
    }

    /// Shows the next prompt of the history, or the draft after the last one.
    pub(super) fn history_next(&mut self) {
        let Some((at, written)) = self.recalled.take() else { return };
        if at + 1 < self.history.len() {
            self.recalled = Some((at + 1, written));
            self.show_history(at + 1);
        } else {
            self.text = written;
            self.cursor = self.text.len();
        }
    }

    fn show_history(&mut self, which: usize) {
        self.text = self.history.get(which).cloned().unwrap_or_default();
        self.cursor = self.text.len();
    }

    fn remove_range(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn previous_char(&self, at: usize) -> usize {
        self.text[..at].chars().next_back().map_or(0, |c| at - c.len_utf8())
    }

    fn next_char(&self, at: usize) -> usize {
        self.text[at..].chars().next().map_or(at, |c| at + c.len_utf8())
    }

    /// Returns the text wrapped to `columns`, and the row and column of the cursor within it.
    pub(super) fn wrapped_rows(&self, columns: usize) -> (Vec<String>, (usize, usize)) {
        let columns = columns.max(2);
        let mut rows = vec![String::new()];
        let (mut used, mut cursor) = (0, (0, 0));
        for (at, c) in self.text.char_indices().chain([(self.text.len(), '\n')]) {
            let cell = visible_char(c);
            let wide = display_width(&cell);
            // After a last character that fills the row, the cursor needs a column in a new row.
            if used + wide > columns || (wide == 0 && used == columns && at == self.cursor) {
                rows.push(String::new());
                used = 0;
            }
            if at == self.cursor {
                cursor = (rows.len() - 1, used.min(columns - 1));
            }
            if c == '\n' {
                if at < self.text.len() {
                    rows.push(String::new());
                    used = 0;
                }
                continue;
            }
            // The escaped form of a character may be wider than the row, so it is split.
            for part in cell.chars() {
                let one = display_width(part.encode_utf8(&mut [0; 4]));
                if used + one > columns {
                    rows.push(String::new());
                    used = 0;
                }
                if let Some(row) = rows.last_mut() {
                    row.push(part);
                }
                used += one;
            }
        }
        (rows, cursor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn input_with(text: &str) -> InputLine {
        let mut input = InputLine::default();
        input.insert(text);
        input
    }

    #[test]
    fn words_and_lines_are_removed_at_the_cursor() {
        let mut input = input_with("one two  three");
        input.move_word_left();
        input.delete_word();
        assert_eq!((input.text(), input.cursor), ("one three", 4));
        input.delete_to_start();
        assert_eq!(input.text(), "three");
        input.move_right();
        input.delete_to_end();
        input.backspace();
        input.delete();
        assert_eq!(input.text(), "");
        let mut lines = input_with("ab\ncd\nef");
        lines.move_left();
        lines.move_home();
        lines.move_left();
        lines.move_home();
        lines.delete_to_end();
        assert_eq!(lines.text(), "ab\n\nef");
    }

    #[test]
    fn history_recalls_sent_prompts_and_keeps_the_draft() {
        let mut input = input_with("first");
        assert_eq!(input.submit(), "first");
        input.insert("second");
        input.submit();
        input.insert("draft");
        input.history_previous();
        assert_eq!(input.text(), "second");
        input.history_previous();
        input.history_previous();
        assert_eq!(input.text(), "first");
        input.history_next();
        input.history_next();
        input.history_next();
        assert_eq!(input.text(), "draft");
    }

    #[test]
    fn rows_fit_the_terminal_and_contain_the_cursor() {
        assert_eq!(
            input_with("abcd").wrapped_rows(4),
            (vec!["abcd".to_owned(), String::new()], (1, 0))
        );
        assert_eq!(
            input_with("你好").wrapped_rows(3),
            (vec!["你".to_owned(), "好".to_owned()], (1, 2))
        );
        assert_eq!(
            input_with("a\nb").wrapped_rows(9),
            (vec!["a".to_owned(), "b".to_owned()], (1, 1))
        );
        assert_eq!(input_with("a\x1b[2Jb\u{7}").text(), "a[2Jb", "nothing that moves a cursor");
    }

    proptest! {
        #[test]
        fn editing_keeps_the_cursor_inside_text_and_screen(
            steps in prop::collection::vec((0_u8..16, "[a-b 你\u{301}\\n\\t]{0,6}"), 0..40),
            columns in 2_usize..12,
        ) {
            let mut input = InputLine::default();
            for (step, text) in steps {
                match step {
                    0..4 => input.insert(&text),
                    4 => input.move_left(),
                    5 => input.move_right(),
                    6 => input.move_home(),
                    7 => input.move_end(),
                    8 => input.move_word_left(),
                    9 => input.move_word_right(),
                    10 => input.backspace(),
                    11 => input.delete(),
                    12 => input.delete_word(),
                    13 => input.delete_to_start(),
                    14 => input.history_previous(),
                    _ => drop(input.submit()),
                }
                prop_assert!(input.text.is_char_boundary(input.cursor));
                let (rows, (row, column)) = input.wrapped_rows(columns);
                prop_assert!(row < rows.len() && column < columns);
                prop_assert!(rows.iter().all(|row| display_width(row) <= columns), "{:?}", rows);
            }
        }
    }
}
