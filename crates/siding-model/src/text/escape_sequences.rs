//! Removal of terminal control sequences from a stream of characters.
//!
//! ```text
//!            ESC                 [ or U+009B           final @…~
//! Ground ──────────► Escape ────────────────► Csi ─────────────► Ground
//!                      │  ] P X ^ _ k, or their C1
//!                      ├──────────► ControlString ── BEL, ST ──► Ground
//!                      │  space … /
//!                      ├────────────────► Charset ── 0 … ~ ────► Ground
//!                      └─ any other final ─────────────────────► Ground
//! ```
//! CAN and SUB cancel a sequence. A character that is not allowed inside a sequence, such as a
//! newline or a non-ASCII character, ends the sequence and is processed as text. A newline also
//! ends an unterminated string, so that an unterminated title hides only the remainder of its line.

/// A parser of control sequences; the variants are its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum EscapeParser {
    /// Outside of any sequence.
    #[default]
    Ground,
    /// After ESC, before the character that determines the kind of sequence.
    Escape,
    /// After ESC and intermediate bytes, as in a charset selection.
    Charset,
    /// Inside a control sequence.
    Csi(CsiParameter),
    /// Inside a control string: a title, a device control string or an application command.
    ControlString,
}

/// The parameter between `CSI` and the final byte. Only parameters of at most one digit affect the
/// line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CsiParameter {
    /// No parameter has been read.
    None,
    /// The parameter is one digit.
    One(char),
    /// The parameter has more than one digit, or other characters.
    Many,
}

/// The effect of a character on the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CharAction {
    /// Text, or a control character outside of any sequence.
    Print,
    /// Part of a sequence, or a control character that is removed.
    Ignore,
    /// Completes the sequence that moves the cursor to the first column.
    CursorHome,
    /// Completes the sequence that erases from the cursor to the end of the line or screen.
    EraseRight,
    /// Completes the sequence that erases the whole line.
    EraseLine,
}

impl EscapeParser {
    /// Processes the next character, and returns its effect on the current line.
    pub(super) fn step(&mut self, c: char) -> CharAction {
        match (*self, c) {
            (Self::Ground, _) => self.step_ground(c),
            (_, '\x18' | '\x1a') => self.enter_state(Self::Ground),
            // ESC inside a sequence starts a new sequence. `ESC \`, which ends a control string, is
            // removed as such a sequence.
            (_, '\x1b') => self.enter_state(Self::Escape),
            (Self::ControlString, '\x07' | '\u{9c}') => self.enter_state(Self::Ground),
            (Self::ControlString, '\n') => self.abort_sequence(c),
            (Self::ControlString, _) => CharAction::Ignore,
            (Self::Escape, '[') => self.enter_state(Self::Csi(CsiParameter::None)),
            (Self::Escape, ']' | 'P' | 'X' | '^' | '_' | 'k') => {
                self.enter_state(Self::ControlString)
            }
            (Self::Escape | Self::Charset, ' '..='/') => self.enter_state(Self::Charset),
            (Self::Escape | Self::Charset, '0'..='~') => self.enter_state(Self::Ground),
            (Self::Csi(CsiParameter::None), '0'..='9') => {
                self.enter_state(Self::Csi(CsiParameter::One(c)))
            }
            (Self::Csi(_), ' '..='?') => self.enter_state(Self::Csi(CsiParameter::Many)),
            (Self::Csi(parameter), '@'..='~') => {
                *self = Self::Ground;
                csi_action(parameter, c)
            }
            (Self::Escape | Self::Charset | Self::Csi(_), _) => self.abort_sequence(c),
        }
    }

    /// Returns whether the parser is outside of any sequence.
    pub(super) fn is_ground(self) -> bool {
        self == Self::Ground
    }

    /// Returns whether the parser is inside a control sequence, whose parameters are being read.
    pub(super) const fn is_csi(self) -> bool {
        matches!(self, Self::Csi(_))
    }

    fn step_ground(&mut self, c: char) -> CharAction {
        match c {
            '\x1b' => self.enter_state(Self::Escape),
            // Shift in and shift out also select character sets; `tput sgr0` writes shift in.
            '\x0e' | '\x0f' => CharAction::Ignore,
            '\u{9b}' => self.enter_state(Self::Csi(CsiParameter::None)),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.enter_state(Self::ControlString),
            '\u{80}'..='\u{9f}' => CharAction::Ignore,
            _ => CharAction::Print,
        }
    }

