//! The line being built, with what a terminal does inside a line.

use super::repeated_lines::LineSink;

/// Bytes of one line that are held back for a rewrite; longer lines are given out in pieces of at
/// most this size. 64 KiB.
pub const MAX_HELD_LINE_BYTES: usize = 64 * 1024;

/// The current line.
///
/// After `\r` the next character starts the line anew: the last state is what stays, also where a
/// terminal would leave the end of a longer state visible. What was already given out of an
/// overlong line cannot be taken back; a rewrite then begins on a line of its own.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    text: String,
    /// The beginning of this line was given out.
    is_partly_emitted: bool,
    /// Column and fate of the present state.
    cursor: Cursor,
}

/// Where the next character goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Cursor {
    /// Behind the text.
    #[default]
    End,
    /// At the first column, after `\r`: the next character starts anew.
    Start,
    /// At the first column, after an escape sequence. Starts anew only together with an erasure,
    /// since programs use the sequence alone for other ends too.
    Home,
    /// Behind the text, which was erased; going to the first column starts anew.
    Erased,
}

impl LineBuffer {
    /// Adds characters that are shown as they are.
    pub(super) fn write(&mut self, mut run: &str, out: &mut LineSink<'_>) {
        if run.is_empty() {
            return;
        }
        if self.cursor == Cursor::Start {
            self.restart_line(out);
        }
        self.cursor = Cursor::End;
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

    /// Ends the line.
    pub(super) fn newline(&mut self, out: &mut LineSink<'_>) {
        if self.is_partly_emitted {
            out.push_piece(&self.text);
            out.push_piece("\n");
        } else {
            out.push_line(&self.text);
        }
        self.clear();
    }

    /// Ends the text. A last line without a newline stays one.
    pub(super) fn finish(&mut self, out: &mut LineSink<'_>) {
        if !self.text.is_empty() {
            out.push_piece(&self.text);
        }
        self.clear();
    }

    /// Applies `\r`.
    pub(super) fn carriage_return(&mut self) {
        self.cursor = Cursor::Start;
    }

    /// Applies `\b`: takes the last character back, unless the cursor is at the first column.
    pub(super) fn backspace(&mut self) {
        match self.cursor {
            Cursor::End | Cursor::Erased => {
                let _best_effort = self.text.pop();
            }
            Cursor::Start | Cursor::Home => {}
        }
    }

    /// Applies "cursor to the first column".
    pub(super) fn cursor_home(&mut self) {
        self.cursor = match self.cursor {
            Cursor::End | Cursor::Home => Cursor::Home,
            Cursor::Erased | Cursor::Start => Cursor::Start,
        };
    }

    /// Applies "erase from the cursor to the end".
    pub(super) fn erase_right(&mut self, out: &mut LineSink<'_>) {
        match self.cursor {
            Cursor::Start | Cursor::Home => self.restart_line(out),
            Cursor::End | Cursor::Erased => {}
        }
    }

    /// Applies "erase the whole line".
    pub(super) fn erase_line(&mut self, out: &mut LineSink<'_>) {
        match self.cursor {
            Cursor::Start | Cursor::Home => self.restart_line(out),
            Cursor::End | Cursor::Erased => self.cursor = Cursor::Erased,
        }
    }

    /// The text so far, without what was given out already.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Bytes held.
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
