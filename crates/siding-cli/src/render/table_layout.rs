//! Formats rows of cells under titles. The last column takes the remaining width.

use siding_model::text::one_line;

use super::LINE_COLUMNS;
use super::color::{ColorMode, TextStyle};

/// Minimum columns for the last cell.
const MIN_LAST_COLUMNS: usize = 20;
/// Minimum columns for the last cell on a narrow screen, before another column is left out.
const MIN_NARROW_LAST_COLUMNS: usize = 12;

/// The alignment of a column's title and cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    /// For numbers, so that their digits are aligned by place value.
    Right,
}

/// Formats the rows as a table. Only the last cell of a row may contain untrusted text; every
/// character of the other cells must be one column wide.
///
/// `screen` is the number of columns of the screen. If it is less than [`LINE_COLUMNS`], no line is
/// longer, and columns without room are left out, from right to left. The first and the last column
/// stay.
pub(crate) fn format_grid<const N: usize>(
    titles: [(&str, Align); N],
    last_title: &str,
    rows: &[([String; N], String)],
    color: ColorMode,
    screen: usize,
) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|(cells, _)| cells[column].chars().count());
        cells.chain([titles[column].0.len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let is_narrow = screen < LINE_COLUMNS;
    let shown = if is_narrow { count_fitting(&widths, screen) } else { N };
    let used: usize = widths[..shown].iter().map(|width| width + 2).sum();
    let min_room = if is_narrow { 0 } else { MIN_LAST_COLUMNS };
    let room = screen.saturating_sub(used).max(min_room);
    let line = |cells: [&str; N], last: &str| {
        let mut line = String::new();
        for ((cell, width), (_, side)) in cells.iter().zip(widths).zip(titles).take(shown) {
            line += &match side {
                Align::Left => format!("{cell:<width$}  "),
                Align::Right => format!("{cell:>width$}  "),
            };
        }
        let line = line + last;
        if is_narrow { one_line(&line, screen) } else { line }
    };
    let title = line(titles.map(|(title, _)| title), last_title);
    let mut text = color.apply(TextStyle::Faint, &title) + "\n";
    for (cells, last) in rows {
        text += &line(cells.each_ref().map(String::as_str), &one_line(last, room));
        text.push('\n');
    }
    text
}

/// Returns the number of leading columns that leave room for the last cell; at least one.
fn count_fitting(widths: &[usize], screen: usize) -> usize {
    let mut used = 0;
    let fits = |width: &&usize| {
        used += **width + 2;
        used + MIN_NARROW_LAST_COLUMNS <= screen
    };
    widths.iter().take_while(fits).count().max(1).min(widths.len())
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
        let text = format_grid(titles, "COMMAND", &rows, ColorMode::Off, LINE_COLUMNS);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "  TOOK  HOW       COMMAND");
        assert_eq!(lines[1], "4m 10s  exited 0  make");
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2], one_line(lines[2], LINE_COLUMNS));
    }

    #[test]
    fn columns_without_room_are_left_out_from_right_to_left() {
        let titles = [("TOOK", Align::Right), ("MEMORY", Align::Right), ("HOW", Align::Left)];
        let cells = ["4m 10s", "212MiB", "exited 0"].map(str::to_owned);
        let rows = [(cells, HOSTILE_TEXT.to_owned())];
        let grid = |screen| format_grid(titles, "COMMAND", &rows, ColorMode::Off, screen);
        assert!(grid(40).starts_with("  TOOK  MEMORY  HOW       COMMAND\n"), "{}", grid(40));
        assert!(grid(37).starts_with("  TOOK  MEMORY  COMMAND\n"), "{}", grid(37));
        assert!(grid(20).starts_with("  TOOK  COMMAND\n4m 10s  "), "{}", grid(20));
        for screen in [79, 40, 20, 10, 7, 1, 0] {
            let text = grid(screen);
            assert_eq!(text.lines().count(), 2, "{text}");
            for line in text.lines() {
                assert_eq!(line, one_line(line, screen), "{text}");
            }
        }
    }
}
