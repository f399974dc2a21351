//! Draws the last line of the screen and the boxes over the page.

use siding_model::size::size_in_words;
use siding_model::text::{display_width, one_line, wrap_text};

use super::{Canvas, fit};
use crate::app::{App, DEFAULT_EXTENSION, Message, Overlay, PromptKind};
use crate::detail::{Detail, DetailTab, PaneLine, wrap_lines};
use crate::geometry::{BOX_MARGIN_COLUMNS, Cursor, box_columns, box_height, box_text_columns};
use crate::help::help_lines;
use crate::row::TaskRow;
use crate::theme::Tone;

/// Maximum number of rows of a message or a question, and its maximum share of the screen.
const MAX_SENTENCE_ROWS: usize = 3;
const SENTENCE_SCREEN_SHARE: usize = 4;
/// Minimum width of a screen whose input lines name their task.
const MIN_LABEL_WITH_ID_COLUMNS: usize = 60;

/// Draws the help or the report over the list or page, if one is open, and then the last line.
/// Returns the position of the cursor.
pub(super) fn draw_overlay(app: &App, canvas: &mut Canvas) -> Cursor {
    match &app.overlay {
        Some(Overlay::Help(top)) => draw_box(app, canvas, "Keys", &help_lines(), *top),
        Some(Overlay::Report { title, lines, top }) => draw_box(app, canvas, title, lines, *top),
        Some(Overlay::Confirmation { .. } | Overlay::Prompt { .. }) | None => {}
    }
    draw_last_line(app, canvas)
}

fn draw_box(app: &App, canvas: &mut Canvas, title: &str, lines: &[PaneLine], top: usize) {
    let columns = box_columns(app.columns);
    let inner = box_text_columns(app.columns);
    let rows = wrap_lines(lines, inner);
    let height = box_height(app.rows).min(rows.len());
    // In a wider terminal, the same lines need fewer rows.
    let top = top.min(rows.len() - height);
    let style = app.theme.style(Tone::Faint);
    let left = BOX_MARGIN_COLUMNS;
    let title = format!("─ {} ", fit(title, inner));
    let rule = "─".repeat(columns.saturating_sub(display_width(&title)));
    canvas.raw_text(left, 0, columns, &format!("{title}{rule}"), style);
    for number in 0..height {
        canvas.clear(left, 1 + number, columns);
        canvas.raw_text(left, 1 + number, 1, "│", style);
        canvas.raw_text(left + columns - 1, 1 + number, 1, "│", style);
        if let Some((tone, text)) = rows.get(top + number) {
            canvas.text(left + 2, 1 + number, inner, text, app.theme.style(*tone));
        }
    }
    let below = rows.len() - top - height;
    let note = if below > 0 { format!("─ {below} more ↓ ") } else { String::new() };
    let rule = "─".repeat(columns.saturating_sub(display_width(&note)));
    canvas.raw_text(left, 1 + height, columns, &format!("{note}{rule}"), style);
}

fn draw_last_line(app: &App, canvas: &mut Canvas) -> Cursor {
    let row = app.rows - 1;
    canvas.clear(0, row, app.columns);
    if let Some(Overlay::Prompt { kind, text }) = &app.overlay {
        if let Some(message) = app.visible_message() {
            draw_message(app, canvas, row - 1, message);
        }
        return draw_prompt(app, canvas, kind, text);
    }
    if let Some(Overlay::Confirmation { question, .. }) = &app.overlay {
        // The answers are at the start, so that they are visible even in a narrow terminal.
        draw_sentence(app, canvas, row, &format!("y/n: {question}"), Tone::Warning);
        return None;
    }
    if let Some(message) = app.visible_message() {
        draw_message(app, canvas, row, message);
        return None;
    }
    let hints = match (&app.overlay, &app.detail) {
        (Some(_), _) => "any other key closes".to_owned(),
        (None, None) => list_hints(app),
        (None, Some(detail)) => detail_hints(app, detail),
    };
    canvas.text(0, row, app.columns, &hints, app.theme.style(Tone::Faint));
    None
}

fn draw_message(app: &App, canvas: &mut Canvas, row: usize, message: &Message) {
    let tone = if message.is_error { Tone::Bad } else { Tone::Strong };
    draw_sentence(app, canvas, row, &message.text, tone);
}

