//! Keys, and the bytes that a terminal sends for them.
//!
//! The bytes are those of xterm without its modifyOtherKeys extension, which the terminfo entry
//! `xterm-256color` describes: "PC-Style Function Keys" and "VT220-Style Function Keys" in xterm's
//! ctlseqs.

use std::fmt;

use super::key_names::{KeyError, code_name};
use super::mouse::{MouseClick, MouseMode};

/// The sequence that starts a bracketed paste.
const PASTE_START: &str = "\x1b[200~";
/// The sequence that ends a bracketed paste.
pub(crate) const PASTE_END: &str = "\x1b[201~";

/// Input for a task's terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyInput {
    /// One key, with or without modifiers.
    Key(KeyPress),
    /// Text, which is typed as it is.
    Text(String),
    /// A click of the mouse.
    Mouse(MouseClick),
}

/// A key with the modifiers that are pressed with it, formatted in tmux's spelling: `C-M-Up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPress {
    /// The key.
    pub code: KeyCode,
    /// The pressed modifiers.
    pub modifiers: KeyModifiers,
}

/// The modifiers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyModifiers {
    /// Whether Ctrl is pressed.
    pub control: bool,
    /// Whether Alt (Meta) is pressed.
    pub alt: bool,
    /// Whether Shift is pressed.
    pub shift: bool,
}

/// A key of the keyboard, without its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCode {
    /// The key of a character.
    Char(char),
    /// Enter, also called Return.
    Enter,
    /// Escape.
    Escape,
    /// The tabulator key.
    Tab,
    /// The tabulator key with Shift.
    BackTab,
    /// Backspace.
    Backspace,
    /// The up arrow.
    Up,
    /// The down arrow.
    Down,
    /// The left arrow.
    Left,
    /// The right arrow.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Insert.
    Insert,
    /// The key that deletes the character at the cursor, not the one before it.
    Delete,
    /// The function key with this number, from 1 to 12.
    Function(u8),
    /// The key of the numeric keypad with this character: a digit, or one of `+-*/.`.
    Keypad(char),
    /// Enter on the numeric keypad.
    KeypadEnter,
}

/// The modes of a terminal that change what it sends. By default all are off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputModes {
    /// Whether the cursor keys send application sequences (DECCKM, mode 1).
    pub application_cursor: bool,
    /// Whether the numeric keypad sends application sequences (DECKPAM).
    pub application_keypad: bool,
    /// Whether pasted text is marked as such (mode 2004).
    pub bracketed_paste: bool,
    /// Which events of the mouse are reported.
    pub mouse: MouseMode,
    /// Whether events of the mouse are reported in the SGR form (mode 1006).
    pub sgr_mouse: bool,
}

impl KeyInput {
    /// Returns the bytes that a terminal in these modes sends.
    ///
    /// A line end in a text, `\n`, `\r` or `\r\n`, is sent as Enter. In the mode for bracketed
    /// paste, a text with line ends is sent as a paste instead: the program inserts the whole text,
    /// and an Enter after it is a separate key.
    ///
    /// # Errors
    ///
    /// Returns [`KeyError`] for a click that the program does not receive: reports of the mouse are
    /// off, or the cell is beyond the limit of the old form of these reports.
    pub fn encode(&self, modes: InputModes) -> Result<Vec<u8>, KeyError> {
        match self {
            Self::Key(press) => Ok(press.encode(modes)),
            Self::Text(text) => Ok(encode_text(text, modes.bracketed_paste)),
            Self::Mouse(click) => click.encode(modes),
        }
    }
}

impl KeyModifiers {
    /// Returns whether no modifier is pressed.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns the parameter for the modifiers in a control sequence of xterm; 1 without any.
    const fn parameter(self) -> u8 {
        1 + self.shift as u8 + 2 * (self.alt as u8) + 4 * (self.control as u8)
    }
}

impl KeyPress {
    /// Returns the bytes that a terminal in these modes sends. Modifiers that do not change the
    /// bytes of a key are ignored; [`parse_key`](super::parse_key) rejects such keys.
    #[must_use]
    pub fn encode(self, modes: InputModes) -> Vec<u8> {
        let text = match self.code {
            KeyCode::Char(c) => self.character(c),
            KeyCode::Enter => self.with_alt("\r"),
            KeyCode::Escape => self.with_alt("\x1b"),
            KeyCode::Tab => self.with_alt("\t"),
            KeyCode::BackTab => self.with_alt("\x1b[Z"),
            KeyCode::Backspace => {
                self.with_alt(if self.modifiers.control { "\x08" } else { "\x7f" })
            }
            KeyCode::Up => self.cursor_key('A', modes),
            KeyCode::Down => self.cursor_key('B', modes),
            KeyCode::Right => self.cursor_key('C', modes),
            KeyCode::Left => self.cursor_key('D', modes),
            KeyCode::End => self.cursor_key('F', modes),
            KeyCode::Home => self.cursor_key('H', modes),
            KeyCode::Insert => self.editing_key(2),
            KeyCode::Delete => self.editing_key(3),
            KeyCode::PageUp => self.editing_key(5),
            KeyCode::PageDown => self.editing_key(6),
            KeyCode::Function(number) => self.function_key(number),
            KeyCode::Keypad(c) => self.keypad_key(c, modes),
            KeyCode::KeypadEnter if modes.application_keypad => self.with_alt("\x1bOM"),
            KeyCode::KeypadEnter => self.with_alt("\r"),
        };
        text.into_bytes()
    }

