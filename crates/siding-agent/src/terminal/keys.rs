//! From the bytes of a terminal to keys.

/// Bytes of a paste that are kept; what comes after them is not.
const PASTE_MAX: usize = 1 << 20;
/// Bytes of a sequence that nobody knows after which it is given up.
const SEQUENCE_MAX: usize = 64;
/// What ends a paste.
const PASTE_END: &[u8] = b"\x1b[201~";

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Return.
    Enter,
    /// Return with Alt, or Ctrl-J: a new line in what is being written.
    Newline,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// A word to the left: with Ctrl or Alt.
    WordLeft,
    /// A word to the right: with Ctrl or Alt.
    WordRight,
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// Home.
    Home,
    /// End.
    End,
    /// Escape.
    Escape,
    /// Ctrl and a small letter.
    Ctrl(char),
    /// Pasted text.
    Paste(String),
}

/// Makes keys of bytes, which may be cut anywhere.
#[derive(Debug, Default)]
pub struct Decoder {
    /// What is not a key yet.
    held: Vec<u8>,
    /// What was pasted so far, while it is.
    pasted: Option<Vec<u8>>,
}

/// What the held bytes begin with.
enum Found {
    /// A key of so many bytes.
    Key(Key, usize),
    /// Something without a meaning.
    Nothing(usize),
    /// The beginning of a paste.
    Paste(usize),
    /// Perhaps something, once more has come.
    More,
}

impl Decoder {
    /// Takes bytes. Returns the keys that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.held.extend_from_slice(bytes);
        let mut keys = Vec::new();
        loop {
            if self.pasted.is_some() && !self.paste(&mut keys) {
                return keys;
            }
            if self.held.is_empty() {
                return keys;
            }
            let used = match find(&self.held) {
                Found::More => return keys,
                Found::Nothing(used) => used,
                Found::Key(key, used) => {
                    keys.push(key);
                    used
                }
                Found::Paste(used) => {
                    self.pasted = Some(Vec::new());
                    used
                }
            };
            self.held.drain(..used);
        }
    }

    /// Whether bytes are held that are a key if nothing follows: Escape begins all sequences.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.pasted.is_none() && !self.held.is_empty()
    }

    /// Takes it that nothing follows. What is half a sequence is nothing.
    pub fn settle(&mut self) -> Vec<Key> {
        if self.pasted.is_some() {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.held);
        if held == [0x1b] { vec![Key::Escape] } else { Vec::new() }
    }

    /// Takes more of a paste. Returns whether it is over.
    fn paste(&mut self, keys: &mut Vec<Key>) -> bool {
        let Some(pasted) = &mut self.pasted else { return true };
        let end = self.held.windows(PASTE_END.len()).position(|part| part == PASTE_END);
        // What may be the beginning of its end stays.
        let is_begun = |from: &usize| PASTE_END.starts_with(&self.held[*from..]);
        let sure = end.unwrap_or_else(|| {
            let least = self.held.len().saturating_sub(PASTE_END.len() - 1);
            (least..self.held.len()).find(is_begun).unwrap_or(self.held.len())
        });
        let room = PASTE_MAX.saturating_sub(pasted.len()).min(sure);
        pasted.extend_from_slice(&self.held[..room]);
        let Some(end) = end else {
            self.held.drain(..sure);
            return false;
        };
        self.held.drain(..end + PASTE_END.len());
        let text = String::from_utf8_lossy(&std::mem::take(pasted)).into_owned();
        self.pasted = None;
        keys.push(Key::Paste(text.replace("\r\n", "\n").replace('\r', "\n")));
        true
    }
}

fn find(bytes: &[u8]) -> Found {
    match bytes[0] {
        0x1b => escaped(&bytes[1..]),
        b'\r' => Found::Key(Key::Enter, 1),
        b'\n' => Found::Key(Key::Newline, 1),
        b'\t' => Found::Nothing(1),
        0x7f | 0x08 => Found::Key(Key::Backspace, 1),
        byte @ 1..=26 => Found::Key(Key::Ctrl(char::from(byte - 1 + b'a')), 1),
        0 | 0x1c..=0x1f => Found::Nothing(1),
        _ => character(bytes),
    }
}

/// Reads what follows Escape.
fn escaped(rest: &[u8]) -> Found {
    match rest.first() {
        None => Found::More,
        Some(b'[') => control(&rest[1..]),
        Some(b'O') => match rest.get(1) {
            None => Found::More,
            Some(last) => cursor(*last, false, 3),
        },
        Some(b'\r' | b'\n') => Found::Key(Key::Newline, 2),
        Some(b'b') => Found::Key(Key::WordLeft, 2),
        Some(b'f') => Found::Key(Key::WordRight, 2),
        Some(0x7f | 0x08) => Found::Key(Key::Ctrl('w'), 2),
        Some(_) => Found::Key(Key::Escape, 1),
    }
}