/// Draws a text whose last row is at `last_row`. A text that is wider than the screen also covers
/// rows above this one, and is cut if it needs too many.
fn draw_sentence(app: &App, canvas: &mut Canvas, last_row: usize, text: &str, tone: Tone) {
    let mut rows = wrap_text(&one_line(text, usize::MAX), app.columns);
    let max_rows = (app.rows / SENTENCE_SCREEN_SHARE).clamp(1, MAX_SENTENCE_ROWS);
    if rows.len() > max_rows {
        let rest = rows.split_off(max_rows - 1);
        rows.push(rest.join(" "));
    }
    let first_row = (last_row + 1).saturating_sub(rows.len());
    for (number, text) in rows.iter().enumerate() {
        canvas.clear(0, first_row + number, app.columns);
        canvas.text(0, first_row + number, app.columns, text, app.theme.style(tone));
    }
}

/// Returns the keys of the list, with the action that the selected task allows.
fn list_hints(app: &App) -> String {
    let action = match (app.current().is_some_and(TaskRow::is_live), app.is_read_only) {
        (true, false) => "x stop  ",
        (true, true) => "",
        (false, _) => acknowledge_hint(app),
    };
    format!("? keys  Enter open  / filter  {action}q quit")
}

/// Returns the key that acknowledges the notices of the current task; empty if none is new.
fn acknowledge_hint(app: &App) -> &'static str {
    let has_new = app.current().is_some_and(|row| row.unread_notices > 0);
    if has_new && !app.is_read_only { "A acknowledge  " } else { "" }
}

/// Returns the keys of the page of a task, and the position in its output. Those that need a
/// running task are left out after its end.
fn detail_hints(app: &App, detail: &Detail) -> String {
    let is_live = app.detail_row.as_ref().is_some_and(TaskRow::is_live);
    if detail.tab != DetailTab::Output {
        let action = if is_live { "w why  " } else { acknowledge_hint(app) };
        return format!("? keys  Tab next  {action}q back");
    }
    let (columns, height) = app.output_size();
    let output = &detail.output;
    let below = match output.bytes_below(columns, height) {
        0 => String::new(),
        bytes => format!(", {} below", size_in_words(bytes)),
    };
    let (state, key) = match (is_live, output.is_following()) {
        (true, true) => ("following", "f pause"),
        (true, false) => ("paused", "f follow"),
        (false, _) => ("ended", "G end"),
    };
    let written = size_in_words(output.written());
    let has_terminal = app.detail_row.as_ref().is_some_and(|row| row.has_terminal);
    let attach = if is_live && has_terminal { "a attach  " } else { "" };
    format!("{state}, {written}{below}  ? keys  {attach}{key}  / search  E error  q back")
}

/// Returns the text in front of an input line. Over the list it names the task, because the
/// selection may have moved to another task.
fn prompt_label(app: &App, kind: &PromptKind) -> String {
    let names_task = app.detail.is_none() && app.columns >= MIN_LABEL_WITH_ID_COLUMNS;
    match kind {
        PromptKind::Filter => "filter: ".to_owned(),
        PromptKind::Search => "search: ".to_owned(),
        PromptKind::Input(id) if names_task => format!("input to {id}: "),
        PromptKind::Extend(id) if names_task => format!("extend {id} by: "),
        PromptKind::Input(_) => "input: ".to_owned(),
        PromptKind::Extend(_) => "extend by: ".to_owned(),
    }
}

fn draw_prompt(app: &App, canvas: &mut Canvas, kind: &PromptKind, text: &str) -> Cursor {
    let row = app.rows - 1;
    let label = prompt_label(app, kind);
    let mut column = canvas.text(0, row, app.columns, &label, app.theme.style(Tone::Strong));
    let style = app.theme.style(Tone::Normal);
    // Only the end of a long text is visible.
    let room = app.columns.saturating_sub(column + 1);
    let mut visible = one_line(text, usize::MAX);
    while display_width(&visible) > room {
        visible.remove(0);
    }
    if text.is_empty() && matches!(kind, PromptKind::Extend(_)) {
        let note = format!("Enter for {DEFAULT_EXTENSION}, or a duration such as 5m");
        canvas.text(column, row, room, &note, app.theme.style(Tone::Faint));
    }
    column = canvas.raw_text(column, row, room, &visible, style);
    Some((u16::try_from(column).ok()?, u16::try_from(row).ok()?))
}
