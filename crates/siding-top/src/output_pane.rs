//! The window on the output of a task: which part is loaded, which lines are visible, and the
//! search in this part. A [`Scan`], which runs in a thread, searches the rest of the output.
//!
//! A bounded part of the output is in memory, however long the output is. Positions are indexes of
//! lines in this part; they change when lines are loaded before it or dropped from it.

mod layout;
mod load;
mod scan;

use std::io;
use std::ops::Range;

use siding_model::record::OutputGap;
use siding_model::text::{StyledLine, StyledLineParser};

#[cfg(test)]
use self::layout::VisibleRow;
pub(crate) use self::scan::{Pattern, Scan};

/// Number of bytes to load at a time.
const BLOCK_BYTES: u64 = 128 << 10;
/// Amount of new output from which only its end is loaded.
const MAX_NEW_BYTES: u64 = 1 << 20;

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

    /// Returns the whole gap that contains an offset, as
    /// [`RawChunks::gap_around`](siding_core::output::RawChunks::gap_around) does.
    fn gap_around(&mut self, offset: u64) -> io::Result<Option<OutputGap>>;
}

/// The loaded part of an output, and the position of its visible lines.
#[derive(Debug, Default)]
pub(crate) struct OutputPane {
    /// The complete lines. A gap is one line.
    lines: Vec<StyledLine>,
    /// The approximate size of the lines in memory, in bytes.
    memory: usize,
    parser: StyledLineParser,
    /// The line that has no newline yet.
    pending: Option<StyledLine>,
    /// Stream offsets of the loaded part.
    start: u64,
    end: u64,
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
    /// call, and a call for more new output than [`MAX_NEW_BYTES`], loads only the end. Returns
    /// whether anything has changed.
    pub(crate) fn refresh(&mut self, source: &mut dyn ByteSource) -> io::Result<bool> {
        let written = source.written_bytes()?;
        let has_changed = written != self.written || !self.is_loaded;
        self.written = written;
        if !self.is_loaded || (self.is_following && self.is_end_far()) {
            self.load_end(source)?;
        } else if self.is_following {
            self.load_until(written, source)?;
        }
        Ok(has_changed)
    }

    /// Returns whether there is much output after the loaded part, or whether the program of an
    /// adopted task has truncated its file.
    const fn is_end_far(&self) -> bool {
        self.written < self.end || self.written - self.end > MAX_NEW_BYTES
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
        self.settle(size.0, size.1);
        match direction {
            Direction::Backward => self.scroll_back(rows, size.0, source),
            Direction::Forward => self.scroll_forward(rows, size, source),
        }
    }

    fn scroll_back(
        &mut self,
        rows: usize,
        columns: usize,
        source: &mut dyn ByteSource,
    ) -> io::Result<()> {
        self.is_following = false;
        for _ in 0..rows {
            if self.top == 0 && self.top_row == 0 && !self.load_before(source)? {
                break;
            }
            self.step_back(columns);
        }
        Ok(())
    }

    fn scroll_forward(
        &mut self,
        rows: usize,
        size: (usize, usize),
        source: &mut dyn ByteSource,
    ) -> io::Result<()> {
        let (columns, height) = (size.0.max(1), size.1);
        let mut end = self.end_position(columns, height);
        for _ in 0..rows {
            // More output is not always a further row: it may belong to a long progress bar.
            while (self.top, self.top_row) >= end {
                if !self.load_after(source)? {
                    self.is_following = true;
                    return Ok(());
                }
                end = self.end_position(columns, height);
            }
            self.step_forward(columns);
        }
        Ok(())
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
        if self.is_end_far() {
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
