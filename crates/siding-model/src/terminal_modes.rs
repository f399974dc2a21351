//! The modes of a terminal that the output of a command has changed.
//!
//! A full-screen program restores the terminal when it exits by itself. If it is killed or moved to
//! the background instead, the program that passed its output to the terminal must do so.

use std::collections::BTreeSet;

use crate::terminal::ALTERNATE_SCREEN_MODES;
use crate::terminal::sequence::{Sequence, SequenceParser};

/// The private modes (DECSET) of a terminal that are restored, with their usual state: application
/// cursor keys, automatic wrapping, the cursor, the alternate screen in three forms, the mouse, the
/// focus, and bracketed paste.
const RESTORED_MODES: [(u16, bool); 17] = [
    (1, false),
    (7, true),
    (9, false),
    (25, true),
    (47, false),
    (1000, false),
    (1001, false),
    (1002, false),
    (1003, false),
    (1004, false),
    (1005, false),
    (1006, false),
    (1015, false),
    (1016, false),
    (1047, false),
    (1049, false),
    (2004, false),
];
/// The last bytes of the control sequences that move the cursor to another row or erase text.
const MOVING_SEQUENCES: &[u8] = b"ABEFHJKLMSTdf";

/// The changed modes, and the parser of the output, whose bytes may be split anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalModes {
    parser: SequenceParser,
    changes: ModeChanges,
    /// Whether the output has moved the cursor or erased text other than by writing lines.
    has_moved_cursor: bool,
}

/// The modes whose state is not the usual one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ModeChanges {
    /// The private modes.
    private: BTreeSet<u16>,
    /// Whether the keypad sends application sequences (DECKPAM).
    is_keypad_changed: bool,
}

impl TerminalModes {
    /// Processes bytes that were written to the terminal.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.parser.step(byte) {
                Some(Sequence::Escape(last)) => self.changes.apply_escape(last),
                Some(Sequence::Csi { parameters, last }) => {
                    self.changes.apply_csi(parameters, last);
                    self.has_moved_cursor |= MOVING_SEQUENCES.contains(&last);
                }
                Some(Sequence::ControlString { .. }) | None => {}
            }
        }
    }

    /// Returns whether the terminal shows the alternate screen, as for an editor or a pager.
    #[must_use]
    pub fn is_alternate_screen(&self) -> bool {
        ALTERNATE_SCREEN_MODES.iter().any(|mode| self.changes.private.contains(mode))
    }

    /// Returns whether the output has ended within an escape sequence.
    #[must_use]
    pub const fn is_in_sequence(&self) -> bool {
        !self.parser.is_ground()
    }

    /// Returns whether the output has moved the cursor to another row, or has erased text. Other
    /// text between its lines would then corrupt the screen.
    #[must_use]
    pub const fn has_moved_cursor(&self) -> bool {
        self.has_moved_cursor
    }

    /// Returns the sequences that set the changed modes again after [`Self::take_reset`]. They do
    /// not include the content of an alternate screen.
    #[must_use]
    pub fn changes_text(&self) -> String {
        let mut text = String::new();
        for mode in &self.changes.private {
            let is_usually_set = RESTORED_MODES.contains(&(*mode, true));
            text.push_str(&format!("\x1b[?{mode}{}", if is_usually_set { 'l' } else { 'h' }));
        }
        if self.changes.is_keypad_changed {
            text.push_str("\x1b=");
        }
        text
    }

    /// Returns the sequences that restore the changed modes, and forgets these modes. Returns an
    /// empty text if no mode has changed.
    pub fn take_reset(&mut self) -> String {
        let mut reset = String::new();
        if self.is_alternate_screen() {
            // The margins apply to both screens. Their reset moves the cursor, whose position the
            // reset of mode 1049 restores.
            reset.push_str("\x1b[r");
        }
        for mode in &self.changes.private {
            let is_usually_set = RESTORED_MODES.contains(&(*mode, true));
            reset.push_str(&format!("\x1b[?{mode}{}", if is_usually_set { 'h' } else { 'l' }));
        }
        if self.changes.is_keypad_changed {
            reset.push_str("\x1b>");
        }
        if !reset.is_empty() && !self.parser.is_ground() {
            // CAN cancels the escape sequence that the command has left incomplete.
            reset.insert(0, '\x18');
        }
        *self = Self::default();
        reset
    }
}

impl ModeChanges {
    /// Applies an escape sequence of two bytes, of which `byte` is the second one.
    fn apply_escape(&mut self, byte: u8) {
        match byte {
            b'=' => self.is_keypad_changed = true,
            b'>' => self.is_keypad_changed = false,
            // The full reset (RIS).
            b'c' => {
                self.private.clear();
                self.is_keypad_changed = false;
            }
            _ => {}
        }
    }