/// Reads a control sequence: parameters and one last byte (ECMA-48, 5.4).
fn control(rest: &[u8]) -> Found {
    let Some(len) = rest.iter().position(|byte| !matches!(byte, 0x20..=0x3f)) else {
        return if rest.len() < SEQUENCE_MAX {
            Found::More
        } else {
            Found::Nothing(2 + rest.len())
        };
    };
    let (parameters, last, used) = (&rest[..len], rest[len], len + 3);
    // The second parameter says what was held: 1, and 2 for Alt or 4 for Ctrl.
    let held = parameters.strip_prefix(b"1;").unwrap_or_default();
    let is_word = matches!(held, b"3" | b"5");
    match (parameters, last) {
        (b"200", b'~') => Found::Paste(used),
        (b"1" | b"7", b'~') => Found::Key(Key::Home, used),
        (b"4" | b"8", b'~') => Found::Key(Key::End, used),
        (b"3", b'~') => Found::Key(Key::Delete, used),
        // Shift or Alt and Return, where the terminal tells.
        (b"13;2" | b"13;3", b'u') | (b"27;2;13" | b"27;3;13", b'~') => {
            Found::Key(Key::Newline, used)
        }
        _ if parameters.is_empty() || !held.is_empty() => cursor(last, is_word, used),
        _ => Found::Nothing(used),
    }
}

/// Returns a key of the cursor by the last byte of its sequence.
fn cursor(last: u8, is_word: bool, used: usize) -> Found {
    let key = match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' if is_word => Key::WordRight,
        b'C' => Key::Right,
        b'D' if is_word => Key::WordLeft,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        _ => return Found::Nothing(used),
    };
    Found::Key(key, used)
}

/// Reads one character of UTF-8.
fn character(bytes: &[u8]) -> Found {
    let len = match bytes[0] {
        0xf0..=0xf7 => 4,
        0xe0..=0xef => 3,
        0xc0..=0xdf => 2,
        _ => 1,
    };
    let whole = &bytes[..len.min(bytes.len())];
    match std::str::from_utf8(whole) {
        Ok(text) => match text.chars().next() {
            Some(c) => Found::Key(Key::Char(c), len),
            None => Found::More,
        },
        // Cut, and right so far.
        Err(error) if error.error_len().is_none() => Found::More,
        Err(_) => Found::Nothing(1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = Decoder::default();
        let mut keys = decoder.feed(bytes);
        keys.extend(decoder.settle());
        keys
    }

    #[test]
    fn what_terminals_send_is_known() {
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
            (b"\x1b[200~two\r\nlines \x1b[A\x1b[201~", Key::Paste("two\nlines \x1b[A".to_owned())),
        ] {
            assert_eq!(keys(bytes), [key], "{bytes:?}");
        }
        // What nobody knows is nothing, and takes nothing with it.
        for unknown in
            [&b"\x1b[99~"[..], b"\x1b[?62;4c", b"\x1b[24;1R", b"\x1b[I", b"\x00", b"\xff"]
        {
            assert_eq!(keys(&[unknown, b"x"].concat()), [Key::Char('x')], "{unknown:?}");
        }
        assert_eq!(keys(b"\x1b\x1b"), [Key::Escape, Key::Escape]);
        assert_eq!(keys(b"\x1bx"), [Key::Escape, Key::Char('x')]);
    }

    proptest! {
        /// A terminal over a network cuts what is typed anywhere.
        #[test]
        fn where_it_is_cut_changes_nothing(
            parts in prop::collection::vec(prop::sample::select(vec![
                &b"ab"[..], "ü你".as_bytes(), b"\x1b[A", b"\x1b[1;5D", b"\x1bOF", b"\x03", b"\r",
                b"\x1b[200~p\nq\x1b[201~", b"\xff", b"\x1b[?1u",
            ]), 0..8),
            cuts in prop::collection::vec(1_usize..4, 0..40),
        ) {
            let bytes = parts.concat();
            let mut decoder = Decoder::default();
            let (mut found, mut rest) = (Vec::new(), &bytes[..]);
            for cut in cuts {
                let (first, after) = rest.split_at(cut.min(rest.len()));
                found.extend(decoder.feed(first));
                rest = after;
            }
            found.extend(decoder.feed(rest));
            found.extend(decoder.settle());
            prop_assert_eq!(found, keys(&bytes));
        }

        #[test]
        fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _some = keys(&bytes);
        }
    }
}
