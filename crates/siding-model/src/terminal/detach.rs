//! The keys with which a person leaves a task's terminal.

/// Recognizes a sequence of typed bytes, such as two `C-\`, and passes everything else on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachKeys {
    sequence: Vec<u8>,
    /// Number of the last typed bytes that form the beginning of the sequence. They are held back.
    held: usize,
}

/// The result of typed bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DetachInput {
    /// The bytes for the program.
    pub forwarded: Vec<u8>,
    /// Whether the sequence is complete. Later bytes of the same input are dropped.
    pub is_detached: bool,
}

impl DetachKeys {
    /// Time for which an incomplete sequence is held back, in milliseconds. After it, the program
    /// receives the bytes, because they may be meant for it.
    pub const HOLD_MS: u64 = 500;

    /// Creates the recognizer. With an empty sequence it recognizes nothing.
    #[must_use]
    pub const fn new(sequence: Vec<u8>) -> Self {
        Self { sequence, held: 0 }
    }

    /// Processes typed bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> DetachInput {
        let mut input = DetachInput::default();
        for &byte in bytes {
            if self.sequence.get(self.held) == Some(&byte) {
                self.held += 1;
            } else {
                input.forwarded.append(&mut self.release());
                // The byte may begin the sequence again.
                if self.sequence.first() == Some(&byte) {
                    self.held = 1;
                } else {
                    input.forwarded.push(byte);
                }
            }
            if self.held > 0 && self.held == self.sequence.len() {
                self.held = 0;
                input.is_detached = true;
                return input;
            }
        }
        input
    }

    /// Returns whether bytes are held back.
    #[must_use]
    pub const fn is_holding(&self) -> bool {
        self.held > 0
    }

    /// Returns the bytes that are held back, and clears them.
    pub fn release(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.sequence[..held].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIT: u8 = 0x1c;

    fn input(forwarded: &[u8], is_detached: bool) -> DetachInput {
        DetachInput { forwarded: forwarded.to_vec(), is_detached }
    }

    #[test]
    fn two_keys_detach_and_one_reaches_the_program() {
        let mut keys = DetachKeys::new(vec![QUIT, QUIT]);
        assert_eq!(keys.feed(b"a"), input(b"a", false));
        assert_eq!(keys.feed(&[QUIT]), input(b"", false));
        assert!(keys.is_holding());
        assert_eq!(keys.feed(b"b"), input(&[QUIT, b'b'], false));
        assert_eq!(keys.feed(&[b'c', QUIT]), input(b"c", false));
        assert_eq!(keys.release(), [QUIT]);
        assert!(!keys.is_holding());
        assert_eq!(keys.feed(&[QUIT, QUIT, b'd']), input(b"", true));
    }

    #[test]
    fn a_sequence_may_start_within_a_failed_one() {
        let mut keys = DetachKeys::new(vec![1, b'd']);
        assert_eq!(keys.feed(&[1, 1, b'd']), input(&[1], true));
    }

    #[test]
    fn no_sequence_never_detaches() {
        let mut keys = DetachKeys::new(Vec::new());
        assert_eq!(keys.feed(&[QUIT, QUIT]), input(&[QUIT, QUIT], false));
    }
}
