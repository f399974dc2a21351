//! Loads parts of the output, and drops lines that are far from the visible ones.
//!
//! A part begins at the start of a line or of a gap, so that parts that are loaded one after the
//! other, in either direction, contain each line once. Only a text that is longer than a part is
//! divided where the part begins.

use std::io;

use siding_core::output::{LineStart, find_line_start};
use siding_model::record::OutputGap;
use siding_model::size::size_in_words;
use siding_model::text::{CharStyle, StyledLine, StyledLineParser};

use super::{BLOCK_BYTES, ByteSource, OutputPane};

/// Size of the loaded lines in memory from which lines are dropped. The lines of a block may exceed
/// it for a short time.
pub(super) const MAX_LINES_MEMORY: usize = 8 << 20;
/// Size to which the loaded lines are then reduced, so that few of the loads have to move lines.
const REDUCED_LINES_MEMORY: usize = MAX_LINES_MEMORY / 4 * 3;
/// The lines that are certainly enough for a screen: its rows if each line has one, or the text of
/// its cells if the lines are long.
const MAX_SCREEN_ROWS: usize = 1_000;
const MAX_SCREEN_TEXT_BYTES: usize = 256 << 10;

impl OutputPane {
    /// Loads the last part of the output, and follows it.
    pub(super) fn load_end(&mut self, source: &mut dyn ByteSource) -> io::Result<()> {
        self.is_following = true;
        self.load_part(self.written.saturating_sub(BLOCK_BYTES), source)?;
        self.load_until(self.written, source)?;
        // The part may be one long line, and lines above it are then visible as well.
        if self.first_of_screen() == 0 {
            self.load_before(source)?;
        }
        Ok(())
    }

    /// Replaces the loaded part by the block at an offset, and by the whole line or gap in which
    /// the block begins.
    pub(super) fn load_part(&mut self, from: u64, source: &mut dyn ByteSource) -> io::Result<()> {
        let start = find_part_start(from, source)?;
        self.clear_to(start);
        self.is_loaded = true;
        self.load_lines_until((from + BLOCK_BYTES).min(self.written), source)
    }

    /// Loads the part around an offset. Returns the index of the line that contains the offset.
    pub(super) fn load_around(
        &mut self,
        offset: u64,
        source: &mut dyn ByteSource,
    ) -> io::Result<usize> {
        self.is_following = false;
        self.load_part(offset.saturating_sub(BLOCK_BYTES / 2), source)?;
        while self.end <= offset && self.load_after(source)? {}
        if self.pending.as_ref().is_some_and(|line| line.offset <= offset) {
            return Ok(self.lines.len());
        }
        let after = self.lines.partition_point(|line| line.offset <= offset);
        Ok(after.saturating_sub(1))
    }

    /// Loads lines after the loaded part. Returns whether there was more output.
    pub(super) fn load_after(&mut self, source: &mut dyn ByteSource) -> io::Result<bool> {
        self.written = source.written_bytes()?;
        let before = self.end;
        self.load_lines_until((self.end + BLOCK_BYTES).min(self.written), source)?;
        Ok(self.end > before)
    }

    /// Loads at least one line, and lines up to an offset. The last of them is complete unless it
    /// is the last line of the output, so that no line is shown without its end.
    fn load_lines_until(&mut self, to: u64, source: &mut dyn ByteSource) -> io::Result<()> {
        let (first, mut to) = (self.parser.line_offset(), to);
        loop {
            let before = self.end;
            self.load_until(to, source)?;
            let has_line = self.parser.line_offset() > first;
            if has_line || self.end == before || self.end >= self.written {
                break;
            }
            to = (self.end + BLOCK_BYTES).min(self.written);
        }
        if self.end < self.written {
            self.end = self.parser.rewind_line();
            self.pending = None;
        }
        Ok(())
    }

