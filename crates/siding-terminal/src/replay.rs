//! Computes the screen of a task from its output file.

use std::io;
use std::ops::ControlFlow;

use siding_core::output::RawChunks;
use siding_core::store::TaskDir;

use crate::checkpoint::Checkpoint;
use crate::emulator::Emulator;
use crate::history::TerminalHistory;
use crate::screen::Screen;

/// Amount of new output that justifies writing a new checkpoint, in bytes.
const CHECKPOINT_INTERVAL_BYTES: u64 = 1 << 20;
/// Number of bytes before the end of a read that are searched for an offset at which the state can
/// be saved.
const CHECKPOINT_SEARCH_BYTES: u64 = 4 << 10;
/// Maximum length of siding's own line at the end of the output, in bytes.
const MAX_SIDING_LINE_BYTES: u64 = 4 << 10;
/// The start of siding's own line.
const SIDING_LINE_START: &[u8] = b"[siding] ";

/// A terminal that follows the output file of a task.
///
/// A caller that waits keeps the replay and calls [`Self::advance`] again, which reads only the new
/// output. A new replay starts from the task's checkpoint, if there is one.
#[derive(Debug)]
pub struct TerminalReplay {
    emulator: Emulator,
    offset: u64,
    is_incomplete: bool,
    applied_resizes: usize,
    checkpoint_offset: u64,
}

impl TerminalReplay {
    /// Computes the screen of a task after the output before `to`, or after the whole present
    /// output. `has_ended`: whether the task has ended, so that siding's own line may follow the
    /// output of the terminal.
    ///
    /// # Errors
    ///
    /// The I/O error of reading the output. A task without output has a blank screen.
    pub fn open(
        dir: &TaskDir,
        history: &TerminalHistory,
        to: Option<u64>,
        has_ended: bool,
    ) -> io::Result<Self> {
        let restored = Checkpoint::read(dir, history, to.unwrap_or(u64::MAX))
            .and_then(|checkpoint| Self::from_checkpoint(checkpoint, history));
        let mut replay = restored.unwrap_or_else(|| Self::new(history));
        replay.advance(dir, history, to, has_ended)?;
        Ok(replay)
    }

    /// Computes the screen of a running task after the output before `to` from at most `max_bytes`
    /// of it. Without a checkpoint so close to `to`, starts with a blank terminal, so that earlier
    /// output which still has an effect is missing; [`Self::is_incomplete`] then returns true.
    ///
    /// # Errors
    ///
    /// The I/O error of reading the output. A task without output has a blank screen.
    pub fn open_within(
        dir: &TaskDir,
        history: &TerminalHistory,
        to: u64,
        max_bytes: u64,
    ) -> io::Result<Self> {
        let start = to.saturating_sub(max_bytes);
        let restored = Checkpoint::read(dir, history, to)
            .and_then(|checkpoint| Self::from_checkpoint(checkpoint, history))
            .filter(|replay| replay.offset >= start);
        let mut replay = match restored {
            Some(replay) => replay,
            None if start > 0 => Self::blank_at(history, start),
            None => Self::new(history),
        };
        replay.advance(dir, history, Some(to), false)?;
        Ok(replay)
    }

    /// Returns a replay that starts with a blank terminal after output that it does not interpret.
    fn blank_at(history: &TerminalHistory, offset: u64) -> Self {
        let known = history.up_to(offset);
        Self {
            emulator: Emulator::new(known.size()),
            offset,
            is_incomplete: true,
            applied_resizes: known.resizes.len(),
            // No checkpoint is ever due: a reader of the whole output would continue from it.
            checkpoint_offset: u64::MAX,
        }
    }

    fn new(history: &TerminalHistory) -> Self {
        Self {
            emulator: Emulator::new(history.initial),
            offset: 0,
            is_incomplete: false,
            applied_resizes: 0,
            checkpoint_offset: 0,
        }
    }

    fn from_checkpoint(checkpoint: Checkpoint, history: &TerminalHistory) -> Option<Self> {
        let Checkpoint { offset, is_incomplete, state, .. } = checkpoint;
        Some(Self {
            emulator: Emulator::restore_state(state)?,
            offset,
            is_incomplete,
            applied_resizes: history.up_to(offset).resizes.len(),
            checkpoint_offset: offset,
        })
    }

    /// Interprets the output between the last offset and `to`, or all new output. `history` must
    /// continue the earlier one. Stores a checkpoint after much output. Returns the new offset.
    ///
    /// # Errors
    ///
    /// The I/O error of reading the output. The next call continues after the bytes that were read.
    pub fn advance(
        &mut self,
        dir: &TaskDir,
        history: &TerminalHistory,
        to: Option<u64>,
        has_ended: bool,
    ) -> io::Result<u64> {
        if let Some(mut chunks) = RawChunks::open(dir)? {
            let mut end = chunks.written_bytes()?;
            if has_ended {
                end = find_terminal_end(&mut chunks, end)?;
            }
            let target = to.map_or(end, |to| to.min(end));
            let search_from = target.saturating_sub(CHECKPOINT_SEARCH_BYTES).max(self.offset);
            self.read_to(&mut chunks, history, search_from)?;
            // A checkpoint of a much earlier screen would replace that of the present screen.
            let is_present = end - target <= CHECKPOINT_SEARCH_BYTES;
            let is_due = self.offset.saturating_sub(self.checkpoint_offset)
                >= CHECKPOINT_INTERVAL_BYTES
                && is_present;
            if is_due {
                self.read_to_checkpoint(dir, &mut chunks, history, target)?;
            }
            self.read_to(&mut chunks, history, target)?;
        }
        self.apply_resizes(history);
        Ok(self.offset)
    }