    fn enter_state(&mut self, next: Self) -> CharAction {
        *self = next;
        CharAction::Ignore
    }

    fn abort_sequence(&mut self, c: char) -> CharAction {
        *self = Self::Ground;
        self.step_ground(c)
    }
}

/// Returns the effect of a control sequence on the current line. Sequences that set colors, move
/// the cursor elsewhere or query the terminal have none.
fn csi_action(parameter: CsiParameter, last: char) -> CharAction {
    match (last, parameter) {
        ('G' | '`', CsiParameter::None | CsiParameter::One('0' | '1')) => CharAction::CursorHome,
        ('K' | 'J', CsiParameter::None | CsiParameter::One('0')) => CharAction::EraseRight,
        ('K', CsiParameter::One('2')) => CharAction::EraseLine,
        _ => CharAction::Ignore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed_text(text: &str) -> String {
        let mut escapes = EscapeParser::default();
        text.chars().filter(|c| escapes.step(*c) == CharAction::Print).collect()
    }

    #[test]
    fn every_kind_of_sequence_is_removed() {
        for sequence in [
            "\x1b[31m",
            "\x1b[0m",
            "\x1b[m",
            "\x1b[38;2;1;2;3m",
            "\x1b[38:5:12m",
            "\x1b[2J",
            "\x1b[?25l",
            "\x1b[?2004h",
            "\x1b[>4;2m",
            "\x1b[1 q",
            "\x1b[!p",
            "\x1b]0;title\x07",
            "\x1b]0;title\x1b\\",
            "\x1b]8;;https://example.org\x1b\\",
            "\x1bP1$r0m\x1b\\",
            "\x1bPtmux;\x1b\x1b]0;t\x07\x1b\\",
            "\x1b^private\x1b\\",
            "\x1b_application ä\x1b\\",
            "\x1bXstring\x1b\\",
            "\x1bktitle\x1b\\",
            "\x1b(B",
            "\x1b)0",
            "\x1b#8",
            "\x1b%G",
            "\x1b $@",
            "\x1b7",
            "\x1b8",
            "\x1bM",
            "\x1bc",
            "\x1b=",
            "\x1b>",
            "\x1b\x1b[1m",
            "\x1b[31\x18",
            "\x1b]0;ti\x1a",
            "\u{9b}31m",
            "\u{9d}0;title\u{9c}",
            "\u{90}data\u{9c}",
            "\u{98}data\x1b\\",
            "\u{85}",
            "\u{84}",
            "\x0e",
            "\x0f",
        ] {
            assert_eq!(printed_text(&format!("a{sequence}b")), "ab", "{sequence:?}");
        }
    }

    #[test]
    fn an_unterminated_sequence_hides_at_most_its_line() {
        assert_eq!(printed_text("a\x1b]0;title\nb"), "a\nb");
        assert_eq!(printed_text("a\x1b[31\nb"), "a\nb");
        assert_eq!(printed_text("a\x1b\nb"), "a\nb");
        assert_eq!(printed_text("a\x1b(\r\nb"), "a\r\nb");
        assert_eq!(printed_text("a\x1b[12äb"), "aäb");
        assert_eq!(printed_text("a\x1bäb"), "aäb");
        assert_eq!(printed_text("a\x1b[1\u{9b}31mb"), "ab");
    }

    #[test]
    fn redraw_sequences_are_recognized() {
        let meaning = |text: &str| {
            let mut escapes = EscapeParser::default();
            text.chars().map(|c| escapes.step(c)).last()
        };
        for (text, expected) in [
            ("\x1b[G", CharAction::CursorHome),
            ("\x1b[0G", CharAction::CursorHome),
            ("\x1b[1G", CharAction::CursorHome),
            ("\x1b[1`", CharAction::CursorHome),
            ("\x1b[2G", CharAction::Ignore),
            ("\x1b[11G", CharAction::Ignore),
            ("\x1b[K", CharAction::EraseRight),
            ("\x1b[0K", CharAction::EraseRight),
            ("\x1b[0J", CharAction::EraseRight),
            ("\x1b[1K", CharAction::Ignore),
            ("\x1b[2K", CharAction::EraseLine),
            ("\x1b[?K", CharAction::Ignore),
            ("\x1b[2J", CharAction::Ignore),
        ] {
            assert_eq!(meaning(text), Some(expected), "{text:?}");
        }
    }
}
