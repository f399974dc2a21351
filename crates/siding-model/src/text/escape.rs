//! Terminal control sequences, taken out of a stream of characters.
//!
//! ```text
//!            ESC                 [ or U+009B           final @…~
//! Ground ──────────► Escape ────────────────► Csi ─────────────► Ground
//!                      │  ] P X ^ _ k, or their C1
//!                      ├────────────────► Text ── BEL, ST ─────► Ground
//!                      │  space … /
//!                      ├────────────────► Charset ── 0 … ~ ────► Ground
//!                      └─ any other final ─────────────────────► Ground
//! ```
//! CAN and SUB cancel a sequence. A newline, a non-ASCII character or a control character ends a
//! sequence that cannot contain it and is then taken for itself. A newline also ends a string that
//! was never terminated, so a broken title hides no more than the rest of its own line.

/// Where the parser stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Escapes {
    /// Outside of any sequence.
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After ESC and intermediate bytes, as in a charset selection.
    Charset,
    /// Inside a control sequence.
    Csi(Parameter),
    /// Inside a string: a title, a device control string, an application's message.
    Text,
}

/// What has been seen between `CSI` and its final byte. Only a single digit means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// Nothing yet.
    None,
    /// One digit.
    One(char),
    /// More than one digit.
    Many,
}

/// What a character means to the line being built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is text, or a control character outside of any sequence.
    Itself,
    /// It is part of a sequence.
    Nothing,
    /// It completes "cursor to the first column".
    Home,
    /// It completes "erase from the cursor to the end of the line" (or of the screen).
    EraseRight,
    /// It completes "erase the whole line".
    EraseLine,
}

impl Escapes {
    /// Takes the next character.
    pub(super) fn step(&mut self, c: char) -> Meaning {
        match (*self, c) {
            (Self::Ground, _) => self.ground(c),
            (_, '\x18' | '\x1a') => self.enter(Self::Ground),
            // ESC inside of anything begins anew; ESC \ after a string is its end.
            (_, '\x1b') => self.enter(Self::Escape),
            (Self::Text, '\x07' | '\u{9c}') => self.enter(Self::Ground),
            (Self::Text, '\n') => self.leave(c),
            (Self::Text, _) => Meaning::Nothing,
            (Self::Escape, '[') => self.enter(Self::Csi(Parameter::None)),
            (Self::Escape, ']' | 'P' | 'X' | '^' | '_' | 'k') => self.enter(Self::Text),
            (Self::Escape | Self::Charset, ' '..='/') => self.enter(Self::Charset),
            (Self::Escape | Self::Charset, '0'..='~') => self.enter(Self::Ground),
            (Self::Csi(Parameter::None), '0'..='9') => self.enter(Self::Csi(Parameter::One(c))),
            (Self::Csi(_), ' '..='?') => self.enter(Self::Csi(Parameter::Many)),
            (Self::Csi(parameter), '@'..='~') => {
                *self = Self::Ground;
                finished(parameter, c)
            }
            (Self::Escape | Self::Charset | Self::Csi(_), _) => self.leave(c),
        }
    }

    /// Returns whether the next character is outside of any sequence.
    pub(super) fn is_ground(self) -> bool {
        self == Self::Ground
    }

    fn ground(&mut self, c: char) -> Meaning {
        match c {
            '\x1b' => self.enter(Self::Escape),
            // Shift in and shift out select charsets too: `tput sgr0` writes one.
            '\x0e' | '\x0f' => Meaning::Nothing,
            '\u{9b}' => self.enter(Self::Csi(Parameter::None)),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.enter(Self::Text),
            '\u{80}'..='\u{9f}' => Meaning::Nothing,
            _ => Meaning::Itself,
        }
    }

    fn enter(&mut self, next: Self) -> Meaning {
        *self = next;
        Meaning::Nothing
    }

    fn leave(&mut self, c: char) -> Meaning {
        *self = Self::Ground;
        self.ground(c)
    }
}

/// Returns what a control sequence does to a line: the few that redraw it matter, all others only
/// colour, move or ask.
fn finished(parameter: Parameter, last: char) -> Meaning {
    match (last, parameter) {
        ('G' | '`', Parameter::None | Parameter::One('0' | '1')) => Meaning::Home,
        ('K' | 'J', Parameter::None | Parameter::One('0')) => Meaning::EraseRight,
        ('K', Parameter::One('2')) => Meaning::EraseLine,
        _ => Meaning::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(text: &str) -> String {
        let mut escapes = Escapes::default();
        text.chars().filter(|c| escapes.step(*c) == Meaning::Itself).collect()
    }

    #[test]
    fn every_kind_of_sequence_is_taken_out() {
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
            assert_eq!(visible(&format!("a{sequence}b")), "ab", "{sequence:?}");
        }
    }

    #[test]
    fn a_broken_sequence_hides_no_more_than_its_line() {
        assert_eq!(visible("a\x1b]0;title\nb"), "a\nb");
        assert_eq!(visible("a\x1b[31\nb"), "a\nb");
        assert_eq!(visible("a\x1b\nb"), "a\nb");
        assert_eq!(visible("a\x1b(\r\nb"), "a\r\nb");
        assert_eq!(visible("a\x1b[12äb"), "aäb");
        assert_eq!(visible("a\x1bäb"), "aäb");
        assert_eq!(visible("a\x1b[1\u{9b}31mb"), "ab");
    }

    #[test]
    fn redraws_are_recognised() {
        let meaning = |text: &str| {
            let mut escapes = Escapes::default();
            text.chars().map(|c| escapes.step(c)).last()
        };
        for (text, expected) in [
            ("\x1b[G", Meaning::Home),
            ("\x1b[0G", Meaning::Home),
            ("\x1b[1G", Meaning::Home),
            ("\x1b[1`", Meaning::Home),
            ("\x1b[2G", Meaning::Nothing),
            ("\x1b[11G", Meaning::Nothing),
            ("\x1b[K", Meaning::EraseRight),
            ("\x1b[0K", Meaning::EraseRight),
            ("\x1b[0J", Meaning::EraseRight),
            ("\x1b[1K", Meaning::Nothing),
            ("\x1b[2K", Meaning::EraseLine),
            ("\x1b[?K", Meaning::Nothing),
            ("\x1b[2J", Meaning::Nothing),
        ] {
            assert_eq!(meaning(text), Some(expected), "{text:?}");
        }
    }
}
