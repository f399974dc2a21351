//! What an agent has seen of files, to tell when somebody else has changed one since.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Mutex, PoisonError};

use super::file_entry::FileKey;

/// Files that are remembered. Of one that was forgotten nothing is known, as of one never seen.
const MAX_TRACKED_FILES: usize = 4096;

/// What a file held, in short: no other content is likely to be taken for it. Of this process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentHash(u64);

impl ContentHash {
    /// Returns the print of a whole content.
    pub(super) fn of_content(content: &[u8]) -> Self {
        let mut printing = ContentHasher::default();
        printing.update(content);
        printing.finish()
    }
}

/// The print of a content that comes in parts.
#[derive(Debug, Default)]
pub(super) struct ContentHasher {
    hasher: DefaultHasher,
    len: u64,
}

impl ContentHasher {
    /// Takes the next part.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        // A hasher takes bytes one after the other, however they are cut.
        self.hasher.write(bytes);
        self.len += bytes.len() as u64;
    }

    /// Returns how many bytes that were.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn finish(&self) -> ContentHash {
        ContentHash(self.hasher.finish())
    }
}

/// The files that an agent has seen.
#[derive(Debug, Default)]
pub(super) struct ReadTracker(Mutex<TrackedFiles>);

#[derive(Debug, Default)]
struct TrackedFiles {
    hashes: HashMap<FileKey, (u64, ContentHash)>,
    /// Counts looks, to forget the oldest.
    reads: u64,
}

impl ReadTracker {
    /// Remembers what a file holds.
    pub(super) fn record(&self, key: FileKey, print: ContentHash) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.reads += 1;
        let look = memory.reads;
        memory.hashes.insert(key, (look, print));
        if memory.hashes.len() > MAX_TRACKED_FILES
            && let Some(oldest) = memory.hashes.iter().min_by_key(|(_, seen)| seen.0)
        {
            let oldest = oldest.0.clone();
            memory.hashes.remove(&oldest);
        }
    }

    /// Returns what a file held when it was last seen.
    pub(super) fn last_seen(&self, key: &FileKey) -> Option<ContentHash> {
        let memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.hashes.get(key).map(|(_, print)| *print)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_evicted() {
        let seen = ReadTracker::default();
        let key = |number: usize| FileKey::new((1, 1), &number.to_string());
        for number in 0..=MAX_TRACKED_FILES {
            seen.record(key(number), ContentHash::of_content(b"same"));
        }
        assert_eq!(seen.last_seen(&key(0)), None);
        assert_eq!(seen.last_seen(&key(1)), Some(ContentHash::of_content(b"same")));
        assert_ne!(
            seen.last_seen(&key(MAX_TRACKED_FILES)),
            Some(ContentHash::of_content(b"other"))
        );
    }

    #[test]
    fn the_hash_does_not_depend_on_chunk_boundaries() {
        let mut printing = ContentHasher::default();
        for part in [&b"some"[..], b"", b" content", b"\n"] {
            printing.update(part);
        }
        assert_eq!(printing.finish(), ContentHash::of_content(b"some content\n"));
        assert_eq!(printing.len(), 13);
    }
}