    /// Returns the screen.
    #[must_use]
    pub fn screen(&self) -> Screen {
        self.emulator.screen()
    }

    /// Returns the terminal, for its scroll-back.
    #[must_use]
    pub const fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// Returns the offset of the first byte of the output that has no effect on the screen.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether a part of the output before the offset is no longer stored, or was left out
    /// by [`Self::open_within`]. The screen was then computed from the output after this part.
    #[must_use]
    pub const fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Applies the changes of the size up to the present offset.
    fn apply_resizes(&mut self, history: &TerminalHistory) {
        while let Some((from, size)) = history.resizes.get(self.applied_resizes)
            && *from <= self.offset
        {
            self.emulator.resize(*size);
            self.applied_resizes += 1;
        }
    }

    fn read_to(
        &mut self,
        chunks: &mut RawChunks,
        history: &TerminalHistory,
        to: u64,
    ) -> io::Result<()> {
        self.read_chunks(chunks, history, to, |replay, bytes| {
            replay.emulator.feed(bytes);
            replay.offset += bytes.len() as u64;
            ControlFlow::Continue(())
        })
    }

    /// Reads until the state of the emulator can be saved, and stores it as the task's checkpoint.
    fn read_to_checkpoint(
        &mut self,
        dir: &TaskDir,
        chunks: &mut RawChunks,
        history: &TerminalHistory,
        to: u64,
    ) -> io::Result<()> {
        self.read_chunks(chunks, history, to, |replay, bytes| {
            for byte in bytes {
                let can_save = replay.emulator.feed_byte(*byte);
                replay.offset += 1;
                if can_save {
                    replay.store_checkpoint(dir, history);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })
    }

    fn store_checkpoint(&mut self, dir: &TaskDir, history: &TerminalHistory) {
        // The checkpoint must contain every change of the size up to its offset.
        self.apply_resizes(history);
        let state = self.emulator.save_state();
        let checkpoint = Checkpoint::new(self.offset, self.is_incomplete, history, state);
        // The directory may be read-only, or the disk full.
        let _best_effort = checkpoint.write(dir);
        self.checkpoint_offset = self.offset;
    }

    /// Passes the output up to `to` to `feed`, which advances the offset. Stops when `feed` returns
    /// `Break`. Changes of the size are applied between the bytes before and after their offsets.
    fn read_chunks(
        &mut self,
        chunks: &mut RawChunks,
        history: &TerminalHistory,
        to: u64,
        mut feed: impl FnMut(&mut Self, &[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let mut piece = Vec::new();
        while self.offset < to {
            self.apply_resizes(history);
            let next_resize = history.resizes.get(self.applied_resizes);
            let until = next_resize.map_or(to, |(from, _)| to.min(*from));
            match chunks.read_chunk(self.offset, until, &mut piece)? {
                Some(gap) => self.skip_gap(gap.to.clamp(self.offset, until)),
                None if piece.is_empty() => return Ok(()),
                None => {
                    if feed(self, &piece).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Continues after released output with a blank terminal: the missing bytes may have changed
    /// everything, including the modes.
    fn skip_gap(&mut self, to: u64) {
        self.emulator = Emulator::new(self.emulator.size());
        self.is_incomplete = true;
        self.offset = to;
    }
}

/// Returns the offset after the last byte of the terminal, which excludes siding's own line at the
/// end of the output.
///
/// A terminal ends its lines with a carriage return and a newline, siding with a newline alone.
pub(crate) fn find_terminal_end(chunks: &mut RawChunks, end: u64) -> io::Result<u64> {
    let tail = read_tail(chunks, end, MAX_SIDING_LINE_BYTES)?;
    Ok(end - siding_line_bytes(&tail) as u64)
}

/// Reads at most `max_bytes` of the stored output before `end`.
pub(crate) fn read_tail(chunks: &mut RawChunks, end: u64, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut from = end.saturating_sub(max_bytes);
    let (mut tail, mut piece) = (Vec::new(), Vec::new());
    while chunks.read_after_gaps(&mut from, end, &mut piece)? {
        tail.extend_from_slice(&piece);
        from += piece.len() as u64;
    }
    Ok(tail)
}

/// Returns the length of siding's own line at the end of the output, with the newline that
/// separates it from an incomplete line; 0 without such a line.
fn siding_line_bytes(tail: &[u8]) -> usize {
    let Some(body) = tail.strip_suffix(b"\n") else { return 0 };
    let start = body.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = &body[start..];
    if !line.starts_with(SIDING_LINE_START) || line.contains(&b'\r') {
        return 0;
    }
    let separator = body[..start].ends_with(b"\n") && !body[..start].ends_with(b"\r\n");
    tail.len() - start + usize::from(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_siding_s_own_line_is_cut_from_the_end() {
        for (tail, bytes) in [
            (&b"done\r\n[siding] stopped\n"[..], 17),
            (b"$ \n[siding] stopped\n", 18),
            (b"[siding] stopped\n", 17),
            (b"[siding] printed by the task\r\n", 0),
            (b"[siding] not a line", 0),
            (b"done\r\n", 0),
            (b"", 0),
        ] {
            assert_eq!(siding_line_bytes(tail), bytes, "{}", tail.escape_ascii());
        }
    }
}
