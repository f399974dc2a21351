//! Decoding of a terminal's input into keys and mouse events.

use crate::terminal;

/// Maximum bytes of a paste; bytes beyond that are discarded.
const MAX_PASTE_BYTES: usize = 1 << 20;
/// Bytes after which an unterminated unknown sequence is discarded.
const MAX_SEQUENCE_BYTES: usize = 64;
/// The sequence that ends a bracketed paste.
const PASTE_END: &[u8] = terminal::PASTE_END.as_bytes();

/// A key press, a mouse event or a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A character that is not a control character of ASCII.
    Char(char),
    /// Enter without Alt or Shift, or Ctrl-M, which sends the same byte.
    Enter,
    /// A line feed in the prompt: Enter with Alt or Shift, or Ctrl-J.
    Newline,
    /// Backspace, or Ctrl-H, which sends the same byte on some terminals.
    Backspace,
    /// The key that deletes the character at the cursor, not the one before it.
    Delete,
    /// The left arrow, except as in [`Key::WordLeft`].
    Left,
    /// The right arrow, except as in [`Key::WordRight`].
    Right,
    /// The left arrow with Ctrl or Alt, or Alt-B: one word to the left.
    WordLeft,
    /// The right arrow with Ctrl or Alt, or Alt-F: one word to the right.
    WordRight,
    /// The up arrow, with or without modifiers.
    Up,
    /// The down arrow, with or without modifiers.
    Down,
    /// Home, with or without modifiers; Ctrl-A is a [`Key::Ctrl`].
    Home,
    /// End, with or without modifiers; Ctrl-E is a [`Key::Ctrl`].
    End,
    /// Escape alone: no bytes of a known sequence followed in time.
    Escape,
    /// The tabulator key, or Ctrl-I, which sends the same byte.
    Tab,
    /// The tabulator key with Shift.
    BackTab,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Ctrl with this lowercase letter. Alt-Backspace counts as Ctrl-W.
    Ctrl(char),
    /// A mouse event, if the program has enabled mouse reports in the SGR form (mode 1006).
    Mouse(MouseEvent),
    /// Pasted text, with line feeds as line ends.
    Paste(String),
}

/// An event of the mouse, at a character cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MouseEvent {
    /// The kind of the event.
    pub action: MouseAction,
    /// Column of the cell, from 0.
    pub column: u16,
    /// Row of the cell, from 0.
    pub row: u16,
}

/// The kind of a mouse event. Other buttons, releases and movements are not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseAction {
    /// The left button was pressed.
    Press,
    /// The wheel was turned away from the person.
    WheelUp,
    /// The wheel was turned towards the person.
    WheelDown,
}

/// An incremental decoder of keys, whose input may be split anywhere.
#[derive(Debug, Default)]
pub struct KeyDecoder {
    /// Bytes of an incomplete sequence.
    pending_bytes: Vec<u8>,
    /// The content of a paste that has not ended.
    pasted: Option<Vec<u8>>,
}

/// The meaning of the first pending bytes.
enum Token {
    /// A key, and the number of its bytes.
    Key(Key, usize),
    /// The number of bytes to skip, because they form no known key.
    Ignored(usize),
    /// The start of a bracketed paste, with the number of its bytes.
    PasteStart(usize),
    /// A sequence whose remaining bytes have not arrived yet.
    Incomplete,
}

impl KeyDecoder {
    /// Decodes bytes, and returns the keys that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending_bytes.extend_from_slice(bytes);
        let mut keys = Vec::new();
        loop {
            if self.pasted.is_some() && !self.decode_paste(&mut keys) {
                return keys;
            }
            if self.pending_bytes.is_empty() {
                return keys;
            }
            let used = match decode_token(&self.pending_bytes) {
                Token::Incomplete => return keys,
                Token::Ignored(used) => used,
                Token::Key(key, used) => {
                    keys.push(key);
                    used
                }
                Token::PasteStart(used) => {
                    self.pasted = Some(Vec::new());
                    used
                }
            };
            self.pending_bytes.drain(..used);
        }
    }

    /// Returns whether bytes outside of a paste are pending. A single Escape, which also starts all
    /// sequences, is a key only if no more bytes follow, so the caller must wait and then call
    /// [`Self::flush`].
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.pasted.is_none() && !self.pending_bytes.is_empty()
    }

    /// Ends a pending sequence because no more bytes have followed. A single Escape becomes a key;
    /// any other incomplete sequence is discarded. A paste continues.
    pub fn flush(&mut self) -> Vec<Key> {
        if self.pasted.is_some() {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.pending_bytes);
        if held == [0x1b] { vec![Key::Escape] } else { Vec::new() }
    }

    /// Decodes more of a paste. Returns whether the paste has ended.
    fn decode_paste(&mut self, keys: &mut Vec<Key>) -> bool {
        let Some(pasted) = &mut self.pasted else { return true };
        let end = self.pending_bytes.windows(PASTE_END.len()).position(|part| part == PASTE_END);
        // Bytes that may start the end sequence stay pending.
        let is_begun = |from: &usize| PASTE_END.starts_with(&self.pending_bytes[*from..]);
        let sure = end.unwrap_or_else(|| {
            let least = self.pending_bytes.len().saturating_sub(PASTE_END.len() - 1);
            (least..self.pending_bytes.len()).find(is_begun).unwrap_or(self.pending_bytes.len())
        });
        let room = MAX_PASTE_BYTES.saturating_sub(pasted.len()).min(sure);
        pasted.extend_from_slice(&self.pending_bytes[..room]);
        let Some(end) = end else {
            self.pending_bytes.drain(..sure);
            return false;
        };
        self.pending_bytes.drain(..end + PASTE_END.len());
        let text = String::from_utf8_lossy(&std::mem::take(pasted)).into_owned();
        self.pasted = None;
        keys.push(Key::Paste(text.replace("\r\n", "\n").replace('\r', "\n")));
        true
    }
}