    /// Returns the text of a key without parameters. Alt sends ESC before it.
    fn with_alt(self, text: &str) -> String {
        let prefix = if self.modifiers.alt { "\x1b" } else { "" };
        format!("{prefix}{text}")
    }

    fn character(self, c: char) -> String {
        let sent = if self.modifiers.control { control_character(c).unwrap_or(c) } else { c };
        self.with_alt(sent.encode_utf8(&mut [0; 4]))
    }

    /// Returns the sequence of a cursor key with this final character.
    fn cursor_key(self, last: char, modes: InputModes) -> String {
        match self.modifiers.parameter() {
            1 if modes.application_cursor => format!("\x1bO{last}"),
            1 => format!("\x1b[{last}"),
            parameter => format!("\x1b[1;{parameter}{last}"),
        }
    }

    /// Returns the sequence of an editing key or function key with this number.
    fn editing_key(self, number: u8) -> String {
        match self.modifiers.parameter() {
            1 => format!("\x1b[{number}~"),
            parameter => format!("\x1b[{number};{parameter}~"),
        }
    }

    fn function_key(self, number: u8) -> String {
        match number {
            1..=4 => {
                let last = char::from(b'P' + number - 1);
                match self.modifiers.parameter() {
                    1 => format!("\x1bO{last}"),
                    parameter => format!("\x1b[1;{parameter}{last}"),
                }
            }
            5 => self.editing_key(15),
            6..=10 => self.editing_key(number + 11),
            11 | 12 => self.editing_key(number + 12),
            _ => String::new(),
        }
    }

    fn keypad_key(self, c: char, modes: InputModes) -> String {
        // Each key of the keypad is encoded as the character 64 places after its own in ASCII.
        let application = u8::try_from(c).ok().filter(|byte| byte.is_ascii()).map(|byte| byte + 64);
        match application {
            Some(last) if modes.application_keypad => {
                self.with_alt(&format!("\x1bO{}", char::from(last)))
            }
            Some(_) | None => self.character(c),
        }
    }
}

impl fmt::Display for KeyPress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyModifiers { control, alt, shift } = self.modifiers;
        for (is_pressed, prefix) in [(control, "C-"), (alt, "M-"), (shift, "S-")] {
            if is_pressed {
                f.write_str(prefix)?;
            }
        }
        match (self.code, code_name(self.code)) {
            (_, Some(name)) => f.write_str(name),
            (KeyCode::Char(c), None) => write!(f, "{c}"),
            (KeyCode::Keypad(c), None) => write!(f, "KP{c}"),
            (code, None) => write!(f, "{code:?}"),
        }
    }
}

/// Returns the control character that a terminal sends for Ctrl with this character, or `None` if
/// there is none.
pub(super) const fn control_character(c: char) -> Option<char> {
    let code = match c {
        'a'..='z' => c as u8 - b'a' + 1,
        'A'..='Z' => c as u8 - b'A' + 1,
        ' ' | '@' | '2' => 0,
        '[' | '3' => 0x1b,
        '\\' | '4' => 0x1c,
        ']' | '5' => 0x1d,
        '^' | '6' => 0x1e,
        '_' | '/' | '-' | '7' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    };
    Some(code as char)
}

