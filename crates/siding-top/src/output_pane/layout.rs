//! Computes the rows of the loaded lines that are on the screen. A long line is wrapped.

use std::ops::Range;

use ratatui_core::style::Style;
use siding_model::text::display_width;

use super::{OutputPane, StyledLine};
use crate::output_style::to_screen_style;

/// One row of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VisibleRow {
    /// The parts of the row that have one style each.
    pub(crate) spans: Vec<(String, Style)>,
    /// Whether the row belongs to the line that a search has found.
    pub(crate) is_hit: bool,
}

/// Returns the number of rows that a text occupies; at least one.
pub(crate) fn row_count(text: &str, columns: usize) -> usize {
    if text.is_ascii() {
        return text.len().div_ceil(columns).max(1);
    }
    let (mut rows, mut used) = (1, 0);
    for c in text.chars() {
        let width = display_width(c.encode_utf8(&mut [0; 4]));
        if used + width > columns {
            rows += 1;
            used = 0;
        }
        used += width;
    }
    rows
}

/// Divides a line into rows.
fn wrap(line: &StyledLine, columns: usize) -> Vec<Vec<(String, Style)>> {
    let mut rows: Vec<Vec<(String, Style)>> = vec![Vec::new()];
    let mut used = 0;
    for (text, style) in line.spans() {
        let style = to_screen_style(style);
        let mut part = String::new();
        for c in text.chars() {
            let width = display_width(c.encode_utf8(&mut [0; 4]));
            if used + width > columns {
                push_part(&mut rows, std::mem::take(&mut part), style);
                rows.push(Vec::new());
                used = 0;
            }
            part.push(c);
            used += width;
        }
        push_part(&mut rows, part, style);
    }
    rows
}

fn push_part(rows: &mut [Vec<(String, Style)>], part: String, style: Style) {
    if let Some(row) = rows.last_mut().filter(|_| !part.is_empty()) {
        row.push((part, style));
    }
}

impl OutputPane {
    /// Returns the visible rows from top to bottom, at most `height`.
    pub(crate) fn visible_rows(&self, columns: usize, height: usize) -> Vec<VisibleRow> {
        let columns = columns.max(1);
        let (top, top_row) = self.position(columns, height);
        let lines = self.lines.iter().chain(&self.pending).enumerate().skip(top);
        let mut rows = Vec::with_capacity(height);
        for (index, line) in lines {
            let skipped = if index == top { top_row } else { 0 };
            let is_hit = self.hit == Some(index);
            let wrapped = wrap(line, columns).into_iter().skip(skipped);
            rows.extend(wrapped.map(|spans| VisibleRow { spans, is_hit }));
            if rows.len() >= height {
                rows.truncate(height);
                break;
            }
        }
        rows
    }

    pub(super) fn line_count(&self) -> usize {
        self.lines.len() + usize::from(self.pending.is_some())
    }

    pub(super) fn rows_of_line(&self, index: usize, columns: usize) -> usize {
        let line = self.lines.get(index).or(self.pending.as_ref());
        line.map_or(1, |line| row_count(&line.text, columns))
    }

    /// Returns the number of written bytes below the visible rows, from the start of the first line
    /// whose end is not visible.
    pub(crate) fn bytes_below(&self, columns: usize, height: usize) -> u64 {
        let columns = columns.max(1);
        let (top, top_row) = self.position(columns, height);
        let mut room = height + top_row;
        for index in top..self.line_count() {
            let rows = self.rows_of_line(index, columns);
            if rows > room {
                return self.written.saturating_sub(self.line_offset(index));
            }
            room -= rows;
        }
        self.written.saturating_sub(self.end)
    }

    /// Returns the indexes of the lines that are visible, at least in part.
    pub(super) fn visible_lines(&self, columns: usize, height: usize) -> Range<usize> {
        let columns = columns.max(1);
        let (top, top_row) = self.position(columns, height);
        let (mut end, mut room) = (top, height + top_row);
        let count = self.line_count();
        while end < count && room > 0 {
            room = room.saturating_sub(self.rows_of_line(end, columns));
            end += 1;
        }
        top..end
    }

    /// Returns the stream offset of a line; the end of the loaded part for an index after the last
    /// line.
    pub(super) fn line_offset(&self, index: usize) -> u64 {
        let line = self.lines.get(index).or(self.pending.as_ref());
        line.map_or(self.end, |line| line.offset)
    }

    /// Returns the first visible line and row.
    fn position(&self, columns: usize, height: usize) -> (usize, usize) {
        if self.is_following {
            self.end_position(columns, height)
        } else {
            (self.top, self.top_row)
        }
    }

    /// Returns the first visible line and row when the last row is at the bottom of the screen.
    pub(super) fn end_position(&self, columns: usize, height: usize) -> (usize, usize) {
        let (mut index, mut missing) = (self.line_count(), height);
        while missing > 0 && index > 0 {
            index -= 1;
            let rows = self.rows_of_line(index, columns);
            if rows >= missing {
                return (index, rows - missing);
            }
            missing -= rows;
        }
        (0, 0)
    }

    /// Scrolls to the last rows if the output is followed.
    pub(super) fn settle(&mut self, columns: usize, height: usize) {
        (self.top, self.top_row) = self.position(columns.max(1), height);
    }

    pub(super) fn step_back(&mut self, columns: usize) {
        if self.top_row > 0 {
            self.top_row -= 1;
        } else if self.top > 0 {
            self.top -= 1;
            self.top_row = self.rows_of_line(self.top, columns.max(1)) - 1;
        }
    }

    pub(super) fn step_forward(&mut self, columns: usize) {
        if self.top_row + 1 < self.rows_of_line(self.top, columns.max(1)) {
            self.top_row += 1;
        } else if self.top + 1 < self.line_count() {
            (self.top, self.top_row) = (self.top + 1, 0);
        }
    }
}
