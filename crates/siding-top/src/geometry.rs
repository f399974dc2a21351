//! The parts of the screen, for drawing and for the mouse.

use crate::detail::DetailTab;

/// The position of the cursor, in columns and rows; `None` hides it.
pub(crate) type Cursor = Option<(u16, u16)>;

/// The row of the screen with the tabs of a task.
pub(crate) const TABS_ROW: usize = 1;
/// The row of the screen with the headings of the list's columns.
pub(crate) const HEADINGS_ROW: usize = 1;
/// The row of the screen with the first visible line of the list.
pub(crate) const FIRST_TASK_ROW: usize = 2;
/// Rows of the screen around the list: title, headings of the columns, last line.
pub(crate) const LIST_FRAME_ROWS: usize = 3;
/// Rows of the screen around the page of a task: title, tabs, last line.
pub(crate) const DETAIL_FRAME_ROWS: usize = 3;
/// Width from which the titles of all tabs are shown instead of that of the selected tab alone.
const ALL_TABS_COLUMNS: usize = 64;

/// Columns on each side of a box.
pub(crate) const BOX_MARGIN_COLUMNS: usize = 2;
/// Maximum width of a box.
const MAX_BOX_COLUMNS: usize = 90;
/// Columns of the edges of a box, and of the blanks next to them.
const BOX_EDGE_COLUMNS: usize = 4;

/// Returns the number of rows inside a box: those of the screen without the two edges of the box
/// and the last line of the screen.
pub(crate) fn box_height(rows: usize) -> usize {
    rows.saturating_sub(3).max(1)
}

/// Returns the width of a box on a screen of this width.
pub(crate) fn box_columns(columns: usize) -> usize {
    columns.saturating_sub(2 * BOX_MARGIN_COLUMNS).min(MAX_BOX_COLUMNS)
}

/// Returns the width of the text in a box.
pub(crate) fn box_text_columns(columns: usize) -> usize {
    box_columns(columns).saturating_sub(BOX_EDGE_COLUMNS)
}

/// Returns the tabs, each with its first column and its text.
pub(crate) fn tab_positions(
    columns: usize,
    selected: DetailTab,
) -> Vec<(DetailTab, usize, String)> {
    let mut column = 0;
    let has_all = columns >= ALL_TABS_COLUMNS;
    let mut positions = Vec::new();
    for (number, tab) in DetailTab::ALL_TABS.into_iter().enumerate() {
        let text = if has_all || tab == selected {
            format!(" {} {} ", number + 1, tab.title())
        } else {
            format!(" {} ", number + 1)
        };
        let width = text.len();
        positions.push((tab, column, text));
        column += width;
    }
    positions
}

/// Returns the tab in a column of [`TABS_ROW`].
pub(crate) fn tab_at(column: usize, columns: usize, selected: DetailTab) -> Option<DetailTab> {
    let positions = tab_positions(columns, selected);
    let is_in = |(_, start, text): &&(DetailTab, usize, String)| {
        (*start..start + text.len()).contains(&column)
    };
    positions.iter().find(is_in).map(|(tab, ..)| *tab)
}
