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

/// Returns the number of lines inside a box: the rows without its title, its lower edge and the
/// last line of the screen.
pub(crate) fn box_height(rows: usize) -> usize {
    rows.saturating_sub(3).max(1)
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
