//! Tracks the files that an agent has read or written, to detect changes that others make to them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Mutex, PoisonError};

use super::file_entry::FileKey;

/// Maximum number of tracked files. Beyond it, the file recorded the longest ago is forgotten and
/// treated as never read.
const MAX_TRACKED_FILES: usize = 4096;

/// A hash of a file's content, comparable only with hashes of the same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentHash(u64);

impl ContentHash {
    /// Returns the hash of a file's complete content.
    pub(super) fn of_content(content: &[u8]) -> Self {
        let mut printing = ContentHasher::default();
        printing.update(content);
        printing.finish()
    }
}

/// Hashes the content of a file, which is read in chunks.
#[derive(Debug, Default)]
pub(super) struct ContentHasher {
    hasher: DefaultHasher,
    len: u64,
}

impl ContentHasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        // `DefaultHasher` hashes the bytes as a stream, so the boundaries of the chunks do not
        // matter.
        self.hasher.write(bytes);
        self.len += bytes.len() as u64;
    }

    /// Returns the number of bytes hashed so far.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn finish(&self) -> ContentHash {
        ContentHash(self.hasher.finish())
    }
}

/// The files that an agent has read or written, with the hashes of their contents.
#[derive(Debug, Default)]
pub(super) struct ReadTracker(Mutex<TrackedFiles>);

#[derive(Debug, Default)]
struct TrackedFiles {
    hashes: HashMap<FileKey, (u64, ContentHash)>,
    /// Number of hashes recorded so far. Each file is stored with the number of its last record, so
    /// that the file recorded the longest ago can be evicted.
    reads: u64,
}

impl ReadTracker {
    /// Records the hash of a file that the agent has just read or written.
    pub(super) fn record(&self, key: FileKey, print: ContentHash) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.reads += 1;
        let read = memory.reads;
        memory.hashes.insert(key, (read, print));
        if memory.hashes.len() > MAX_TRACKED_FILES
            && let Some(oldest) = memory.hashes.iter().min_by_key(|(_, seen)| seen.0)
        {
            let oldest = oldest.0.clone();
            memory.hashes.remove(&oldest);
        }
    }

    /// Returns the hash that was last recorded for a file; `None` if the file is not tracked.
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
