//! Formats rows of cells under titles. The last column takes the remaining width.

use siding_model::text::one_line;

use super::LINE_COLUMNS;
use super::color::{ColorMode, TextStyle};

/// Minimum columns for the last cell.
const MIN_LAST_COLUMNS: usize = 20;

/// The alignment of a column's title and cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    /// For numbers, so that their digits are aligned by place value.
    Right,
}

/// Formats the rows as a table. Only the last cell of a row may contain untrusted text; every
/// character of the other cells must be one column wide.
pub(crate) fn format_grid<const N: usize>(
    titles: [(&str, Align); N],
    last_title: &str,
    rows: &[([String; N], String)],
    color: ColorMode,
) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|(cells, _)| cells[column].chars().count());
        cells.chain([titles[column].0.len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let room = LINE_COLUMNS.saturating_sub(used).max(MIN_LAST_COLUMNS);
    let line = |cells: [&str; N], last: &str| {
        let mut line = String::new();
        for ((cell, width), (_, side)) in cells.iter().zip(widths).zip(titles) {
            line += &match side {
                Align::Left => format!("{cell:<width$}  "),
                Align::Right => format!("{cell:>width$}  "),
            };
        }
        line + last
    };
    let title = line(titles.map(|(title, _)| title), last_title);
    let mut text = color.apply(TextStyle::Faint, &title) + "\n";
    for (cells, last) in rows {
        text += &line(cells.each_ref().map(String::as_str), &one_line(last, room));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::sample::HOSTILE_TEXT;
    use super::*;

    #[test]
    fn cells_are_aligned_with_their_titles() {
        let titles = [("TOOK", Align::Right), ("HOW", Align::Left)];
        let row = |a: &str, b: &str, c: &str| ([a.to_owned(), b.to_owned()], c.to_owned());
        let rows = [row("4m 10s", "exited 0", "make"), row("2s", "stopped", HOSTILE_TEXT)];
        let text = format_grid(titles, "COMMAND", &rows, ColorMode::Off);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "  TOOK  HOW       COMMAND");
        assert_eq!(lines[1], "4m 10s  exited 0  make");
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2], one_line(lines[2], LINE_COLUMNS));
    }
}