/// Returns the bytes of a typed or pasted text.
fn encode_text(text: &str, bracketed_paste: bool) -> Vec<u8> {
    let mut text = text.replace("\r\n", "\n").replace('\r', "\n");
    if !bracketed_paste || !text.contains('\n') {
        return text.replace('\n', "\r").into_bytes();
    }
    // Text after an end sequence would be executed as typed keys. The removal of one end sequence
    // may form another one.
    while text.contains(PASTE_END) {
        text = text.replace(PASTE_END, "");
    }
    format!("{PASTE_START}{text}{PASTE_END}").into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::terminal::parse_key;

    fn encode_word(word: &str, modes: InputModes) -> String {
        let bytes = parse_key(word).unwrap().encode(modes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn keys_are_sent_as_xterm_sends_them() {
        for (word, bytes) in [
            ("C-c", "\x03"),
            ("C-C", "\x03"),
            ("C-Space", "\0"),
            ("C-@", "\0"),
            ("C-[", "\x1b"),
            ("C-\\", "\x1c"),
            ("C-]", "\x1d"),
            ("C-^", "\x1e"),
            ("C-_", "\x1f"),
            ("C-/", "\x1f"),
            ("C--", "\x1f"),
            ("C-?", "\x7f"),
            ("M-x", "\x1bx"),
            ("M-X", "\x1bX"),
            ("M-ü", "\x1bü"),
            ("M--", "\x1b-"),
            ("C-M-x", "\x1b\x18"),
            ("M-C-x", "\x1b\x18"),
            ("M-S-x", "\x1bX"),
            ("S-a", "A"),
            ("M-Enter", "\x1b\r"),
            ("Enter", "\r"),
            ("Escape", "\x1b"),
            ("Tab", "\t"),
            ("S-Tab", "\x1b[Z"),
            ("BTab", "\x1b[Z"),
            ("Space", " "),
            ("BSpace", "\x7f"),
            ("C-BSpace", "\x08"),
            ("M-BSpace", "\x1b\x7f"),
            ("Up", "\x1b[A"),
            ("Left", "\x1b[D"),
            ("C-Left", "\x1b[1;5D"),
            ("S-Up", "\x1b[1;2A"),
            ("C-M-Up", "\x1b[1;7A"),
            ("C-M-S-Down", "\x1b[1;8B"),
            ("Home", "\x1b[H"),
            ("End", "\x1b[F"),
            ("PageUp", "\x1b[5~"),
            ("PPage", "\x1b[5~"),
            ("NPage", "\x1b[6~"),
            ("IC", "\x1b[2~"),
            ("DC", "\x1b[3~"),
            ("C-Delete", "\x1b[3;5~"),
            ("F1", "\x1bOP"),
            ("F4", "\x1bOS"),
            ("S-F1", "\x1b[1;2P"),
            ("F5", "\x1b[15~"),
            ("F6", "\x1b[17~"),
            ("F10", "\x1b[21~"),
            ("F11", "\x1b[23~"),
            ("F12", "\x1b[24~"),
            ("M-F12", "\x1b[24;3~"),
            ("KP5", "5"),
            ("KPEnter", "\r"),
        ] {
            assert_eq!(encode_word(word, InputModes::default()), bytes, "{word}");
        }
    }

    #[test]
    fn application_modes_change_cursor_keys_and_keypad() {
        let modes = InputModes {
            application_cursor: true,
            application_keypad: true,
            ..InputModes::default()
        };
        for (word, bytes) in [
            ("Up", "\x1bOA"),
            ("Home", "\x1bOH"),
            ("C-Up", "\x1b[1;5A"),
            ("PageUp", "\x1b[5~"),
            ("KP0", "\x1bOp"),
            ("KP9", "\x1bOy"),
            ("KP+", "\x1bOk"),
            ("KP-", "\x1bOm"),
            ("KP*", "\x1bOj"),
            ("KP/", "\x1bOo"),
            ("KP.", "\x1bOn"),
            ("KPEnter", "\x1bOM"),
        ] {
            assert_eq!(encode_word(word, modes), bytes, "{word}");
        }
    }

    #[test]
    fn text_with_line_ends_is_pasted_if_the_program_distinguishes_pastes() {
        let pasting = InputModes { bracketed_paste: true, ..InputModes::default() };
        for (text, typed, pasted) in [
            ("ls -l", "ls -l", "ls -l"),
            ("", "", ""),
            ("a\nb\r\nc\rd\n", "a\rb\rc\rd\r", "\x1b[200~a\nb\nc\nd\n\x1b[201~"),
            // Nothing in the text can end the paste.
            ("a\n\x1b[201~rm\n", "a\r\x1b[201~rm\r", "\x1b[200~a\nrm\n\x1b[201~"),
            ("a\n\x1b[20\x1b[201~1~rm", "a\r\x1b[20\x1b[201~1~rm", "\x1b[200~a\nrm\x1b[201~"),
        ] {
            let input = KeyInput::Text(text.to_owned());
            let typed_bytes = input.encode(InputModes::default()).unwrap();
            assert_eq!(String::from_utf8(typed_bytes).unwrap(), typed, "{text:?}");
            let pasted_bytes = input.encode(pasting).unwrap();
            assert_eq!(String::from_utf8(pasted_bytes).unwrap(), pasted, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_paste_ends_only_at_its_end(
            parts in prop::collection::vec(prop::sample::select(vec![
                "\x1b", "[", "201~", "20", "1~", "\n", "\r", "x", "\x1b[201~",
            ]), 0..20),
        ) {
            let text = format!("\n{}", parts.concat());
            let pasting = InputModes { bracketed_paste: true, ..InputModes::default() };
            let bytes = KeyInput::Text(text).encode(pasting).unwrap();
            let sent = String::from_utf8(bytes).unwrap();
            prop_assert_eq!(sent.find(PASTE_END), Some(sent.len() - PASTE_END.len()));
        }
    }
}
