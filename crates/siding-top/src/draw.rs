//! Draws the state of the screen into a buffer of character cells.

mod detail;
mod list;
mod overlay;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use siding_model::text::{display_width, one_line};

use crate::app::App;
use crate::geometry::Cursor;
use crate::theme::Tone;

/// Minimum number of columns and rows. A smaller screen only shows that it is too small.
const MIN_SIZE: (usize, usize) = (20, 5);

/// Draws the screen. Returns the buffer and the position of the cursor.
pub(crate) fn draw(app: &App) -> (Buffer, Cursor) {
    let width = u16::try_from(app.columns).unwrap_or(u16::MAX);
    let height = u16::try_from(app.rows).unwrap_or(u16::MAX);
    let mut canvas = Canvas { buffer: Buffer::empty(Rect::new(0, 0, width, height)) };
    let mut cursor = None;
    if app.columns < MIN_SIZE.0 || app.rows < MIN_SIZE.1 {
        canvas.text(0, 0, app.columns, "too small", Style::new());
    } else {
        if app.detail.is_some() {
            detail::draw_detail(app, &mut canvas);
        } else {
            list::draw_list(app, &mut canvas);
        }
        cursor = overlay::draw_overlay(app, &mut canvas);
    }
    app.theme.adapt(&mut canvas.buffer);
    (canvas.buffer, cursor)
}

/// A buffer of character cells.
pub(super) struct Canvas {
    buffer: Buffer,
}

impl Canvas {
    /// Escapes a text, cuts it to a width and writes it. Returns the column after it.
    fn text(&mut self, column: usize, row: usize, width: usize, text: &str, style: Style) -> usize {
        let text = fit(text, width);
        self.raw_text(column, row, width, &text, style)
    }

    /// Writes a text that has been escaped already. Returns the column after it.
    fn raw_text(
        &mut self,
        column: usize,
        row: usize,
        width: usize,
        text: &str,
        style: Style,
    ) -> usize {
        let area = self.buffer.area;
        let (Ok(x), Ok(y)) = (u16::try_from(column), u16::try_from(row)) else { return column };
        if x >= area.width || y >= area.height {
            return column;
        }
        let (end, _) = self.buffer.set_stringn(x, y, text, width, style);
        usize::from(end)
    }

    /// Changes the style of a whole row.
    fn style_row(&mut self, row: usize, style: Style) {
        let area = self.buffer.area;
        if let Ok(y) = u16::try_from(row)
            && y < area.height
        {
            self.buffer.set_style(Rect::new(0, y, area.width, 1), style);
        }
    }

    /// Shows a cell in reverse, as a cursor.
    fn reverse_cell(&mut self, column: usize, row: usize) {
        let area = self.buffer.area;
        if let (Ok(x), Ok(y)) = (u16::try_from(column), u16::try_from(row))
            && x < area.width
            && y < area.height
        {
            let style = Style::new().add_modifier(Modifier::REVERSED);
            self.buffer.set_style(Rect::new(x, y, 1, 1), style);
        }
    }

    /// Clears a part of a row.
    fn clear(&mut self, column: usize, row: usize, width: usize) {
        self.raw_text(column, row, width, &" ".repeat(width), Style::reset());
    }
}

/// Cuts a text to a width, and escapes the characters that must not reach a terminal.
fn fit(text: &str, width: usize) -> String {
    one_line(text, width)
}

/// Aligns a text to the right within a width.
fn align_right(text: &str, width: usize) -> String {
    let text = fit(text, width);
    " ".repeat(width.saturating_sub(display_width(&text))) + &text
}

/// Writes texts next to each other, each with its tone, up to the right edge of the screen.
fn draw_spans(app: &App, canvas: &mut Canvas, row: usize, spans: &[(Tone, String)]) {
    let mut column = 0;
    for (tone, text) in spans {
        let width = app.columns.saturating_sub(column);
        if width == 0 {
            return;
        }
        column = canvas.text(column, row, width, text, app.theme.style(*tone));
    }
}

#[cfg(test)]
mod tests;