    /// Loads lines before the loaded part. Returns whether there were any.
    pub(super) fn load_before(&mut self, source: &mut dyn ByteSource) -> io::Result<bool> {
        while self.start > 0 {
            let earlier = self.read_before(source)?;
            self.start = earlier.start;
            // Output without a character, such as carriage returns alone, has no line.
            if !earlier.lines.is_empty() {
                self.prepend(earlier);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the part before the loaded one.
    fn read_before(&self, source: &mut dyn ByteSource) -> io::Result<Self> {
        let gap = source.gap_around(self.start - 1)?;
        let stored_end = gap.map_or(self.start, |gap| gap.from);
        let mut earlier = Self { written: self.start, ..Self::default() };
        earlier.load_part(stored_end.saturating_sub(BLOCK_BYTES), source)?;
        earlier.load_until(self.start, source)?;
        let last = earlier.pending.take();
        earlier.memory += last.as_ref().map_or(0, line_memory);
        earlier.lines.extend(last);
        Ok(earlier)
    }

    fn prepend(&mut self, mut earlier: Self) {
        let count = earlier.lines.len();
        earlier.lines.append(&mut self.lines);
        self.lines = earlier.lines;
        self.memory += earlier.memory;
        self.top += count;
        self.hit = self.hit.map(|hit| hit + count);
        self.drop_last_lines();
    }

    /// Removes the loaded lines. The line that has no newline yet remains.
    pub(super) fn discard_lines(&mut self) {
        self.lines.clear();
        self.memory = 0;
    }

    pub(super) fn clear_to(&mut self, start: LineStart) {
        self.discard_lines();
        self.parser = StyledLineParser::resuming_line(start.line, start.state);
        self.pending = None;
        (self.start, self.end) = (start.line, start.state);
        (self.top, self.top_row, self.hit) = (0, 0, None);
    }

    /// Loads the output up to an offset or, if a gap is there, up to the end of the gap. Drops the
    /// first lines if too much is loaded.
    pub(super) fn load_until(&mut self, to: u64, source: &mut dyn ByteSource) -> io::Result<()> {
        let loaded = self.read_until(to, source);
        self.pending = self.parser.pending_line();
        loaded
    }

    fn read_until(&mut self, to: u64, source: &mut dyn ByteSource) -> io::Result<()> {
        let mut chunk = Vec::new();
        while self.end < to {
            let known = self.lines.len();
            let gap = source.read_chunk(self.end, to, &mut chunk)?;
            if let Some(part) = gap {
                // The gap is loaded to its end, so that it is one line and crossed by one step.
                let gap = source.read_chunk(self.end, self.written.max(to), &mut chunk)?;
                self.push_gap(gap.unwrap_or(part));
            } else if chunk.is_empty() {
                break;
            } else {
                self.end += chunk.len() as u64;
                self.parser.push(&chunk, &mut self.lines);
            }
            self.memory += self.lines[known..].iter().map(line_memory).sum::<usize>();
            self.drop_first_lines();
        }
        Ok(())
    }

    /// Adds a line in place of bytes whose disk space was released.
    fn push_gap(&mut self, gap: OutputGap) {
        self.lines.extend(self.parser.pending_line());
        let text = format!("… {} were released to save disk space …", size_in_words(gap.len()));
        let styles = vec![(text.len(), CharStyle::default())];
        self.lines.push(StyledLine { offset: gap.from, text, styles });
        self.end = gap.to.max(self.end + 1);
        self.parser = StyledLineParser::starting_at(self.end);
    }

    /// Drops the first lines if too much is loaded, but none that may be visible.
    fn drop_first_lines(&mut self) {
        if self.memory <= MAX_LINES_MEMORY {
            return;
        }
        let visible = if self.is_following { self.first_of_screen() } else { self.top };
        let limit = visible.min(self.lines.len().saturating_sub(1));
        let mut dropped = 0;
        while dropped < limit && self.memory > REDUCED_LINES_MEMORY {
            self.memory -= line_memory(&self.lines[dropped]);
            dropped += 1;
        }
        if dropped == 0 {
            return;
        }
        self.lines.drain(..dropped);
        self.start = self.lines.first().map_or(self.end, |line| line.offset);
        self.top = self.top.saturating_sub(dropped);
        self.hit = self.hit.and_then(|hit| hit.checked_sub(dropped));
    }

    /// Drops the last lines if too much is loaded, but none that may be visible.
    fn drop_last_lines(&mut self) {
        if self.memory <= MAX_LINES_MEMORY {
            return;
        }
        let limit = self.top + screen_lines(self.lines.iter().skip(self.top));
        let mut kept = self.lines.len();
        while kept > limit && self.memory > REDUCED_LINES_MEMORY {
            kept -= 1;
            self.memory -= line_memory(&self.lines[kept]);
        }
        let Some(first_dropped) = self.lines.get(kept) else { return };
        self.end = first_dropped.offset;
        self.parser = StyledLineParser::starting_at(self.end);
        self.pending = None;
        self.lines.truncate(kept);
        self.hit = self.hit.filter(|hit| *hit < kept);
    }

    /// Returns the first of the last loaded lines that fill every screen; 0 if fewer are loaded.
    fn first_of_screen(&self) -> usize {
        self.lines.len() - screen_lines(self.lines.iter().rev())
    }
}

/// Returns the number of the next lines that fill every screen; of all lines if they do not.
fn screen_lines<'l>(lines: impl Iterator<Item = &'l StyledLine>) -> usize {
    let mut text_bytes = 0;
    let is_within = |line: &&StyledLine| {
        let fits = text_bytes < MAX_SCREEN_TEXT_BYTES;
        text_bytes += line.text.len();
        fits
    };
    lines.take(MAX_SCREEN_ROWS).take_while(is_within).count()
}

/// Returns the approximate size of a line in memory.
fn line_memory(line: &StyledLine) -> usize {
    let styles = line.styles.capacity() * size_of::<(usize, CharStyle)>();
    size_of::<StyledLine>() + line.text.capacity() + styles
}

/// Returns the start of the line or the gap at an offset; of a character at the offset if the
/// offset is far inside of a long text.
fn find_part_start(from: u64, source: &mut dyn ByteSource) -> io::Result<LineStart> {
    /// Maximum number of bytes of a character of UTF-8 after its first one.
    const MAX_CONTINUATION_BYTES: usize = 3;
    if let Some(gap) = source.gap_around(from)? {
        return Ok(LineStart::from_offset(gap.from));
    }
    let mut read = |from, to, chunk: &mut Vec<u8>| source.read_chunk(from, to, chunk);
    if let Some(start) = find_line_start(&mut read, from, BLOCK_BYTES)? {
        return Ok(start);
    }
    let mut next = Vec::new();
    source.read_chunk(from, from + MAX_CONTINUATION_BYTES as u64, &mut next)?;
    let is_continuation = |byte: &&u8| **byte & 0xc0 == 0x80;
    let continued = next.iter().take(MAX_CONTINUATION_BYTES).take_while(is_continuation).count();
    Ok(LineStart::from_offset(from + continued as u64))
}
