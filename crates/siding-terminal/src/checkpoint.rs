//! The file `screen.cache` of a task: the state of the emulator at one offset of the output.
//!
//! The file is next to the output, like the read cursors, which readers write too. It is removed
//! together with the task, so text of the task is stored in no other directory. It may be deleted
//! at any time. An unusable file is ignored. If a reader cannot write the file, the next reader
//! only has to read more output.

use std::io;
use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};
use siding_core::store::TaskDir;
use siding_core::store::task_files::{SCREEN_CACHE_FILE, SCREEN_CACHE_TEMP_FILE};
use siding_core::sys::{clock, file};
use siding_model::record::checksum;

use crate::history::TerminalHistory;
use crate::saved_state::SavedState;

/// First word of the file. The number must be increased whenever the emulator computes a different
/// screen from the same bytes.
const CHECKPOINT_HEADER: &str = "siding-screen-1";
/// Version of the program that wrote the file; a file from another version is ignored.
const BUILD: &str = env!("CARGO_PKG_VERSION");
/// Maximum size of the file, in bytes. A larger state is not stored.
const MAX_CHECKPOINT_BYTES: usize = 8 << 20;
/// Age in milliseconds above which an unfinished replacement is removed: its writer must have
/// crashed.
const STALE_TEMP_FILE_MS: i64 = 10_000;

/// The state of a terminal at an offset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    build: String,
    pub(crate) offset: u64,
    pub(crate) is_incomplete: bool,
    /// The initial size, and the changes of size before the offset.
    history: TerminalHistory,
    pub(crate) state: SavedState,
}

impl Checkpoint {
    pub(crate) fn new(
        offset: u64,
        is_incomplete: bool,
        history: &TerminalHistory,
        state: SavedState,
    ) -> Self {
        let history = history.up_to(offset);
        Self { build: BUILD.to_owned(), offset, is_incomplete, history, state }
    }

    /// Reads the checkpoint of a task, if the screen at the offset `to` can be computed from it.
    pub(crate) fn read(dir: &TaskDir, history: &TerminalHistory, to: u64) -> Option<Self> {
        let fd = file::open_at(dir, SCREEN_CACHE_FILE, file::OpenMode::Read).ok()?;
        let bytes = file::read_to_end(fd.as_fd(), MAX_CHECKPOINT_BYTES).ok()?;
        Self::parse(&bytes).filter(|checkpoint| checkpoint.is_usable(history, to))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once('\n')?;
        let sum = head.strip_prefix(CHECKPOINT_HEADER)?.strip_prefix(' ')?;
        if sum != format!("{:08x}", checksum(body.as_bytes())) {
            return None;
        }
        serde_json::from_str(body).ok()
    }

    fn is_usable(&self, history: &TerminalHistory, to: u64) -> bool {
        self.build == BUILD
            && self.offset <= to
            && self.history == history.up_to(self.offset)
            && self.state.size == self.history.size()
            && self.state.allows_growth(history.growth_after(self.offset))
    }

    fn format(&self) -> io::Result<String> {
        let body = serde_json::to_string(self)?;
        Ok(format!("{CHECKPOINT_HEADER} {:08x}\n{body}", checksum(body.as_bytes())))
    }

    /// Replaces the checkpoint of a task.
    pub(crate) fn write(&self, dir: &TaskDir) -> io::Result<()> {
        let text = self.format()?;
        if text.len() > MAX_CHECKPOINT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let fd = match file::open_at(dir, SCREEN_CACHE_TEMP_FILE, file::OpenMode::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let written = file::modified_ms(dir, SCREEN_CACHE_TEMP_FILE)?;
                if clock::unix_now().0.saturating_sub(written) > STALE_TEMP_FILE_MS {
                    file::remove(dir, SCREEN_CACHE_TEMP_FILE)?;
                }
                // Another process is writing nearly the same content, or was killed while it did
                // so.
                return Err(error);
            }
            result => result?,
        };
        match file::write_all_at(&fd, text.as_bytes(), 0) {
            Ok(()) => file::rename_over(dir, SCREEN_CACHE_TEMP_FILE, SCREEN_CACHE_FILE),
            Err(error) => {
                let _already_removed = file::remove(dir, SCREEN_CACHE_TEMP_FILE);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::TerminalSize;

    use super::*;
    use crate::Emulator;

    fn checkpoint() -> (TerminalHistory, Checkpoint) {
        let wide = TerminalSize { columns: 100, rows: 30 };
        let initial = TerminalSize::DEFAULT;
        let history = TerminalHistory { initial, resizes: vec![(0, wide), (500, initial)] };
        let mut emulator = Emulator::new(wide);
        assert!(emulator.feed_byte(b'x'));
        let checkpoint = Checkpoint::new(1, false, &history, emulator.save_state());
        (history, checkpoint)
    }

    #[test]
    fn a_written_checkpoint_is_read_and_a_damaged_one_is_not() {
        let (_, checkpoint) = checkpoint();
        let text = checkpoint.format().unwrap();
        assert_eq!(Checkpoint::parse(text.as_bytes()), Some(checkpoint));
        for position in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[position] ^= 1;
            assert_eq!(Checkpoint::parse(&damaged), None, "byte {position}");
            assert_eq!(Checkpoint::parse(&text.as_bytes()[..position]), None, "{position} bytes");
        }
    }

    #[test]
    fn a_checkpoint_of_another_history_build_or_later_offset_is_not_usable() {
        let (history, checkpoint) = checkpoint();
        assert!(checkpoint.is_usable(&history, 1));
        assert!(!checkpoint.is_usable(&history, 0));
        let later = TerminalHistory {
            resizes: [history.resizes.clone(), vec![(900, TerminalSize::DEFAULT)]].concat(),
            ..history.clone()
        };
        assert!(checkpoint.is_usable(&later, 1), "a later change does not matter");
        let other = TerminalHistory { resizes: Vec::new(), ..history.clone() };
        assert!(!checkpoint.is_usable(&other, 1));
        let foreign = Checkpoint { build: "0.0.0".to_owned(), ..checkpoint };
        assert!(!foreign.is_usable(&history, 1));
    }
}
