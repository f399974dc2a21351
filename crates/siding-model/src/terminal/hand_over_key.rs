//! The key that moves a command from the foreground of a person's terminal to the background.

use super::{DetachInput, DetachKeys};

/// Ctrl-B, as a terminal sends it.
const CTRL_B: u8 = 0x02;

/// Recognizes Ctrl-B in the typed bytes of a person whose other keys reach the program. Pressed
/// twice, the key reaches the program once, as the prefix key of tmux does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HandOverKey {
    /// Whether the last byte was a Ctrl-B whose meaning the next byte decides.
    is_held: bool,
}

impl HandOverKey {
    /// Time after which a single Ctrl-B moves the command to the background, in milliseconds.
    pub const HOLD_MS: u64 = DetachKeys::HOLD_MS;

    /// Processes typed bytes. Another key after Ctrl-B moves the command to the background
    /// immediately and is dropped, because it was meant for the shell.
    pub fn feed(&mut self, bytes: &[u8]) -> DetachInput {
        let mut input = DetachInput::default();
        for &byte in bytes {
            match (self.is_held, byte == CTRL_B) {
                (false, true) => self.is_held = true,
                (true, true) => {
                    self.is_held = false;
                    input.forwarded.push(byte);
                }
                (false, false) => input.forwarded.push(byte),
                (true, false) => return self.expire(input),
            }
        }
        input
    }

    /// Returns whether Ctrl-B is held back.
    #[must_use]
    pub const fn is_holding(self) -> bool {
        self.is_held
    }

    /// Ends the time in which a second Ctrl-B may follow. `input` is the result for the bytes typed
    /// before.
    #[must_use]
    pub fn expire(&mut self, input: DetachInput) -> DetachInput {
        let is_detached = std::mem::take(&mut self.is_held);
        DetachInput { is_detached: input.is_detached || is_detached, ..input }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(forwarded: &[u8], is_detached: bool) -> DetachInput {
        DetachInput { forwarded: forwarded.to_vec(), is_detached }
    }

    #[test]
    fn one_key_hands_over_when_its_time_has_passed() {
        let mut key = HandOverKey::default();
        assert_eq!(key.feed(b"a\x02"), input(b"a", false));
        assert!(key.is_holding());
        assert_eq!(key.expire(DetachInput::default()), input(b"", true));
        assert!(!key.is_holding());
        assert_eq!(key.expire(DetachInput::default()), input(b"", false));
    }

    #[test]
    fn two_keys_reach_the_program_as_one() {
        let mut key = HandOverKey::default();
        assert_eq!(key.feed(b"\x02\x02b"), input(b"\x02b", false));
        assert!(key.feed(b"\x02").forwarded.is_empty());
        assert_eq!(key.feed(b"\x02"), input(b"\x02", false));
        assert!(!key.is_holding());
    }

    #[test]
    fn a_key_for_the_shell_hands_over_immediately() {
        let mut key = HandOverKey::default();
        assert_eq!(key.feed(b"a\x02ls\r"), input(b"a", true));
        assert!(!key.is_holding());
    }
}
