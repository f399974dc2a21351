//! The state of a terminal besides its cells.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::MAX_COLUMNS;
use crate::charset::Charset;

/// Distance between the default tab stops, in columns.
const TAB_COLUMNS: u16 = 8;

/// The cursor as `ESC 7` saves it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SavedCursor {
    pub(crate) row: u16,
    pub(crate) column: u16,
    /// The sequence that selects the saved colors and attributes.
    pub(crate) pen: String,
    pub(crate) charsets: [Charset; 2],
    pub(crate) is_shifted: bool,
    pub(crate) origin_mode: bool,
}

/// The state of a terminal that vt100 does not store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ControlState {
    /// The title that the task has set; empty without a title.
    pub(crate) title: String,
    /// The character sets G0 and G1.
    pub(crate) charsets: [Charset; 2],
    /// Whether G1 is used instead of G0.
    pub(crate) is_shifted: bool,
    /// Whether characters are inserted instead of replacing others.
    pub(crate) insert_mode: bool,
    /// Whether a character beyond the last column replaces the character there, instead of
    /// wrapping.
    pub(crate) stays_at_margin: bool,
    /// Whether rows are counted from the top margin (origin mode).
    pub(crate) origin_mode: bool,
    /// The first and last row of the scroll region, from 0; `None` for the whole screen.
    pub(crate) margins: Option<(u16, u16)>,
    /// The tab stops; `None` until a program changes them.
    tab_stops: Option<BTreeSet<u16>>,
    /// The saved cursors of the primary and the alternate screen.
    pub(crate) saved_cursors: [SavedCursor; 2],
    /// The last character that occupied a column, for the repeat function (REP).
    pub(crate) last_char: Option<char>,
}

impl ControlState {
    /// Returns the character that the selected set shows for `c`.
    pub(crate) fn translate(&self, c: char) -> char {
        self.charsets[usize::from(self.is_shifted)].translate(c)
    }

    /// Returns the first tab stop after a column, which may be outside of the screen.
    pub(crate) fn next_tab(&self, column: u16) -> u16 {
        match &self.tab_stops {
            None => column.saturating_add(TAB_COLUMNS) / TAB_COLUMNS * TAB_COLUMNS,
            Some(stops) => {
                stops.range(column.saturating_add(1)..).next().copied().unwrap_or(u16::MAX)
            }
        }
    }

    /// Returns the last tab stop before a column.
    pub(crate) fn previous_tab(&self, column: u16) -> u16 {
        match &self.tab_stops {
            None => column.saturating_sub(1) / TAB_COLUMNS * TAB_COLUMNS,
            Some(stops) => stops.range(..column).next_back().copied().unwrap_or(0),
        }
    }

    pub(crate) fn set_tab(&mut self, column: u16) {
        self.tab_stops_mut().insert(column.min(MAX_COLUMNS));
    }

    pub(crate) fn clear_tab(&mut self, column: u16) {
        self.tab_stops_mut().remove(&column);
    }

    pub(crate) fn clear_tabs(&mut self) {
        self.tab_stops = Some(BTreeSet::new());
    }

    fn tab_stops_mut(&mut self) -> &mut BTreeSet<u16> {
        let default_stops =
            || (TAB_COLUMNS..MAX_COLUMNS).step_by(usize::from(TAB_COLUMNS)).collect();
        self.tab_stops.get_or_insert_with(default_stops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_stops_are_set_cleared_and_found_in_both_directions() {
        let mut control = ControlState::default();
        assert_eq!((control.next_tab(0), control.next_tab(7), control.next_tab(8)), (8, 8, 16));
        assert_eq!(
            (control.previous_tab(17), control.previous_tab(16), control.previous_tab(0)),
            (16, 8, 0)
        );
        control.set_tab(3);
        control.clear_tab(8);
        assert_eq!((control.next_tab(0), control.next_tab(3)), (3, 16));
        assert_eq!((control.previous_tab(16), control.previous_tab(3)), (3, 0));
        control.clear_tabs();
        assert_eq!((control.next_tab(0), control.previous_tab(40)), (u16::MAX, 0));
    }
}
