//! What an agent has seen of files, to tell when somebody else has changed one since.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Mutex, PoisonError};

use super::spot::Key;

/// Files that are remembered. Of one that was forgotten nothing is known, as of one never seen.
const FILES_MAX: usize = 4096;

/// What a file held, in short: no other content is likely to be taken for it. Of this process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Print(u64);

impl Print {
    /// Returns the print of a whole content.
    pub(super) fn of(content: &[u8]) -> Self {
        let mut printing = Printing::default();
        printing.add(content);
        printing.finish()
    }
}

/// The print of a content that comes in parts.
#[derive(Debug, Default)]
pub(super) struct Printing {
    hasher: DefaultHasher,
    len: u64,
}

impl Printing {
    /// Takes the next part.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        // A hasher takes bytes one after the other, however they are cut.
        self.hasher.write(bytes);
        self.len += bytes.len() as u64;
    }

    /// Returns how many bytes that were.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn finish(&self) -> Print {
        Print(self.hasher.finish())
    }
}

/// The files that an agent has seen.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    prints: HashMap<Key, (u64, Print)>,
    /// Counts looks, to forget the oldest.
    looks: u64,
}

impl Seen {
    /// Remembers what a file holds.
    pub(super) fn remember(&self, key: Key, print: Print) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.looks += 1;
        let look = memory.looks;
        memory.prints.insert(key, (look, print));
        if memory.prints.len() > FILES_MAX
            && let Some(oldest) = memory.prints.iter().min_by_key(|(_, seen)| seen.0)
        {
            let oldest = oldest.0.clone();
            memory.prints.remove(&oldest);
        }
    }

    /// Returns what a file held when it was last seen.
    pub(super) fn of(&self, key: &Key) -> Option<Print> {
        let memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.prints.get(key).map(|(_, print)| *print)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let seen = Seen::default();
        let key = |number: usize| Key::new((1, 1), &number.to_string());
        for number in 0..=FILES_MAX {
            seen.remember(key(number), Print::of(b"same"));
        }
        assert_eq!(seen.of(&key(0)), None);
        assert_eq!(seen.of(&key(1)), Some(Print::of(b"same")));
        assert_ne!(seen.of(&key(FILES_MAX)), Some(Print::of(b"other")));
    }

    #[test]
    fn a_print_does_not_depend_on_how_its_content_came() {
        let mut printing = Printing::default();
        for part in [&b"some"[..], b"", b" content", b"\n"] {
            printing.add(part);
        }
        assert_eq!(printing.finish(), Print::of(b"some content\n"));
        assert_eq!(printing.len(), 13);
    }
}
