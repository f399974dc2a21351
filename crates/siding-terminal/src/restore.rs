//! Writes the sequences that draw rows and set the cursor.

use std::fmt::Write as _;

use siding_model::text::CharStyle;

use crate::style::{cell_style, push_style, stored_style};

/// Appends the sequences that draw one row from its first column, without trailing blank cells.
/// `pen` is the terminal's style, which the call updates. Returns the number of drawn
/// columns.
pub(crate) fn push_row(
    grid: &vt100::Screen,
    row: u16,
    pen: &mut CharStyle,
    out: &mut String,
) -> u16 {
    let used = used_columns(grid, row);
    let mut column = 0;
    while column < used
        && let Some(cell) = grid.cell(row, column)
    {
        if cell.has_contents() {
            push_cell(cell, pen, out);
            column += if cell.is_wide() { 2 } else { 1 };
            continue;
        }
        let style = stored_style(cell);
        let count = count_erased(grid, row, column, used, &style);
        // The terminal is blank, so cells without a style need not be erased.
        if style != CharStyle::default() {
            select_style(&style, pen, out);
            let _writing_to_string = write!(out, "\x1b[{count}X");
        }
        let _writing_to_string = write!(out, "\x1b[{count}C");
        column += count;
    }
    used
}

/// Returns the number of consecutive erased cells with this stored style, from the first of two
/// columns and before the second.
fn count_erased(grid: &vt100::Screen, row: u16, from: u16, to: u16, style: &CharStyle) -> u16 {
    let is_erased = |column: u16| {
        grid.cell(row, column)
            .is_some_and(|cell| !cell.has_contents() && stored_style(cell) == *style)
    };
    let end = (from + 1..to).find(|column| !is_erased(*column)).unwrap_or(to);
    end - from
}

/// Appends the sequences that draw all rows, each preceded by a movement to its start. The terminal
/// must be blank.
pub(crate) fn push_rows(grid: &vt100::Screen, pen: &mut CharStyle, out: &mut String) {
    let (rows, _) = grid.size();
    for row in (0..rows.get()).filter(|row| used_columns(grid, *row) > 0) {
        push_position(row, 0, out);
        push_row(grid, row, pen, out);
    }
}

/// Appends the sequences that leave the cursor where it is in `grid`, even behind the last column.
/// Rows are addressed from the row `origin`.
pub(crate) fn push_cursor(
    grid: &vt100::Screen,
    origin: u16,
    pen: &mut CharStyle,
    out: &mut String,
) {
    let (cursor_row, column) = grid.cursor_position();
    let row = cursor_row.saturating_sub(origin);
    let (_, columns) = grid.size();
    if column < columns.get() {
        push_position(row, column, out);
        return;
    }
    // Only drawing in the last column moves the cursor behind it.
    let last = columns.get() - 1;
    let is_half = grid.cell(cursor_row, last).is_some_and(vt100::Cell::is_wide_continuation);
    let start = if is_half { last.saturating_sub(1) } else { last };
    push_position(row, start, out);
    if let Some(cell) = grid.cell(cursor_row, start) {
        push_cell(cell, pen, out);
    }
}

/// Appends the movement to a row and a column, both counted from 0.
pub(crate) fn push_position(row: u16, column: u16, out: &mut String) {
    let _writing_to_string = write!(out, "\x1b[{};{}H", row + 1, column + 1);
}

/// Appends the margins, counted from 0. The caller must then move the cursor.
pub(crate) fn push_margins(margins: Option<(u16, u16)>, out: &mut String) {
    if let Some((top, bottom)) = margins {
        let _writing_to_string = write!(out, "\x1b[{};{}r", top + 1, bottom + 1);
    }
}

fn select_style(style: &CharStyle, pen: &mut CharStyle, out: &mut String) {
    if style != pen {
        push_style(style, out);
        *pen = *style;
    }
}

fn push_cell(cell: &vt100::Cell, pen: &mut CharStyle, out: &mut String) {
    // An erased cell that is drawn only to place the cursor behind it keeps its look.
    select_style(&cell_style(cell), pen, out);
    out.push_str(if cell.has_contents() { cell.contents() } else { " " });
}

/// Returns the number of columns up to the last cell that is not blank. A row of the scroll-back
/// may have more or fewer columns than the screen.
fn used_columns(grid: &vt100::Screen, row: u16) -> u16 {
    let mut used = 0;
    let mut column = 0;
    while let Some(cell) = grid.cell(row, column) {
        column += 1;
        let is_half = cell.is_wide_continuation();
        if is_half || cell.has_contents() || stored_style(cell) != CharStyle::default() {
            used = column;
        }
    }
    used
}
