//! The line that a person writes.

use siding_model::text::{display_width, visible_char};

/// Prompts that can be called back.
const REMEMBERED: usize = 200;
/// Bytes of a prompt.
const MOST: usize = 1 << 20;

/// What a person writes, and has written.
#[derive(Debug, Default)]
pub(super) struct Input {
    text: String,
    /// Byte before which the cursor stands.
    at: usize,
    /// The last one last.
    sent: Vec<String>,
    /// Which of them is shown, and what was being written before.
    called: Option<(usize, String)>,
}

impl Input {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds text at the cursor. Of characters without a shape only line feeds and tabs are taken.
    pub(super) fn insert(&mut self, text: &str) {
        let taken: String =
            text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        if self.text.len() + taken.len() <= MOST {
            self.text.insert_str(self.at, &taken);
            self.at += taken.len();
        }
    }

    /// Takes all of it, and remembers it.
    pub(super) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.clear();
        self.remember(&text);
        text
    }

    /// Keeps a prompt so that it can be called back.
    pub(super) fn remember(&mut self, text: &str) {
        if self.sent.last().is_none_or(|last| last != text) {
            self.sent.push(text.to_owned());
        }
        let too_many = self.sent.len().saturating_sub(REMEMBERED);
        self.sent.drain(..too_many);
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.at = 0;
        self.called = None;
    }

    pub(super) fn left(&mut self) {
        self.at = self.before(self.at);
    }

    pub(super) fn right(&mut self) {
        self.at = self.after(self.at);
    }

    pub(super) fn home(&mut self) {
        self.at = self.text[..self.at].rfind('\n').map_or(0, |feed| feed + 1);
    }

    pub(super) fn end(&mut self) {
        self.at = self.text[self.at..].find('\n').map_or(self.text.len(), |feed| self.at + feed);
    }

    pub(super) fn word_left(&mut self) {
        let before = self.text[..self.at].trim_end();
        self.at = before.rfind(char::is_whitespace).map_or(0, |blank| self.after(blank));
    }

    pub(super) fn word_right(&mut self) {
        let after = &self.text[self.at..];
        let word = after.find(|c: char| !c.is_whitespace()).unwrap_or(after.len());
        let len = after[word..].find(char::is_whitespace).unwrap_or(after.len() - word);
        self.at += word + len;
    }

    pub(super) fn backspace(&mut self) {
        let from = self.before(self.at);
        self.remove(from, self.at);
    }

    pub(super) fn delete(&mut self) {
        self.remove(self.at, self.after(self.at));
    }

    /// Removes the word before the cursor.
    pub(super) fn delete_word(&mut self) {
        let to = self.at;
        self.word_left();
        self.remove(self.at, to);
    }

    /// Removes the line before the cursor.
    pub(super) fn delete_to_start(&mut self) {
        let to = self.at;
        self.home();
        self.remove(self.at, to);
    }

    /// Removes the line behind the cursor.
    pub(super) fn delete_to_end(&mut self) {
        let from = self.at;
        self.end();
        self.remove(from, self.at);
    }

    /// Calls back what was sent before.
    pub(super) fn up(&mut self) {
        let at = self.called.as_ref().map_or(self.sent.len(), |(at, _)| *at);
        let Some(earlier) = at.checked_sub(1) else { return };
        let written = match self.called.take() {
            Some((_, written)) => written,
            None => std::mem::take(&mut self.text),
        };
        self.called = Some((earlier, written));
        self.show(earlier);
    }

    /// Goes back towards what was being written.
    pub(super) fn down(&mut self) {
        let Some((at, written)) = self.called.take() else { return };
        if at + 1 < self.sent.len() {
            self.called = Some((at + 1, written));
            self.show(at + 1);
        } else {
            self.text = written;
            self.at = self.text.len();
        }
    }

    fn show(&mut self, which: usize) {
        self.text = self.sent.get(which).cloned().unwrap_or_default();
        self.at = self.text.len();
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.at = from;
    }

    fn before(&self, at: usize) -> usize {
        self.text[..at].chars().next_back().map_or(0, |c| at - c.len_utf8())
    }

    fn after(&self, at: usize) -> usize {
        self.text[at..].chars().next().map_or(at, |c| at + c.len_utf8())
    }

    /// Returns it in rows of `columns`, and the row and column of the cursor, which is inside of them.
    pub(super) fn rows(&self, columns: usize) -> (Vec<String>, (usize, usize)) {
        let columns = columns.max(2);
        let mut rows = vec![String::new()];
        let (mut used, mut cursor) = (0, (0, 0));
        for (at, c) in self.text.char_indices().chain([(self.text.len(), '\n')]) {
            let cell = visible_char(c);
            let wide = display_width(&cell);
            // The cursor needs a column of its own, also behind the last character.
            if used + wide > columns || (wide == 0 && used == columns && at == self.at) {
                rows.push(String::new());
                used = 0;
            }
            if at == self.at {
                cursor = (rows.len() - 1, used.min(columns - 1));
            }
            if c == '\n' {
                if at < self.text.len() {
                    rows.push(String::new());
                    used = 0;
                }
                continue;
            }
            // An escape may be wider than all there is.
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

    fn written(text: &str) -> Input {
        let mut input = Input::default();
        input.insert(text);
        input
    }

    #[test]
    fn words_and_lines_are_removed_where_the_cursor_stands() {
        let mut input = written("one two  three");
        input.word_left();
        input.delete_word();
        assert_eq!((input.text(), input.at), ("one three", 4));
        input.delete_to_start();
        assert_eq!(input.text(), "three");
        input.right();
        input.delete_to_end();
        input.backspace();
        input.delete();
        assert_eq!(input.text(), "");
        let mut lines = written("ab\ncd\nef");
        lines.left();
        lines.home();
        lines.left();
        lines.home();
        lines.delete_to_end();
        assert_eq!(lines.text(), "ab\n\nef");
    }

    #[test]
    fn what_was_sent_is_called_back_and_what_was_written_is_kept() {
        let mut input = written("first");
        assert_eq!(input.take(), "first");
        input.insert("second");
        input.take();
        input.insert("draft");
        input.up();
        assert_eq!(input.text(), "second");
        input.up();
        input.up();
        assert_eq!(input.text(), "first");
        input.down();
        input.down();
        input.down();
        assert_eq!(input.text(), "draft");
    }

    #[test]
    fn rows_are_as_wide_as_the_terminal_and_hold_the_cursor() {
        assert_eq!(written("abcd").rows(4), (vec!["abcd".to_owned(), String::new()], (1, 0)));
        assert_eq!(written("你好").rows(3), (vec!["你".to_owned(), "好".to_owned()], (1, 2)));
        assert_eq!(written("a\nb").rows(9), (vec!["a".to_owned(), "b".to_owned()], (1, 1)));
        assert_eq!(written("a\x1b[2Jb\u{7}").text(), "a[2Jb", "nothing that moves a cursor");
    }

    proptest! {
        #[test]
        fn no_editing_leaves_the_text_or_the_screen(
            steps in prop::collection::vec((0_u8..16, "[a-b 你\u{301}\\n\\t]{0,6}"), 0..40),
            columns in 2_usize..12,
        ) {
            let mut input = Input::default();
            for (step, text) in steps {
                match step {
                    0..4 => input.insert(&text),
                    4 => input.left(),
                    5 => input.right(),
                    6 => input.home(),
                    7 => input.end(),
                    8 => input.word_left(),
                    9 => input.word_right(),
                    10 => input.backspace(),
                    11 => input.delete(),
                    12 => input.delete_word(),
                    13 => input.delete_to_start(),
                    14 => input.up(),
                    _ => drop(input.take()),
                }
                prop_assert!(input.text.is_char_boundary(input.at));
                let (rows, (row, column)) = input.rows(columns);
                prop_assert!(row < rows.len() && column < columns);
                prop_assert!(rows.iter().all(|row| display_width(row) <= columns), "{:?}", rows);
            }
        }
    }
}
