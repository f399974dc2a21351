//! Draws the page of a task.

use siding_model::text::{display_width, make_visible, one_line};
use siding_terminal::Screen;

use super::{Canvas, draw_spans};
use crate::app::App;
use crate::detail::{Detail, DetailTab};
use crate::geometry::{DETAIL_FRAME_ROWS, TABS_ROW, tab_positions};
use crate::output_style::to_screen_style;
use crate::row::{TaskRow, format_ms};
use crate::theme::Tone;

/// Maximum width of the state in the title.
const TITLE_COLUMNS: usize = 200;

pub(super) fn draw_detail(app: &App, canvas: &mut Canvas) {
    let (Some(detail), Some(row)) = (&app.detail, &app.detail_row) else { return };
    draw_title(app, row, canvas);
    draw_tabs(app, detail, canvas);
    let first_row = DETAIL_FRAME_ROWS - 1;
    let height = app.pane_height();
    if detail.tab == DetailTab::Output {
        match detail.shown_screen() {
            Some(screen) => draw_screen(app, screen, canvas, first_row),
            None => draw_output(app, detail, canvas, first_row),
        }
        return;
    }
    let rows = detail.visible_rows((app.columns, height));
    for (number, (tone, text)) in rows.iter().enumerate() {
        canvas.text(0, first_row + number, app.columns, text, app.theme.style(*tone));
    }
    if rows.is_empty() {
        canvas.text(0, first_row, app.columns, "nothing", app.theme.style(Tone::Faint));
    }
}

fn draw_title(app: &App, row: &TaskRow, canvas: &mut Canvas) {
    let mut spans = vec![
        (row.state.tone(), format!("{} ", row.state.symbol())),
        (Tone::Strong, row.id.to_string()),
        (row.state.tone(), format!("  {}", one_line(&row.state_text, TITLE_COLUMNS))),
        (Tone::Normal, format!("  {}", row.time_text(app.now, true).trim_start())),
    ];
    if row.is_unsupervised {
        spans.push((row.state.tone(), format!("  {}", row.reason)));
    } else if let Some(deadline) = row.deadline.filter(|_| row.is_live()) {
        let left = format_ms(deadline.ms_since(app.now));
        spans.push((Tone::Faint, format!("  ends in {left}")));
    }
    spans.push((Tone::Normal, format!("  {}", row.title_line())));
    draw_spans(app, canvas, 0, &spans);
}

fn draw_tabs(app: &App, detail: &Detail, canvas: &mut Canvas) {
    for (tab, column, text) in tab_positions(app.columns, detail.tab) {
        let tone = if tab == detail.tab { Tone::Selected } else { Tone::Faint };
        let width = app.columns.saturating_sub(column);
        if width > 0 {
            canvas.raw_text(column, TABS_ROW, width, &text, app.theme.style(tone));
        }
    }
}

/// Draws the screen of a task. If it does not fit, draws the part that ends with the cursor.
fn draw_screen(app: &App, screen: &Screen, canvas: &mut Canvas, first_row: usize) {
    let (columns, height) = app.output_size();
    let cursor = screen.cursor();
    let (cursor_row, cursor_column) = (usize::from(cursor.row), usize::from(cursor.column));
    let (top, left) = if cursor.visible {
        ((cursor_row + 1).saturating_sub(height), (cursor_column + 1).saturating_sub(columns))
    } else {
        (0, 0)
    };
    for (number, row) in (top..screen.rows().len()).take(height).enumerate() {
        for run in screen.runs(row) {
            let start = usize::from(run.column);
            let (skipped, text) = skip_columns(&run.text, left.saturating_sub(start));
            let column = (start + skipped).saturating_sub(left);
            let width = columns.saturating_sub(column);
            let style = app.theme.output_style(to_screen_style(run.style));
            // An escaped character is wider, but the next run still starts at its own column.
            canvas.raw_text(column, first_row + number, width, &make_visible(text), style);
        }
        if cursor.visible && row == cursor_row {
            canvas.reverse_cell(cursor_column.saturating_sub(left), first_row + number);
        }
    }
}

/// Removes the characters of a text that start before a column. Returns the width of these
/// characters, and the others. A combining mark is removed with the character before it.
fn skip_columns(text: &str, column: usize) -> (usize, &str) {
    let mut skipped = 0;
    for (index, c) in text.char_indices() {
        let width = display_width(c.encode_utf8(&mut [0; 4]));
        if skipped >= column && (width > 0 || column == 0) {
            return (skipped, &text[index..]);
        }
        skipped += width;
    }
    (skipped, "")
}

fn draw_output(app: &App, detail: &Detail, canvas: &mut Canvas, first_row: usize) {
    let (columns, height) = app.output_size();
    let rows = detail.output.visible_rows(columns, height);
    if rows.is_empty() {
        canvas.text(0, first_row, columns, "no output yet", app.theme.style(Tone::Faint));
    }
    for (number, row) in rows.iter().enumerate() {
        let mut column = 0;
        for (text, style) in &row.spans {
            let width = columns.saturating_sub(column);
            let style = app.theme.output_style(*style);
            column = canvas.raw_text(column, first_row + number, width, text, style);
        }
        if row.is_hit {
            canvas.style_row(first_row + number, app.theme.style(Tone::Match));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_character_at_the_edge_is_skipped_whole() {
        assert_eq!(skip_columns("a界b", 0), (0, "a界b"));
        assert_eq!(skip_columns("a界b", 1), (1, "界b"));
        assert_eq!(skip_columns("a界b", 2), (3, "b"));
        assert_eq!(skip_columns("e\u{301}b", 1), (1, "b"));
        assert_eq!(skip_columns("ab", 5), (2, ""));
    }
}