fn decode_token(bytes: &[u8]) -> Token {
    match bytes[0] {
        0x1b => decode_escape(&bytes[1..]),
        b'\r' => Token::Key(Key::Enter, 1),
        b'\n' => Token::Key(Key::Newline, 1),
        b'\t' => Token::Key(Key::Tab, 1),
        0x7f | 0x08 => Token::Key(Key::Backspace, 1),
        byte @ 1..=26 => Token::Key(Key::Ctrl(char::from(byte - 1 + b'a')), 1),
        0 | 0x1c..=0x1f => Token::Ignored(1),
        _ => decode_character(bytes),
    }
}

/// Decodes the bytes after Escape.
fn decode_escape(rest: &[u8]) -> Token {
    match rest.first() {
        None => Token::Incomplete,
        Some(b'[') => decode_control_sequence(&rest[1..]),
        Some(b'O') => match rest.get(1) {
            None => Token::Incomplete,
            Some(last) => decode_cursor_key(*last, false, 3),
        },
        Some(b'\r' | b'\n') => Token::Key(Key::Newline, 2),
        Some(b'b') => Token::Key(Key::WordLeft, 2),
        Some(b'f') => Token::Key(Key::WordRight, 2),
        Some(0x7f | 0x08) => Token::Key(Key::Ctrl('w'), 2),
        Some(_) => Token::Key(Key::Escape, 1),
    }
}

/// Decodes a control sequence: parameters and one final byte (ECMA-48, 5.4).
fn decode_control_sequence(rest: &[u8]) -> Token {
    let Some(len) = rest.iter().position(|byte| !matches!(byte, 0x20..=0x3f)) else {
        return if rest.len() < MAX_SEQUENCE_BYTES {
            Token::Incomplete
        } else {
            Token::Ignored(2 + rest.len())
        };
    };
    let (parameters, last, used) = (&rest[..len], rest[len], len + 3);
    // The second parameter encodes the modifiers: 1, plus 2 for Alt or 4 for Ctrl.
    let held = parameters.strip_prefix(b"1;").unwrap_or_default();
    let is_word = matches!(held, b"3" | b"5");
    if let Some(report) = parameters.strip_prefix(b"<") {
        return match decode_mouse(report, last) {
            Some(event) => Token::Key(Key::Mouse(event), used),
            None => Token::Ignored(used),
        };
    }
    match (parameters, last) {
        (b"200", b'~') => Token::PasteStart(used),
        (b"1" | b"7", b'~') => Token::Key(Key::Home, used),
        (b"4" | b"8", b'~') => Token::Key(Key::End, used),
        (b"3", b'~') => Token::Key(Key::Delete, used),
        (b"5", b'~') => Token::Key(Key::PageUp, used),
        (b"6", b'~') => Token::Key(Key::PageDown, used),
        (b"", b'Z') => Token::Key(Key::BackTab, used),
        // Enter with Shift or Alt, in terminals that report modifiers.
        (b"13;2" | b"13;3", b'u') | (b"27;2;13" | b"27;3;13", b'~') => {
            Token::Key(Key::Newline, used)
        }
        _ if parameters.is_empty() || !held.is_empty() => decode_cursor_key(last, is_word, used),
        _ => Token::Ignored(used),
    }
}

/// Decodes the parameters `BUTTON;COLUMN;ROW` of a mouse report in the SGR form. `None` for a
/// release, a movement, another button, and an invalid report.
fn decode_mouse(report: &[u8], last: u8) -> Option<MouseEvent> {
    let mut numbers =
        std::str::from_utf8(report).ok()?.split(';').map(|number| number.parse::<u16>().ok());
    let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let action = match (button, last) {
        (0, b'M') => MouseAction::Press,
        (64, b'M') => MouseAction::WheelUp,
        (65, b'M') => MouseAction::WheelDown,
        _ => return None,
    };
    Some(MouseEvent { action, column: column.checked_sub(1)?, row: row.checked_sub(1)? })
}

