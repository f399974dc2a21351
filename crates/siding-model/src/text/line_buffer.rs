//! The current line of output, to which control characters and escape sequences are applied as in a
//! terminal.

use super::repeated_lines::LineSink;

/// Maximum number of bytes of a line that are buffered because the line may be rewritten. A longer
/// line is emitted in pieces of at most this size.
pub const MAX_HELD_LINE_BYTES: usize = 64 * 1024;

/// The part of the current line that has not been emitted yet.
///
/// The first character after `\r` replaces the whole line, although a terminal would overwrite only
/// as many columns as the new text has. The emitted part of an overlong line cannot be replaced, so
/// the new text then starts on a line of its own.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    text: String,
    /// Whether the beginning of the current line has already been emitted.
    is_partly_emitted: bool,
    /// Position at which the next character is written.
    cursor: Cursor,
    /// The encoded colors that arrived while the cursor was not after the text. They precede the
    /// next character.
    next_color: String,
}

/// The position of the cursor, and the sequence that moved it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Cursor {
    /// After the last character of the text.
    #[default]
    End,
    /// At the first column, after `\r`: the next character restarts the line.
    Start,
    /// At the first column, after an escape sequence. The line restarts only after an additional
    /// erasure, because programs also send this sequence without redrawing the line.
    Home,
    /// After a text that was erased. A move to the first column restarts the line.
    Erased,
}

impl LineBuffer {
    /// Adds characters that are displayed unchanged.
    pub(super) fn write(&mut self, run: &str, out: &mut LineSink<'_>) {
        if run.is_empty() {
            return;
        }
        if self.cursor == Cursor::Start {
            self.restart_line(out);
        }
        self.cursor = Cursor::End;
        if !self.next_color.is_empty() {
            let color = std::mem::take(&mut self.next_color);
            self.push_run(&color, out);
        }
        self.push_run(run, out);
    }

    /// Adds an encoded color. Unlike a character it does not restart the line.
    pub(super) fn write_color(&mut self, color: &str, out: &mut LineSink<'_>) {
        if self.cursor == Cursor::End {
            self.push_run(color, out);
        } else if self.next_color.len() + color.len() <= MAX_HELD_LINE_BYTES {
            self.next_color.push_str(color);
        }
    }

    fn push_run(&mut self, mut run: &str, out: &mut LineSink<'_>) {
        loop {
            let room = MAX_HELD_LINE_BYTES - self.text.len();
            if run.len() <= room {
                self.text.push_str(run);
                return;
            }
            let (fits, rest) = run.split_at(run.floor_char_boundary(room));
            self.text.push_str(fits);
            out.push_piece(&self.text);
            self.text.clear();
            self.is_partly_emitted = true;
            run = rest;
        }
    }

    /// Emits the line with a newline, and starts an empty line.
    pub(super) fn newline(&mut self, out: &mut LineSink<'_>) {
        self.append_next_color();
        if self.is_partly_emitted {
            out.push_piece(&self.text);
            out.push_piece("\n");
        } else {
            out.push_line(&self.text);
        }
        self.clear();
    }

    /// Emits the last line, which has no newline.
    pub(super) fn finish(&mut self, out: &mut LineSink<'_>) {
        self.append_next_color();
        if !self.text.is_empty() {
            out.push_piece(&self.text);
        }
        self.clear();
    }

    /// Appends the colors that no character of this line has followed.
    fn append_next_color(&mut self) {
        self.text.push_str(&self.next_color);
        self.next_color.clear();
    }

    /// Applies `\r`: the next character restarts the line.
    pub(super) fn carriage_return(&mut self) {
        self.cursor = Cursor::Start;
    }

    /// Applies `\b`: removes the last character, unless the cursor is at the first column.
    pub(super) fn backspace(&mut self) {
        match self.cursor {
            Cursor::End | Cursor::Erased => {
                let _best_effort = self.text.pop();
            }
            Cursor::Start | Cursor::Home => {}
        }
    }

    /// Applies the escape sequence that moves the cursor to the first column.
    pub(super) fn cursor_home(&mut self) {
        self.cursor = match self.cursor {
            Cursor::End | Cursor::Home => Cursor::Home,
            Cursor::Erased | Cursor::Start => Cursor::Start,
        };
    }

    /// Applies the escape sequence that erases from the cursor to the end of the line.
    pub(super) fn erase_right(&mut self, out: &mut LineSink<'_>) {
        match self.cursor {
            Cursor::Start | Cursor::Home => self.restart_line(out),
            Cursor::End | Cursor::Erased => {}
        }
    }

    /// Applies the escape sequence that erases the whole line.
    pub(super) fn erase_line(&mut self, out: &mut LineSink<'_>) {
        match self.cursor {
            Cursor::Start | Cursor::Home => self.restart_line(out),
            Cursor::End | Cursor::Erased => self.cursor = Cursor::Erased,
        }
    }

    /// Returns the part of the line that has not been emitted yet.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the allocated size of the buffered text, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.text.capacity()
    }

    fn restart_line(&mut self, out: &mut LineSink<'_>) {
        if self.is_partly_emitted {
            out.push_piece("\n");
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.text.clear();
        self.is_partly_emitted = false;
        self.cursor = Cursor::End;
    }
}
