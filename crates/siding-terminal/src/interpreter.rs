//! Interprets control functions. The crate vt100 stores the cells, but lacks some of the functions.
//!
//! vt100 has no character sets, no tab stops, no insert mode, no choice of wrapping at the margin,
//! no `CSI s`, and drops invalid UTF-8. A wide character made from a narrow one by U+FE0F at the
//! margin makes it panic. The interpreter keeps this state itself, and passes vt100 only sequences
//! that vt100 implements as xterm does. vt100 holds no state that cannot be read back, so a
//! [`saved_state`](crate::saved_state) is exact: the interpreter saves cursors itself, and sends
//! the margins again at each switch between the screens.

mod control;
mod dispatch;

use std::fmt::{self, Write as _};
use std::num::NonZeroU16;

use siding_model::terminal::TerminalSize;
use unicode_width::UnicodeWidthChar as _;

pub(crate) use control::{ControlState, SavedCursor};

use crate::style::{pen_style, push_style};

/// Private-use character that is stored in place of U+FFFD, because vt100 does not draw U+FFFD.
pub(crate) const REPLACEMENT_STAND_IN: char = '\u{10fffd}';
/// Selectors that show the preceding character as text or as an emoji.
const PRESENTATION_SELECTORS: [char; 2] = ['\u{fe0e}', '\u{fe0f}'];
/// Size at which the queue is passed to vt100, in bytes.
const MAX_QUEUED_BYTES: usize = 16 << 10;
/// Largest number of columns. Bounds the memory and keeps vt100's arithmetic far from overflow.
const MAX_COLUMNS: u16 = 500;
/// Largest number of rows.
const MAX_ROWS: u16 = 200;

/// Records whether a row has left the scroll-back. From then on, vt100 counts more rows than it
/// stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiscardedRows(pub(crate) bool);

impl vt100::Callbacks for DiscardedRows {
    fn on_scroll(&mut self, _row: vt100::capture::RowContents<'_>, is_alternate: bool) {
        self.0 |= !is_alternate;
    }
}

/// The state of a terminal: the cells in vt100, and the rest.
pub(crate) struct Interpreter {
    grid: vt100::Parser<DiscardedRows>,
    /// Text and sequences that vt100 has not received yet.
    queued: String,
    control: ControlState,
    /// The last character that was printed, if it is ASCII. Only the ground state of the parser
    /// prints.
    printed_ascii: Option<u8>,
}

impl Interpreter {
    pub(crate) fn new(size: TerminalSize, scrollback_rows: usize) -> Self {
        let (rows, columns) = cell_counts(size);
        let discarded = DiscardedRows::default();
        let grid = vt100::Parser::new_with_callbacks(rows, columns, scrollback_rows, discarded);
        Self::from_parts(grid, ControlState::default())
    }

    pub(crate) fn from_parts(grid: vt100::Parser<DiscardedRows>, control: ControlState) -> Self {
        Self { grid, queued: String::new(), control, printed_ascii: None }
    }

    /// Returns the cells. Must be called only with an empty queue.
    pub(crate) fn grid(&self) -> &vt100::Screen {
        debug_assert!(self.queued.is_empty(), "text is queued");
        self.grid.screen()
    }

    pub(crate) const fn control(&self) -> &ControlState {
        &self.control
    }

    pub(crate) fn has_discarded_rows(&self) -> bool {
        self.grid.callbacks().0
    }

    pub(crate) fn size(&self) -> TerminalSize {
        let (rows, columns) = self.grid.screen().size();
        TerminalSize { columns: columns.get(), rows: rows.get() }
    }

    /// Forgets which character was printed last.
    pub(crate) const fn clear_printed(&mut self) {
        self.printed_ascii = None;
    }

    /// Returns the last printed character since [`Self::clear_printed`], if it is ASCII.
    pub(crate) const fn printed_ascii(&self) -> Option<u8> {
        self.printed_ascii
    }

    /// Passes the queued text and sequences to vt100.
    pub(crate) fn flush(&mut self) {
        self.grid.process(self.queued.as_bytes());
        self.queued.clear();
    }

    pub(crate) fn resize(&mut self, size: TerminalSize) {
        self.flush();
        let (rows, columns) = cell_counts(size);
        self.grid.set_size(rows, columns);
        // Like xterm, vt100 resets the margins.
        self.control.margins = None;
    }

    fn queue(&mut self, sequence: fmt::Arguments<'_>) {
        let _writing_to_string = self.queued.write_fmt(sequence);
    }

