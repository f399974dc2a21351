//! Emulates a terminal.

use std::fmt;

use siding_model::terminal::TerminalSize;
use siding_model::text::CharStyle;

use crate::interpreter::{Interpreter, REPLACEMENT_STAND_IN};
use crate::restore;
use crate::saved_state::SavedState;
use crate::screen::{Screen, read_row};

/// Number of rows that are kept after they have scrolled off the top of the primary screen.
pub const SCROLLBACK_ROWS: usize = 2_000;
/// Sets the modes in which a row is drawn unchanged, and moves the cursor to the start of its row.
/// The cursor is saved and restored because the sequence that removes the margins moves it.
const USUAL_MODES: &str = "\x1b7\x1b[r\x1b8\x1b[4l\x1b[?7h\x1b(B\x0f\x1b[0m\r";

/// A terminal without a keyboard: interprets bytes and computes the screen.
///
/// The memory depends on the largest size, not on the input: the scroll-back has at most
/// [`SCROLLBACK_ROWS`] rows, and an unterminated sequence is not stored. Any split of the bytes
/// gives the same screen. Invalid UTF-8 is shown as U+FFFD.
pub struct Emulator {
    parser: vte::Parser,
    interpreter: Interpreter,
    /// The first bytes of an incomplete character, at most three.
    incomplete: Vec<u8>,
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulator").field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Emulator {
    /// Returns a blank terminal. A size outside the limits of [`TerminalSize::new`] is changed to
    /// the nearest allowed size.
    #[must_use]
    pub fn new(size: TerminalSize) -> Self {
        Self::with_interpreter(Interpreter::new(size, SCROLLBACK_ROWS))
    }

    fn with_interpreter(interpreter: Interpreter) -> Self {
        Self { parser: vte::Parser::new(), interpreter, incomplete: Vec::new() }
    }

    /// Interprets the next bytes of the output.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.incomplete.is_empty() {
            self.feed_joined(bytes);
        } else {
            let mut joined = std::mem::take(&mut self.incomplete);
            joined.extend_from_slice(bytes);
            self.feed_joined(&joined);
        }
    }

    /// Passes whole characters to the parser: vte loses text after a character that it receives in
    /// two parts.
    fn feed_joined(&mut self, bytes: &[u8]) {
        let (whole, incomplete) = bytes.split_at(bytes.len() - incomplete_suffix_bytes(bytes));
        self.parser.advance(&mut self.interpreter, whole);
        self.interpreter.flush();
        self.incomplete.extend_from_slice(incomplete);
    }

    /// Interprets the next byte. Returns whether the state can be saved after it: the emulator must
    /// certainly be neither within a character nor within a sequence.
    pub(crate) fn feed_byte(&mut self, byte: u8) -> bool {
        self.interpreter.clear_printed();
        self.feed(&[byte]);
        self.interpreter.printed_ascii() == Some(byte)
    }

    /// Returns the state to save. Must be called only directly after [`Self::feed_byte`] has
    /// returned true.
    pub(crate) fn save_state(&self) -> SavedState {
        SavedState::save(&self.interpreter)
    }

    /// Returns an emulator with a saved state; `None` if the state is damaged.
    pub(crate) fn restore_state(state: SavedState) -> Option<Self> {
        state.restore(SCROLLBACK_ROWS).map(Self::with_interpreter)
    }

    /// Changes the size. Lines are cut or extended with blanks, and not wrapped again: a
    /// full-screen program redraws its screen after the change, and the lines of other programs
    /// remain. When the number of rows decreases, rows above the cursor move to the scroll-back;
    /// they return when the number increases.
    pub fn resize(&mut self, size: TerminalSize) {
        self.interpreter.resize(size);
    }

    /// Returns the size.
    #[must_use]
    pub fn size(&self) -> TerminalSize {
        self.interpreter.size()
    }

    /// Returns the present screen.
    #[must_use]
    pub fn screen(&self) -> Screen {
        Screen::read(&self.interpreter)
    }

    /// Returns the text of the newest rows of the scroll-back, oldest first, at most `rows`.
    /// Returns none while the alternate screen is shown.
    #[must_use]
    pub fn scrollback(&self, rows: usize) -> Vec<String> {
        let mut grid = self.interpreter.grid().clone();
        let count = rows.min(grid.scrollback_len());
        let columns = self.size().columns;
        let read = |index: usize| {
            grid.set_scrollback(count - index);
            read_row(&grid, 0, columns).into_text()
        };
        (0..count).map(read).collect()
    }

    /// Returns bytes that draw the newest rows of the scroll-back, at most `rows`, on another
    /// terminal with `height` rows. They start in the row of that terminal's cursor, and move the
    /// content of its screen to its scroll-back. Returns no bytes if there are no such rows, or
    /// while the alternate screen is shown.
    #[must_use]
    pub fn scrollback_bytes(&self, rows: usize, height: u16) -> Vec<u8> {
        let mut grid = self.interpreter.grid().clone();
        let count = rows.min(grid.scrollback_len());
        if count == 0 {
            return Vec::new();
        }
        let mut out = USUAL_MODES.to_owned();
        for index in 0..count {
            grid.set_scrollback(count - index);
            out.push_str("\x1b[K");
            restore::push_row(&grid, 0, &mut CharStyle::default(), &mut out);
            out.push_str("\x1b[0m\r\n");
        }
        out.push_str(&"\n".repeat(usize::from(height).saturating_sub(1)));
        out.replace(REPLACEMENT_STAND_IN, "\u{fffd}").into_bytes()
    }
}

/// Returns the length of an incomplete character at the end of `bytes`.
fn incomplete_suffix_bytes(bytes: &[u8]) -> usize {
    let is_incomplete = |length: &usize| {
        bytes.len().checked_sub(*length).is_some_and(|start| {
            str::from_utf8(&bytes[start..])
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
    };
    (1..=3).rev().find(is_incomplete).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_start_of_a_valid_character_is_incomplete() {
        for (bytes, length) in [
            (&b""[..], 0),
            (b"abc", 0),
            (b"a\xc3", 1),
            (b"a\xe2\x82", 2),
            (b"\xf0\x9f\x98", 3),
            (b"\xe2\x82\xac", 0),
            (b"a\x82", 0),
            (b"\xff", 0),
            (b"\xe2\x28", 0),
            (b"\xe2\xe2\x82", 2),
        ] {
            assert_eq!(incomplete_suffix_bytes(bytes), length, "{bytes:x?}");
        }
    }
}
