//! The complete state of an emulator between two characters or sequences, for a checkpoint.

use siding_model::terminal::TerminalSize;
use siding_model::text::CharStyle;

use serde::{Deserialize, Serialize};

use crate::interpreter::{ControlState, DiscardedRows, Interpreter, cell_counts};
use crate::restore;
use crate::style::{pen_style, push_style};

/// Everything that determines the effect of later output. The cells are stored as the sequences
/// that draw them, because vt100 does not expose its cells for writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedState {
    pub(crate) size: TerminalSize,
    /// Number of columns of the widest row in the scroll-back. Rows there keep their width when the
    /// size changes.
    history_columns: u16,
    /// Number of rows in the scroll-back.
    history_rows: usize,
    /// Whether rows have left the scroll-back. vt100 counts them, so growing the screen by more
    /// than `history_rows` rows would have a different effect on the restored emulator.
    has_discarded_rows: bool,
    /// Draws the scroll-back.
    history: String,
    /// Draws both screens, and sets the cursor and the modes.
    screens: String,
    control: ControlState,
}

impl SavedState {
    /// Returns the state of an interpreter whose parser is between two sequences.
    pub(crate) fn save(interpreter: &Interpreter) -> Self {
        let size = interpreter.size();
        let grid = interpreter.grid();
        let (rows, columns) = cell_counts(size);
        let mut copy = vt100::Parser::new(rows, columns, 0);
        *copy.screen_mut() = grid.clone();
        copy.process(b"\x1b[?47l");
        let mut state = Self {
            size,
            history_columns: size.columns,
            history_rows: copy.screen().scrollback_len(),
            has_discarded_rows: interpreter.has_discarded_rows(),
            history: String::new(),
            screens: String::new(),
            control: interpreter.control().clone(),
        };
        let mut pen = CharStyle::default();
        state.save_history(copy.screen_mut(), &mut pen);
        state.save_screens(&mut copy, grid, pen);
        state
    }

    fn save_history(&mut self, primary: &mut vt100::Screen, pen: &mut CharStyle) {
        for index in 0..self.history_rows {
            primary.set_scrollback(self.history_rows - index);
            self.history.push_str("\x1b[H");
            let used = restore::push_row(primary, 0, pen, &mut self.history);
            self.history_columns = self.history_columns.max(used);
            self.history.push_str("\x1b[S");
        }
        primary.set_scrollback(0);
    }

    fn save_screens(&mut self, copy: &mut vt100::Parser, grid: &vt100::Screen, mut pen: CharStyle) {
        let out = &mut self.screens;
        for (select, is_active) in
            [("", !grid.alternate_screen()), ("\x1b[?47h", grid.alternate_screen())]
        {
            copy.process(select.as_bytes());
            out.push_str(select);
            restore::push_rows(copy.screen(), &mut pen, out);
            if !is_active {
                // The effect of a change of size depends on this row.
                let (row, column) = copy.screen().cursor_position();
                restore::push_position(row, column.min(self.size.columns - 1), out);
            }
        }
        if !grid.alternate_screen() {
            out.push_str("\x1b[?47l");
        }
        restore::push_margins(self.control.margins, out);
        restore::push_cursor(grid, 0, &mut pen, out);
        push_style(&pen_style(grid), out);
        out.push_str(&grid.input_mode_formatted());
        if grid.hide_cursor() {
            out.push_str("\x1b[?25l");
        }
    }

    /// Returns an interpreter with this state; `None` if the size is not allowed.
    pub(crate) fn restore(self, scrollback_rows: usize) -> Option<Interpreter> {
        let drawn = TerminalSize { columns: self.history_columns, rows: self.size.rows };
        let (rows, drawn_columns) = cell_counts(drawn);
        if rows.get() != self.size.rows || drawn_columns.get() != self.history_columns {
            return None;
        }
        let discarded = DiscardedRows(self.has_discarded_rows);
        let mut grid =
            vt100::Parser::new_with_callbacks(rows, drawn_columns, scrollback_rows, discarded);
        grid.process(self.history.as_bytes());
        let (rows, columns) = cell_counts(self.size);
        grid.set_size(rows, columns);
        grid.process(self.screens.as_bytes());
        Some(Interpreter::from_parts(grid, self.control))
    }

    /// Returns whether a restored emulator behaves like the saved one while the screen grows by
    /// this number of rows in total.
    pub(crate) const fn allows_growth(&self, rows: usize) -> bool {
        !self.has_discarded_rows || rows <= self.history_rows
    }
}