    /// Returns the row and the column. The column equals the number of columns if the next
    /// character wraps.
    fn cursor(&mut self) -> (u16, u16) {
        self.flush();
        self.grid.screen().cursor_position()
    }

    /// Moves a cursor that is behind the last column, where the next character would wrap, to the
    /// last column. In xterm the cursor never leaves the last column, so other functions start from
    /// there.
    fn resolve_pending_wrap(&mut self) {
        let columns = self.size().columns;
        if self.cursor().1 >= columns {
            self.queue(format_args!("\x1b[{columns}G"));
        }
    }

    fn margins(&self) -> (u16, u16) {
        self.control.margins.unwrap_or((0, self.size().rows - 1))
    }

    fn queue_margins(&mut self) {
        match self.control.margins {
            None => self.queued.push_str("\x1b[r"),
            Some((top, bottom)) => self.queue(format_args!("\x1b[{};{}r", top + 1, bottom + 1)),
        }
    }

    /// Moves the cursor to a row and a column that start at 0.
    fn move_to(&mut self, row: u16, column: u16) {
        self.queue(format_args!("\x1b[{};{}H", row + 1, column + 1));
    }

    /// Returns the row, counted from 0, for a parameter that counts from 1.
    fn addressed_row(&self, parameter: u16) -> u16 {
        let row = parameter.max(1) - 1;
        if self.control.origin_mode {
            let (top, bottom) = self.margins();
            row.saturating_add(top).min(bottom)
        } else {
            row.min(self.size().rows - 1)
        }
    }

    fn draw(&mut self, c: char) {
        let columns = self.size().columns;
        let width = u16::try_from(c.width().unwrap_or(1).min(2)).unwrap_or(2);
        if width == 0 {
            self.draw_combining(c);
            return;
        }
        if width > columns {
            return;
        }
        self.control.last_char = Some(c);
        if self.control.insert_mode || self.control.stays_at_margin {
            self.prepare_cells(width, columns);
        }
        self.queued.push(c);
        if self.control.stays_at_margin {
            self.resolve_pending_wrap();
        }
        if self.queued.len() >= MAX_QUEUED_BYTES {
            self.flush();
        }
    }

    /// Makes room for a character of this width in the modes that vt100 lacks.
    fn prepare_cells(&mut self, width: u16, columns: u16) {
        let (_, column) = self.cursor();
        if column + width > columns {
            if self.control.stays_at_margin {
                self.queue(format_args!("\x1b[{}G", columns - width + 1));
            } else {
                self.queued.push_str("\r\n");
            }
        }
        if self.control.insert_mode {
            self.queue(format_args!("\x1b[{width}@"));
        }
    }

    fn draw_combining(&mut self, c: char) {
        // As in xterm, a selector does not change the width of a character. vt100 would change the
        // width: at the margin it then moves the character to the next row. If this scrolls, or
        // with a single column, it loses the character or panics.
        if !PRESENTATION_SELECTORS.contains(&c) {
            self.queued.push(c);
        }
    }

    /// Moves the cursor by rows, at most to a margin, unless the cursor is already beyond the
    /// margin. Returns the new row.
    fn move_by_rows(&mut self, count: u16, is_upward: bool) -> u16 {
        self.resolve_pending_wrap();
        let (row, _) = self.cursor();
        let (top, bottom) = self.margins();
        let target = if is_upward {
            row.saturating_sub(count).max(if row < top { 0 } else { top })
        } else {
            let last = if row > bottom { self.size().rows - 1 } else { bottom };
            row.saturating_add(count).min(last)
        };
        self.queue(format_args!("\x1b[{}d", target + 1));
        target
    }

    fn line_feed(&mut self) {
        self.resolve_pending_wrap();
        self.queued.push('\n');
    }

    fn reverse_index(&mut self) {
        self.resolve_pending_wrap();
        // vt100 would scroll the region although the cursor is above it.
        if self.cursor().0 > 0 || self.margins().0 == 0 {
            self.queued.push_str("\x1bM");
        }
    }

    /// Repeats the last character, for at most one row, so that a short sequence cannot be
    /// expensive.
    fn repeat_last(&mut self, count: u16) {
        if let Some(c) = self.control.last_char {
            for _ in 0..count.min(self.size().columns) {
                self.draw(c);
            }
        }
    }

    fn move_by_tabs(&mut self, count: u16, next: impl Fn(&ControlState, u16) -> u16) {
        let last_column = self.size().columns - 1;
        let (_, column) = self.cursor();
        let mut column = column.min(last_column);
        for _ in 0..count.min(self.size().columns) {
            column = next(&self.control, column).min(last_column);
        }
        self.queue(format_args!("\x1b[{}G", column + 1));
    }

