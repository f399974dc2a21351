//! The window on the output of a task: which part is loaded, which lines are visible, and the
//! search in this part. A [`Scan`], which runs in a thread, searches the rest of the output.
//!
//! A bounded part of the output is in memory, however long the output is. Positions are indexes of
//! lines in this part; they change when lines are loaded before it or dropped from it.

mod layout;
mod scan;

use std::io;
use std::ops::Range;

use siding_model::record::OutputGap;
use siding_model::size::size_in_words;
use siding_model::text::{CharStyle, StyledLine, StyledLineParser};

#[cfg(test)]
use self::layout::VisibleRow;
pub(crate) use self::scan::{Pattern, Scan};

/// Number of bytes to load at a time.
const BLOCK_BYTES: u64 = 128 << 10;
/// Number of raw bytes of output that are kept in memory; more are loaded for a short time only.
const MAX_WINDOW_BYTES: u64 = 1 << 20;

/// The bytes of a task's output. [`OutputFile`](crate::output_file::OutputFile) reads them from a
/// file; tests keep them in memory.
pub(crate) trait ByteSource {
    /// Returns the number of bytes that the task has written.
    fn written_bytes(&mut self) -> io::Result<u64>;

    /// Like [`RawChunks::read_chunk`](siding_core::output::RawChunks::read_chunk), reads the first
    /// stored bytes between two offsets. If there is a gap at the first offset, returns the gap, up
    /// to the second offset.
    fn read_chunk(
        &mut self,
        from: u64,
        to: u64,
        chunk: &mut Vec<u8>,
    ) -> io::Result<Option<OutputGap>>;
}

/// The loaded part of an output, and the position of its visible lines.
#[derive(Debug, Default)]
pub(crate) struct OutputPane {
    lines: Vec<StyledLine>,
    parser: StyledLineParser,
    /// Stream offsets of the loaded part.
    start: u64,
    end: u64,
    /// The gaps in the loaded part, in order. Each of them is one line.
    gaps: Vec<OutputGap>,
    /// Number of bytes that the task has written.
    written: u64,
    /// Whether the last line stays visible.
    is_following: bool,
    /// Whether a first part was loaded.
    is_loaded: bool,
    /// The first visible line, and its first visible row if the line is wrapped.
    top: usize,
    top_row: usize,
    /// The text that was searched for, in lower case, and the line of the last hit.
    needle: String,
    hit: Option<usize>,
}

/// The result of a search in the loaded part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SearchStep {
    /// The line that was found is shown.
    Found,
    /// No loaded line in this direction matches. The rest of the output must be searched.
    Scan(Scan),
    /// There is no text to search for: none was entered, now or before.
    NoText,
}

/// The direction of a movement or a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Backward,
    Forward,
}

impl OutputPane {
    pub(crate) fn new() -> Self {
        Self { is_following: true, ..Self::default() }
    }

    pub(crate) const fn is_following(&self) -> bool {
        self.is_following
    }

    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Reads the size of the output, and loads the new output if the end is followed. The first
    /// call, and a call for more new output than [`MAX_WINDOW_BYTES`], loads only the end. Returns
    /// whether anything has changed.
    pub(crate) fn refresh(&mut self, source: &mut dyn ByteSource) -> io::Result<bool> {
        let written = source.written_bytes()?;
        let has_changed = written != self.written || !self.is_loaded;
        self.written = written;
        if !self.is_loaded || (self.is_following && written - self.end > MAX_WINDOW_BYTES) {
            self.load_end(source)?;
        } else if self.is_following {
            self.load_until(written, source)?;
        }
        Ok(has_changed)
    }

    /// Loads the last part of the output, and follows it.
    fn load_end(&mut self, source: &mut dyn ByteSource) -> io::Result<()> {
        self.load_part(self.written.saturating_sub(BLOCK_BYTES), source)?;
        self.load_until(self.written, source)?;
        self.is_following = true;
        Ok(())
    }

    /// Replaces the loaded part by the block at an offset. After an offset other than 0, drops the
    /// first line, which may be incomplete, unless it is the only one.
    fn load_part(&mut self, from: u64, source: &mut dyn ByteSource) -> io::Result<()> {
        self.clear_from(from);
        self.is_loaded = true;
        self.load_until((from + BLOCK_BYTES).min(self.written), source)?;
        if from > 0 && self.lines.len() > 1 {
            self.lines.remove(0);
            self.start = self.lines[0].offset;
            self.gaps.retain(|gap| gap.from >= self.start);
        }
        Ok(())
    }

    /// Removes the loaded lines. The line that has no newline yet remains.
    fn discard_lines(&mut self) {
        self.lines.clear();
        self.gaps.clear();
    }

