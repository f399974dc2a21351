//! The rows at the bottom: the answer in progress, tasks, questions, the input line and the status.

use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::text::{cut_tail, display_width, one_line, wrap_text};

use super::frame::{Frame, Row, TextStyle};
use super::view::{Activity, TaskRow, View};

/// Maximum number of tasks that are shown.
const MAX_SHOWN_TASKS: usize = 5;
/// Maximum columns of a command next to other information about its task.
const COMMAND_COLUMNS: usize = 28;
/// The smallest width in columns that the layout supports.
const MIN_COLUMNS: usize = 8;

impl View {
    /// Returns the rows for a terminal of this size, at most as many as fit.
    #[must_use]
    pub fn frame(&self, columns: usize, rows: usize) -> Frame {
        let columns = columns.max(MIN_COLUMNS);
        let (mut below, cursor) = self.input_rows(columns, rows);
        below.push(self.status_row(columns));
        below.truncate(rows.max(1));
        // Questions get their rows first, because the agent waits for the answers.
        let mut free_rows = rows.saturating_sub(below.len());
        let asked = take_rows(self.question_rows(columns), &mut free_rows);
        let queued = take_rows(self.queued_rows(columns), &mut free_rows);
        let tasks = take_rows(self.task_rows(columns), &mut free_rows);
        // One row stays free, so that the last printed output remains visible.
        let response = self.response_rows(columns, free_rows.saturating_sub(1).min(rows / 2));
        let mut all = response;
        all.extend(tasks);
        all.extend(queued);
        all.extend(asked);
        let row = (all.len() + cursor.0).min(all.len() + below.len() - 1);
        all.extend(below);
        Frame { rows: all, cursor: (row, cursor.1.min(columns - 1)) }
    }

    /// Returns the last rows of the answer in progress, at most `most` of them.
    fn response_rows(&self, columns: usize, most: usize) -> Vec<Row> {
        if self.partial_response.trim().is_empty() {
            return Vec::new();
        }
        // Older text would not be visible; wrapping it would only cost time.
        let tail = cut_tail(&self.partial_response, columns * most.max(1) * 4);
        let rows = wrap_text(tail.trim_end(), columns);
        let from = rows.len().saturating_sub(most);
        rows.into_iter().skip(from).map(|row| Row(vec![(TextStyle::Plain, row)])).collect()
    }

    fn task_rows(&self, columns: usize) -> Vec<Row> {
        let mut rows: Vec<Row> =
            self.tasks.iter().take(MAX_SHOWN_TASKS).map(|task| task_row(task, columns)).collect();
        let more = self.tasks.len().saturating_sub(MAX_SHOWN_TASKS);
        if more > 0 {
            rows.push(Row::truncated(TextStyle::Faint, &format!("  and {more} more"), columns));
        }
        rows
    }

    fn queued_rows(&self, columns: usize) -> Vec<Row> {
        let row =
            |text: &String| Row::truncated(TextStyle::Faint, &format!("  next: {text}"), columns);
        self.queued_prompts.iter().map(row).collect()
    }

    fn question_rows(&self, columns: usize) -> Vec<Row> {
        let Some(doubt) = self.pending_questions.front() else { return Vec::new() };
        let mut rows = Row::wrapped(TextStyle::Error, "? ", &doubt.reason, columns);
        rows.truncate(3);
        // The end of a command is as important as its start, so the middle is cut.
        let mut command = Row::wrapped(TextStyle::Strong, "  $ ", &doubt.command, columns);
        if command.len() > 6 {
            let hidden = command.len() - 5;
            command.splice(
                3..3 + hidden,
                [Row::truncated(
                    TextStyle::Error,
                    &format!("  … {hidden} rows not shown …"),
                    columns,
                )],
            );
        }
        rows.extend(command);
        rows.push(Row::truncated(TextStyle::Strong, "  run it? y or n, then Return", columns));
        rows
    }