/// Returns the cursor key for the final byte of a sequence.
fn decode_cursor_key(last: u8, is_word: bool, used: usize) -> Token {
    let key = match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' if is_word => Key::WordRight,
        b'C' => Key::Right,
        b'D' if is_word => Key::WordLeft,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        _ => return Token::Ignored(used),
    };
    Token::Key(key, used)
}

/// Decodes one UTF-8 character.
fn decode_character(bytes: &[u8]) -> Token {
    let len = match bytes[0] {
        0xf0..=0xf7 => 4,
        0xe0..=0xef => 3,
        0xc0..=0xdf => 2,
        _ => 1,
    };
    let whole = &bytes[..len.min(bytes.len())];
    match std::str::from_utf8(whole) {
        Ok(text) => match text.chars().next() {
            Some(c) => Token::Key(Key::Char(c), len),
            None => Token::Incomplete,
        },
        // The bytes are valid so far, but the character is incomplete.
        Err(error) if error.error_len().is_none() => Token::Incomplete,
        Err(_) => Token::Ignored(1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode_all(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = KeyDecoder::default();
        let mut keys = decoder.feed(bytes);
        keys.extend(decoder.flush());
        keys
    }

    fn mouse(action: MouseAction, column: u16, row: u16) -> Key {
        Key::Mouse(MouseEvent { action, column, row })
    }

    #[test]
    fn known_key_sequences_are_decoded() {
        for (bytes, key) in [
            (&b"a"[..], Key::Char('a')),
            ("你".as_bytes(), Key::Char('你')),
            (b"\r", Key::Enter),
            (b"\n", Key::Newline),
            (b"\x1b\r", Key::Newline),
            (b"\x1b[13;2u", Key::Newline),
            (b"\x7f", Key::Backspace),
            (b"\x1b[3~", Key::Delete),
            (b"\x1b[A", Key::Up),
            (b"\x1bOA", Key::Up),
            (b"\x1b[D", Key::Left),
            (b"\x1b[1;5D", Key::WordLeft),
            (b"\x1b[1;3C", Key::WordRight),
            (b"\x1b[1;2C", Key::Right),
            (b"\x1bb", Key::WordLeft),
            (b"\x1b[H", Key::Home),
            (b"\x1b[1~", Key::Home),
            (b"\x1bOF", Key::End),
            (b"\x1b", Key::Escape),
            (b"\x02", Key::Ctrl('b')),
            (b"\t", Key::Tab),
            (b"\x1b[Z", Key::BackTab),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[6~", Key::PageDown),
            (b"\x1b[<0;3;1M", mouse(MouseAction::Press, 2, 0)),
            (b"\x1b[<64;10;20M", mouse(MouseAction::WheelUp, 9, 19)),
            (b"\x1b[<65;10;20M", mouse(MouseAction::WheelDown, 9, 19)),
            (b"\x1b[200~two\r\nlines \x1b[A\x1b[201~", Key::Paste("two\nlines \x1b[A".to_owned())),
        ] {
            assert_eq!(decode_all(bytes), [key], "{bytes:?}");
        }
        // Unknown sequences are skipped, and the next key is unaffected.
        for unknown in [
            &b"\x1b[99~"[..],
            b"\x1b[?62;4c",
            b"\x1b[24;1R",
            b"\x1b[I",
            b"\x00",
            b"\xff",
            b"\x1b[<0;3;1m",
            b"\x1b[<0;0;1M",
            b"\x1b[<2;1;1M",
        ] {
            assert_eq!(decode_all(&[unknown, b"x"].concat()), [Key::Char('x')], "{unknown:?}");
        }
        assert_eq!(decode_all(b"\x1b\x1b"), [Key::Escape, Key::Escape]);
        assert_eq!(decode_all(b"\x1bx"), [Key::Escape, Key::Char('x')]);
    }

    proptest! {
        /// A network may split the input anywhere.
        #[test]
        fn the_split_of_the_input_does_not_change_the_keys(
            parts in prop::collection::vec(prop::sample::select(vec![
                &b"ab"[..], "ü你".as_bytes(), b"\x1b[A", b"\x1b[1;5D", b"\x1bOF", b"\x03", b"\r",
                b"\x1b[200~p\nq\x1b[201~", b"\xff", b"\x1b[?1u",
            ]), 0..8),
            cuts in prop::collection::vec(1_usize..4, 0..40),
        ) {
            let bytes = parts.concat();
            let mut decoder = KeyDecoder::default();
            let (mut found, mut rest) = (Vec::new(), &bytes[..]);
            for cut in cuts {
                let (first, after) = rest.split_at(cut.min(rest.len()));
                found.extend(decoder.feed(first));
                rest = after;
            }
            found.extend(decoder.feed(rest));
            found.extend(decoder.flush());
            prop_assert_eq!(found, decode_all(&bytes));
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _best_effort = decode_all(&bytes);
        }
    }
}