    fn clear_from(&mut self, offset: u64) {
        self.discard_lines();
        self.parser = StyledLineParser::starting_at(offset);
        (self.start, self.end) = (offset, offset);
        (self.top, self.top_row, self.hit) = (0, 0, None);
    }

    /// Loads the output up to an offset or, if a gap is there, up to the end of the gap. Drops the
    /// first lines if too much is loaded.
    fn load_until(&mut self, to: u64, source: &mut dyn ByteSource) -> io::Result<()> {
        let mut chunk = Vec::new();
        while self.end < to {
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
        self.gaps.push(gap);
        self.end = gap.to.max(self.end + 1);
        self.parser = StyledLineParser::starting_at(self.end);
    }

    /// Returns the offset at which this number of stored bytes of the loaded part come before it.
    /// A gap occupies no memory, so that lines above it remain loaded, however long it is.
    fn offset_after(&self, stored: u64) -> u64 {
        let mut offset = self.start + stored;
        for gap in &self.gaps {
            if gap.from < offset {
                offset += gap.len();
            }
        }
        offset
    }

    fn drop_first_lines(&mut self) {
        let released: u64 = self.gaps.iter().map(|gap| gap.len()).sum();
        let excess = (self.end - self.start).saturating_sub(released + MAX_WINDOW_BYTES);
        if excess == 0 {
            return;
        }
        let first_kept = self.offset_after(excess);
        let dropped = self.lines.partition_point(|line| line.offset < first_kept);
        // A quarter more is dropped, so that the lines are not moved for every new one.
        let dropped = (dropped + self.lines.len() / 4).min(self.lines.len());
        self.lines.drain(..dropped);
        self.start = self.line_offset(0);
        self.gaps.retain(|gap| gap.from >= self.start);
        if self.top < dropped {
            self.top_row = 0;
        }
        self.top = self.top.saturating_sub(dropped);
        self.hit = self.hit.and_then(|hit| hit.checked_sub(dropped));
    }

    /// Loads lines before the loaded part. Returns whether there were any.
    fn load_before(&mut self, source: &mut dyn ByteSource) -> io::Result<bool> {
        if self.start == 0 {
            return Ok(false);
        }
        let from = self.start.saturating_sub(BLOCK_BYTES);
        let mut earlier = Self { written: self.start, ..Self::default() };
        earlier.load_part(from, source)?;
        earlier.lines.extend(earlier.parser.pending_line());
        let count = earlier.lines.len();
        if count == 0 {
            return Ok(false);
        }
        self.start = earlier.start;
        earlier.lines.append(&mut self.lines);
        self.lines = earlier.lines;
        earlier.gaps.append(&mut self.gaps);
        self.gaps = earlier.gaps;
        self.top += count;
        self.hit = self.hit.map(|hit| hit + count);
        self.drop_last_lines();
        Ok(true)
    }

    fn drop_last_lines(&mut self) {
        let limit = self.offset_after(MAX_WINDOW_BYTES + BLOCK_BYTES);
        if self.end <= limit {
            return;
        }
        let kept = self.lines.partition_point(|line| line.offset < limit);
        if let Some(first_dropped) = self.lines.get(kept) {
            self.end = first_dropped.offset;
            self.parser = StyledLineParser::starting_at(self.end);
            self.lines.truncate(kept);
            self.gaps.retain(|gap| gap.from < self.end);
        }
    }

    /// Scrolls by a number of rows of the screen. Scrolling back pauses, and scrolling beyond the
    /// end of the output follows it again.
    pub(crate) fn scroll(
        &mut self,
        direction: Direction,
        rows: usize,
        size: (usize, usize),
        source: &mut dyn ByteSource,
    ) -> io::Result<()> {
        let (columns, height) = size;
        self.settle(columns, height);
        match direction {
            Direction::Backward => {
                self.is_following = false;
                for _ in 0..rows {
                    if self.top == 0 && self.top_row == 0 && !self.load_before(source)? {
                        break;
                    }
                    self.step_back(columns);
                }
            }
            Direction::Forward => {
                for _ in 0..rows {
                    if self.is_at_end(columns, height) && !self.load_after(source)? {
                        self.is_following = true;
                        break;
                    }
                    self.step_forward(columns);
                }
            }
        }
        Ok(())
    }

    fn load_after(&mut self, source: &mut dyn ByteSource) -> io::Result<bool> {
        self.written = source.written_bytes()?;
        let before = self.end;
        self.load_until((self.end + BLOCK_BYTES).min(self.written), source)?;
        Ok(self.end > before)
    }

    /// Shows the first line of the output.
    pub(crate) fn go_to_start(&mut self, source: &mut dyn ByteSource) -> io::Result<()> {
        self.is_following = false;
        if self.start > 0 {
            self.load_part(0, source)?;
        }
        (self.top, self.top_row) = (0, 0);
        Ok(())
    }

    /// Shows the last line of the output, and follows it.
    pub(crate) fn go_to_end(&mut self, source: &mut dyn ByteSource) -> io::Result<()> {
        self.written = source.written_bytes()?;
        if self.written.saturating_sub(self.end) > MAX_WINDOW_BYTES {
            return self.load_end(source);
        }
        self.is_following = true;
        self.load_until(self.written, source)
    }

    /// Stops or starts following.
    pub(crate) fn toggle_following(
        &mut self,
        size: (usize, usize),
        source: &mut dyn ByteSource,
    ) -> io::Result<()> {
        if self.is_following {
            self.settle(size.0, size.1);
            self.is_following = false;
            return Ok(());
        }
        self.go_to_end(source)
    }

    /// Searches the loaded part for a text from the last hit. If the hit is not visible, or without
    /// a hit, a search forward starts at the first visible line, and a search backward at the last
    /// visible line. An empty `needle` repeats the last search.
    pub(crate) fn search(
        &mut self,
        needle: &str,
        direction: Direction,
        size: (usize, usize),
    ) -> SearchStep {
        if !needle.is_empty() {
            self.needle = needle.to_lowercase();
            self.hit = None;
        }
        if self.needle.is_empty() {
            return SearchStep::NoText;
        }
        self.settle(size.0, size.1);
        let pattern = Pattern::Text(self.needle.clone());
        let visible = self.visible_lines(size.0, size.1);
        // A person who has scrolled away from the hit, for example to the end of the output,
        // expects the next one near the lines on the screen.
        let hit = self.hit.filter(|hit| visible.contains(hit));
        if let Some(index) = self.find_loaded(&pattern, direction, hit, &visible) {
            self.show_hit(index, size);
            return SearchStep::Found;
        }
        let (from, to) = match direction {
            Direction::Forward => {
                // The last line, which has no newline yet, is not among the loaded ones.
                let last = self.lines.len();
                let from = if hit == Some(last) { self.end } else { self.line_offset(last) };
                (from, self.written)
            }
            Direction::Backward => (0, self.start),
        };
        SearchStep::Scan(Scan { pattern, direction, from, to })
    }

    /// Returns the search for the first line of the whole output that looks like an error. The
    /// same part of the output remains visible until the search finds a line.
    pub(crate) const fn first_error_scan(&self) -> Scan {
        Scan { pattern: Pattern::Error, direction: Direction::Forward, from: 0, to: self.written }
    }

    /// Shows the line at an offset, which a [`Scan`] has found.
    pub(crate) fn show_match(
        &mut self,
        offset: u64,
        size: (usize, usize),
        source: &mut dyn ByteSource,
    ) -> io::Result<()> {
        let index = self.load_around(offset, source)?;
        self.show_hit(index, size);
        Ok(())
    }

    /// Returns the next matching line of the loaded part: after a hit or, without one, from the
    /// first visible line down or from the last visible line up.
    fn find_loaded(
        &self,
        pattern: &Pattern,
        direction: Direction,
        hit: Option<usize>,
        visible: &Range<usize>,
    ) -> Option<usize> {
        let matches = |index: &usize| pattern.matches(&self.lines[*index].text);
        let count = self.lines.len();
        match direction {
            Direction::Forward => {
                let first = hit.map_or(visible.start, |hit| hit + 1);
                (first.min(count)..count).find(matches)
            }
            Direction::Backward => (0..hit.unwrap_or(visible.end).min(count)).rev().find(matches),
        }
    }

    /// Loads the part around an offset. Returns the index of the line at the offset.
    fn load_around(&mut self, offset: u64, source: &mut dyn ByteSource) -> io::Result<usize> {
        self.load_part(offset.saturating_sub(BLOCK_BYTES / 2), source)?;
        let index = self.lines.partition_point(|line| line.offset < offset);
        Ok(index.min(self.line_count().saturating_sub(1)))
    }

    /// Shows a line that was found, and the lines above it that leave room for it.
    fn show_hit(&mut self, index: usize, size: (usize, usize)) {
        /// Maximum number of lines above a hit, for context.
        const CONTEXT_LINES: usize = 3;
        let columns = size.0.max(1);
        let mut room = size.1.saturating_sub(self.rows_of_line(index, columns));
        let mut top = index;
        while top > 0 && top + CONTEXT_LINES > index {
            let rows = self.rows_of_line(top - 1, columns);
            if rows > room {
                break;
            }
            room -= rows;
            top -= 1;
        }
        self.is_following = false;
        self.hit = Some(index);
        (self.top, self.top_row) = (top, 0);
    }
}

#[cfg(test)]
mod tests;