    /// Returns the rows of the input around the cursor, at most a third of the screen but at least
    /// one row, and the position of the cursor in them.
    fn input_rows(&self, columns: usize, rows: usize) -> (Vec<Row>, (usize, usize)) {
        let (written, (row, column)) = self.input.wrapped_rows(columns - 2);
        let most = (rows / 3).max(1);
        let from = (row + 1).saturating_sub(most);
        let shown = written.into_iter().enumerate().skip(from).take(most);
        let shown = shown.map(|(number, text)| {
            let head = if number == 0 { "> " } else { "  " };
            Row(vec![(TextStyle::Strong, head.to_owned()), (TextStyle::Plain, text)])
        });
        (shown.collect(), (row - from, column + 2))
    }

    /// Returns the row with the status note, or if there is none, with the current activity and the
    /// available keys.
    fn status_row(&self, columns: usize) -> Row {
        if let Some(note) = &self.status_note {
            return Row::truncated(TextStyle::Strong, note, columns);
        }
        let for_so_long = |since| format_duration(whole_seconds(self.now.ms_since(since)));
        let mut what = match (self.activity, self.running_calls.last()) {
            (_, Some(call)) => {
                format!(
                    "runs {} for {}",
                    one_line(&call.tool, COMMAND_COLUMNS),
                    for_so_long(call.since)
                )
            }
            (Activity::WaitingForModel { since }, None) => {
                format!("asks the model for {}", for_so_long(since))
            }
            (Activity::Thinking { since }, None) => format!("thinks for {}", for_so_long(since)),
            (Activity::Summarizing { since }, None) => {
                format!("summarizes for {}", for_so_long(since))
            }
            (Activity::RunningCalls, None) => "works".to_owned(),
            (Activity::Idle, None) => "ready".to_owned(),
        };
        if !self.pending_questions.is_empty() {
            what = "waits for your answer".to_owned();
        }
        let keys = match (self.is_busy(), self.running_calls.is_empty()) {
            (true, false) => "Ctrl-B background, Esc interrupt",
            (true, true) => "Esc interrupt",
            (false, _) => "Return send, Ctrl-D quit",
        };
        let usage = self.total_usage;
        let tokens = format!(
            "{} tokens read, {} written",
            format_count(usage.context_tokens() - usage.output),
            format_count(usage.output)
        );
        // The parts are ordered by importance; the first that does not fit is omitted with all that
        // follow.
        let mut row = one_line(&what, columns);
        for part in [keys, tokens.as_str(), self.model.as_str()] {
            let part = one_line(part, columns);
            if display_width(&row) + 3 + display_width(&part) > columns {
                break;
            }
            row.push_str(" · ");
            row.push_str(&part);
        }
        Row::truncated(TextStyle::Faint, &row, columns)
    }
}

/// Takes the first rows that fit, and reduces `left` by their number.
fn take_rows(mut rows: Vec<Row>, left: &mut usize) -> Vec<Row> {
    rows.truncate(*left);
    *left -= rows.len();
    rows
}

/// Formats a task: `& b-4k7q0n2m8x5t  12s, usually 40s  npm test  last line`.
fn task_row(task: &TaskRow, columns: usize) -> Row {
    let mark = if task.is_foreground { ">" } else { "&" };
    let usual = task
        .expected_ms
        .map_or_else(String::new, |ms| format!(", usually {}", format_duration(whole_seconds(ms))));
    let state = task.phase.map_or_else(String::new, |state| format!("{state} "));
    let elapsed = format_duration(whole_seconds(task.elapsed_ms));
    let head = one_line(&format!("{mark} {}  {state}{elapsed}{usual}  ", task.id), columns);
    let room = columns.saturating_sub(display_width(&head));
    let has_last = task.last_line.as_ref().is_some_and(|line| !line.trim().is_empty());
    let command = one_line(&task.command, if has_last { room.min(COMMAND_COLUMNS) } else { room });
    let room = room.saturating_sub(display_width(&command) + 2);
    let mut pieces = vec![(TextStyle::Active, head), (TextStyle::Plain, command)];
    if let Some(last) = task.last_line.as_ref().filter(|_| has_last && room > 0) {
        pieces.push((TextStyle::Faint, format!("  {}", one_line(last.trim(), room))));
    }
    Row(pieces)
}

fn whole_seconds(ms: u64) -> Duration {
    Duration::from_secs(ms / 1000)
}

/// Formats a count: `950`, `12.3k`, `1.2M`.
fn format_count(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}