    /// Applies a control sequence: sets or resets its private modes.
    fn apply_csi(&mut self, parameters: &[u8], last: u8) {
        let is_set = match last {
            b'h' => true,
            b'l' => false,
            _ => return,
        };
        let Some(modes) = parameters.strip_prefix(b"?") else { return };
        for mode in modes.split(|byte| *byte == b';') {
            let number = std::str::from_utf8(mode).ok().and_then(|mode| mode.parse::<u16>().ok());
            let known = RESTORED_MODES.iter().find(|(mode, _)| Some(*mode) == number);
            let Some((mode, is_usually_set)) = known else { continue };
            if is_set == *is_usually_set {
                self.private.remove(mode);
            } else {
                self.private.insert(*mode);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sequences that an editor writes at its start and at its end.
    const START: &[u8] =
        b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?1000;1006h\x1b[?25l\x1b[1;24rtext";
    const END: &[u8] = b"\x1b[?1000;1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[?25h\x1b[?1049l";

    fn modes_after(output: &[u8]) -> TerminalModes {
        let mut modes = TerminalModes::default();
        modes.feed(output);
        modes
    }

    #[test]
    fn the_modes_of_a_full_screen_program_are_restored_once() {
        let mut modes = modes_after(START);
        assert!(modes.is_alternate_screen());
        let reset = "\x1b[r\x1b[?1l\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?1049l\x1b[?2004l\x1b>";
        assert_eq!(modes.take_reset(), reset);
        assert!(!modes.is_alternate_screen());
        assert_eq!(modes.take_reset(), "");
    }

    #[test]
    fn nothing_is_restored_after_a_program_that_has_restored_the_terminal() {
        assert_eq!(modes_after(&[START, END].concat()).take_reset(), "");
        assert_eq!(modes_after(&[START, b"\x1bc"].concat()).take_reset(), "");
    }

    #[test]
    fn changed_modes_can_be_set_again() {
        let modes = modes_after(b"\x1b[?2004h\x1b[?25l\x1b=");
        let text = modes.changes_text();
        assert_eq!(text, "\x1b[?25l\x1b[?2004h\x1b=");
        assert_eq!(modes_after(text.as_bytes()).take_reset(), modes.clone().take_reset());
    }

    #[test]
    fn a_picture_of_several_rows_is_recognized() {
        assert!(!modes_after(b"a\r\n\x1b[31mb\x1b[m 50%\r").has_moved_cursor());
        assert!(modes_after(b"a\r\nb\r\n\x1b[2A").has_moved_cursor());
    }

    #[test]
    fn other_output_changes_no_mode() {
        for output in [
            &b"\x1b[1;31mred\x1b[0m\x1b[2K\r\n"[..],
            b"?1049h \x1b[1049h \x1b[?12h \x1b[?99999999h",
            b"\x1b]0;\x9b?1049h title\x07",
            b"\x1b]0;[?1049h\x1b\\",
            b"\x1b[?10\x1849h",
        ] {
            assert_eq!(modes_after(output).take_reset(), "", "{output:?}");
        }
    }

    #[test]
    fn an_incomplete_sequence_is_canceled_before_the_reset() {
        assert_eq!(modes_after(b"\x1b[?25l\x1b]0;title").take_reset(), "\x18\x1b[?25h");
        assert_eq!(modes_after(b"\x1b]0;title").take_reset(), "");
    }

    #[test]
    fn the_end_of_the_output_is_within_a_sequence_until_its_last_byte() {
        for (output, is_in_sequence) in
            [(&b"x"[..], false), (b"x\x1b", true), (b"\x1b[31", true), (b"\x1b[31m", false)]
        {
            assert_eq!(modes_after(output).is_in_sequence(), is_in_sequence, "{output:?}");
        }
    }

    proptest! {
        #[test]
        fn the_split_of_the_output_does_not_matter(cut in 0..START.len() + END.len()) {
            let output = [START, END].concat();
            let (first, rest) = output.split_at(cut);
            let mut modes = modes_after(first);
            modes.feed(rest);
            prop_assert_eq!(modes, modes_after(&output));
        }

        /// The reset restores every mode that the output has changed.
        #[test]
        fn the_terminal_is_usual_after_the_reset(
            parts in prop::collection::vec(prop::sample::select(vec![
                &b"\x1b[?"[..], b"1049", b"25", b"7", b"1000;1003", b"h", b"l", b"\x1b=", b"\x1b]", b"x",
            ]), 0..20),
        ) {
            let output = parts.concat();
            let reset = modes_after(&output).take_reset();
            let after = modes_after(&[&output, reset.as_bytes()].concat()).take_reset();
            prop_assert_eq!(after, "");
        }
    }
}
