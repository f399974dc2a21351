//! Draws the list of tasks.

use siding_live::arrange::Grouping;
use siding_model::text::one_line;

use super::{Canvas, align_right, draw_spans, fit};
use crate::app::App;
use crate::columns::{self, Column, ColumnLayout, GAP_COLUMNS};
use crate::geometry::{FIRST_TASK_ROW, HEADINGS_ROW};
use crate::list::ListEntry;
use crate::row::TaskRow;
use crate::theme::{Theme, Tone};

/// Characters of an id that are shown in a narrow terminal.
const SHORT_ID_CHARS: usize = 6;
/// Maximum width of the filter in the title, and in the note about an empty list.
const FILTER_COLUMNS: usize = 30;

pub(super) fn draw_list(app: &App, canvas: &mut Canvas) {
    draw_title(app, canvas);
    let layout = columns::layout(app.columns, &app.list.empty_columns());
    draw_headings(app, canvas, &layout);
    let (height, now, theme) = (app.list_height(), app.now, app.theme);
    if app.list.is_empty() {
        let filter = one_line(&app.options.filter, FILTER_COLUMNS);
        let text = match (app.options.filter.is_empty(), app.options.hides_ended) {
            (false, _) => format!("no task matches \"{filter}\"; Esc shows all tasks"),
            (true, true) => "no task is running or needs you; a shows the ended ones".to_owned(),
            (true, false) => "no task yet; `siding run -- COMMAND` starts one".to_owned(),
        };
        canvas.text(2, FIRST_TASK_ROW, app.columns - 2, &text, theme.style(Tone::Faint));
        return;
    }
    for (number, visible) in app.list.visible(height).enumerate() {
        let row = FIRST_TASK_ROW + number;
        if let ListEntry::Heading { title, tasks } = visible.entry {
            let text = format!("{title} ({tasks})");
            canvas.text(0, row, app.columns, &text, theme.style(Tone::Strong));
        }
        if let Some(task) = visible.row {
            TaskCells { task, now, theme }.draw(canvas, row, &layout);
        }
        if visible.is_selected {
            canvas.style_row(row, theme.style(Tone::Selected));
        }
    }
}

fn draw_title(app: &App, canvas: &mut Canvas) {
    let totals = app.list.totals;
    let mut spans = vec![(Tone::Strong, "siding top".to_owned())];
    if totals.needing > 0 {
        let verb = if totals.needing == 1 { "needs" } else { "need" };
        spans.push((Tone::Warning, format!("  {} {verb} you", totals.needing)));
    }
    spans.push((Tone::Busy, format!("  {} running", totals.running)));
    if totals.queued > 0 {
        spans.push((Tone::Normal, format!("  {} queued", totals.queued)));
    }
    spans.push((Tone::Faint, format!("  {} ended", totals.ended)));
    if !app.options.filter.is_empty() {
        let filter = one_line(&app.options.filter, FILTER_COLUMNS);
        spans.push((Tone::Strong, format!("  /{filter}")));
        let (listed, all) = (app.list.task_count(), totals.task_count());
        spans.push((Tone::Faint, format!(": {listed} of {all} tasks")));
    }
    let mut note = format!("  by {}", app.options.sort.as_str());
    if app.options.grouping != Grouping::Flat {
        note.push_str(&format!(", grouped by {}", app.options.grouping.as_str()));
    }
    if app.options.hides_ended {
        note.push_str(", without ended");
    }
    if app.is_read_only {
        note.push_str(", read-only");
    }
    spans.push((Tone::Faint, note));
    draw_spans(app, canvas, 0, &spans);
}

fn draw_headings(app: &App, canvas: &mut Canvas, layout: &[ColumnLayout]) {
    let mut column = 0;
    for ColumnLayout { column: kind, width } in layout {
        let tone = if kind.sort_key() == app.options.sort { Tone::Strong } else { Tone::Faint };
        let style = app.theme.style(tone);
        canvas.text(column, HEADINGS_ROW, *width, kind.title(), style);
        column += width + GAP_COLUMNS;
    }
}

/// A task whose cells are drawn.
struct TaskCells<'t> {
    task: &'t TaskRow,
    now: siding_model::process::MonotonicMs,
    theme: Theme,
}

impl TaskCells<'_> {
    fn draw(&self, canvas: &mut Canvas, row: usize, layout: &[ColumnLayout]) {
        let mut column = 0;
        for ColumnLayout { column: kind, width } in layout {
            let (tone, text) = self.cell(*kind);
            let text = if kind.is_right_aligned() {
                align_right(&text, *width)
            } else {
                fit(&text, *width)
            };
            canvas.raw_text(column, row, *width, &text, self.theme.style(tone));
            column += width + GAP_COLUMNS;
        }
    }

    fn cell(&self, column: Column) -> (Tone, String) {
        let task = self.task;
        let state_tone = task.state.tone();
        let plain = if task.is_live() { Tone::Normal } else { Tone::Faint };
        match column {
            Column::Symbol => (state_tone, task.state.symbol().to_string()),
            Column::ShortId => (plain, task.id.to_string().chars().take(SHORT_ID_CHARS).collect()),
            Column::Id => (plain, task.id.to_string()),
            Column::State => (state_tone, task.state_text.clone()),
            Column::Command => (plain, task.title_line()),
            Column::Elapsed => (plain, task.time_text(self.now, false)),
            Column::TimeBar => (plain, task.time_text(self.now, true)),
            Column::Silence => (state_tone, task.silence_text(self.now)),
            Column::Cpu => (plain, task.cpu_text()),
            Column::Memory => (plain, task.memory_text()),
            Column::Processes => (plain, task.processes_text()),
            Column::Ports => (plain, task.ports_text()),
            Column::Rate => (plain, task.rate_text()),
            Column::Unread => (Tone::Strong, task.unread_text()),
            Column::Host => (Tone::Faint, task.host.to_owned()),
            Column::Session => (Tone::Faint, task.session.as_str().to_owned()),
        }
    }
}