    fn is_alternate(&mut self) -> bool {
        self.flush();
        self.grid.screen().alternate_screen()
    }

    /// Switches to the alternate or the primary screen. The two share the cursor and the margins.
    fn switch_screen(&mut self, alternate: bool) {
        if self.is_alternate() == alternate {
            return;
        }
        self.resolve_pending_wrap();
        let (row, column) = self.cursor();
        self.queued.push_str(if alternate { "\x1b[?47h" } else { "\x1b[?47l" });
        self.queue_margins();
        self.move_to(row, column);
    }

    fn save_cursor(&mut self) {
        let (row, column) = self.cursor();
        let column = column.min(self.size().columns - 1);
        let mut pen = String::new();
        push_style(&pen_style(self.grid.screen()), &mut pen);
        let index = usize::from(self.is_alternate());
        self.control.saved_cursors[index] = SavedCursor {
            row,
            column,
            pen,
            charsets: self.control.charsets,
            is_shifted: self.control.is_shifted,
            origin_mode: self.control.origin_mode,
        };
    }

    fn restore_cursor(&mut self) {
        let index = usize::from(self.is_alternate());
        let saved = self.control.saved_cursors[index].clone();
        self.control.charsets = saved.charsets;
        self.control.is_shifted = saved.is_shifted;
        self.control.origin_mode = saved.origin_mode;
        self.queue(format_args!("\x1b[0m{}", saved.pen));
        let TerminalSize { columns, rows } = self.size();
        let (top, bottom) = if saved.origin_mode { self.margins() } else { (0, rows - 1) };
        self.move_to(saved.row.clamp(top, bottom), saved.column.min(columns - 1));
    }

    /// Sets the margins to rows counted from 1; 0 means the first or the last row. Moves the cursor
    /// to the origin.
    fn set_margins(&mut self, top: u16, bottom: u16) {
        let rows = self.size().rows;
        let bottom = if bottom == 0 { rows } else { bottom.min(rows) };
        let top = top.max(1);
        // xterm ignores a region of fewer than two rows, except in a terminal with a single row.
        if top > bottom || (top == bottom && rows > 1) {
            return;
        }
        self.control.margins = (top > 1 || bottom < rows).then_some((top - 1, bottom - 1));
        self.queue_margins();
        let home = self.addressed_row(1);
        self.move_to(home, 0);
    }

    fn set_origin_mode(&mut self, is_on: bool) {
        self.control.origin_mode = is_on;
        let home = self.addressed_row(1);
        self.move_to(home, 0);
    }

    /// Resets the modes, but not the cells and the position (DECSTR).
    fn soft_reset(&mut self) {
        self.resolve_pending_wrap();
        let (row, column) = self.cursor();
        let index = usize::from(self.is_alternate());
        let control = &mut self.control;
        control.saved_cursors[index] = SavedCursor::default();
        control.margins = None;
        control.charsets = Default::default();
        control.is_shifted = false;
        control.insert_mode = false;
        control.origin_mode = false;
        control.stays_at_margin = false;
        self.queued.push_str("\x1b[0m\x1b[?25h\x1b[?1l\x1b>\x1b[r");
        self.move_to(row, column);
    }

    fn hard_reset(&mut self) {
        self.control = ControlState::default();
        self.queued.push_str("\x1bc");
    }

    /// Fills the screen with the letter E (DECALN).
    fn fill_with_letters(&mut self) {
        self.flush();
        let mut pen = String::new();
        push_style(&pen_style(self.grid.screen()), &mut pen);
        let TerminalSize { columns, rows } = self.size();
        self.control.margins = None;
        self.queued.push_str("\x1b[0m\x1b[r");
        for row in 0..rows {
            self.move_to(row, 0);
            self.queued.extend(std::iter::repeat_n('E', usize::from(columns)));
        }
        self.move_to(0, 0);
        self.queued.push_str(&pen);
        self.flush();
    }
}

/// Limits the numbers of rows and columns to the allowed range.
pub(crate) fn cell_counts(size: TerminalSize) -> (NonZeroU16, NonZeroU16) {
    let at_least_one =
        |count: u16, most: u16| NonZeroU16::new(count.min(most)).unwrap_or(NonZeroU16::MIN);
    (at_least_one(size.rows, MAX_ROWS), at_least_one(size.columns, MAX_COLUMNS))
}
