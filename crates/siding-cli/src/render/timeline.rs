//! Draws a timeline as text, with block characters or ASCII.

mod cells;

use siding_model::outcome::OutcomeGroup;
use siding_model::text::{CharacterSet, display_width, one_line};
use siding_model::timeline::{
    BarState, BarStatus, MarkKind, Timeline, TimelineBar, TimelineGrid, TimelineLane, TimelineRow,
};

use super::color::{ColorMode, TextStyle};
use cells::Cells;

/// Limits of the width of the labels on the left, in columns.
const MIN_LABEL_COLUMNS: usize = 16;
const MAX_LABEL_COLUMNS: usize = 44;
/// Minimum number of columns for the bars.
const MIN_PLOT_COLUMNS: usize = 20;
/// Number of rows for tasks. With the lines of a few sessions, this is a long screen.
const MAX_ROWS: usize = 40;
/// Number of leading characters of an id in a label. They are usually unique.
const ID_CHARS: usize = 6;
/// Indent of a task below the task that started it, and its maximum.
const INDENT: usize = 2;
const MAX_INDENT: usize = 12;

/// The format of a timeline as text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimelineText {
    /// Width of the text, in columns.
    pub(crate) columns: usize,
    pub(crate) characters: CharacterSet,
    pub(crate) colors: ColorMode,
}

impl TimelineText {
    /// Returns the grid on which the tasks are placed; its labels are in UTC.
    pub(crate) fn grid(self) -> TimelineGrid {
        let columns = self.columns.saturating_sub(self.label_columns() + 1).max(MIN_PLOT_COLUMNS);
        TimelineGrid {
            columns,
            min_bar_columns: 1,
            max_rows: MAX_ROWS,
            char_columns: 1,
            utc_offset_ms: 0,
        }
    }

    fn label_columns(self) -> usize {
        (self.columns * 3 / 10).clamp(MIN_LABEL_COLUMNS, MAX_LABEL_COLUMNS)
    }

    /// Draws a timeline whose columns are those of [`Self::grid`].
    pub(crate) fn draw(self, timeline: &Timeline) -> String {
        let mut out = self.axis_line(timeline);
        for lane in &timeline.lanes {
            out.push_str(&self.lane_line(lane));
            for row in &lane.rows {
                out.push_str(&self.row_line(timeline, row));
            }
        }
        for line in self.legend_lines(timeline) {
            out.push_str(&self.colors.apply(TextStyle::Faint, &line));
            out.push('\n');
        }
        out
    }

    fn is_ascii(self) -> bool {
        self.characters == CharacterSet::Ascii
    }

    /// Returns the line with the labels of the axis.
    fn axis_line(self, timeline: &Timeline) -> String {
        let mut cells = Cells::new(timeline.columns);
        if let Some(now) = timeline.now_column {
            cells.write(now.saturating_sub(2), "now", None);
        }
        for tick in &timeline.ticks {
            let width = display_width(&tick.label);
            if cells.is_free(tick.column.saturating_sub(1), tick.column + width + 1) {
                cells.write(tick.column, &tick.label, Some(TextStyle::Faint));
            }
        }
        let line = format!("{}{}", " ".repeat(self.label_columns() + 1), cells.paint(self.colors));
        format!("{}\n", line.trim_end())
    }

    fn lane_line(self, lane: &TimelineLane) -> String {
        let name = lane.session_id.as_ref().map_or_else(
            || format!("{} other sessions", lane.sessions),
            |session| format!("session {session}"),
        );
        let indent = indent(lane.depth);
        let text = format!("{name}: {}", lane.counts.describe());
        let width = self.columns.saturating_sub(indent);
        format!("{}{}\n", " ".repeat(indent), self.shorten(&text, width))
    }

    fn row_line(self, timeline: &Timeline, row: &TimelineRow) -> String {
        let indent = indent(row.depth + 1);
        let label = match row.bars.as_slice() {
            [TimelineBar { task: Some(task), .. }] => {
                let id: String = task.task_id.to_string().chars().take(ID_CHARS).collect();
                format!("{id} {}", task.title)
            }
            bars => format!("{} tasks", bars.iter().map(|bar| bar.counts.tasks).sum::<usize>()),
        };
        let width = self.label_columns();
        let label = self.shorten(&label, width.saturating_sub(indent));
        let padding = width.saturating_sub(indent + display_width(&label)) + 1;
        let cells = self.row_cells(timeline, row);
        let line = format!(
            "{}{label}{}{}",
            " ".repeat(indent),
            " ".repeat(padding),
            cells.paint(self.colors)
        );
        format!("{}\n", line.trim_end())
    }

    fn row_cells(self, timeline: &Timeline, row: &TimelineRow) -> Cells {
        let mut cells = Cells::new(timeline.columns);
        for bar in &row.bars {
            self.draw_bar(&mut cells, bar);
        }
        for bar in &row.bars {
            self.draw_note(&mut cells, bar, row.bars.len() == 1);
        }
        if let Some(now) = timeline.now_column {
            cells.write_if_free(now, if self.is_ascii() { '|' } else { '│' }, None);
        }
        for tick in &timeline.ticks {
            let line = if self.is_ascii() { '.' } else { '┊' };
            cells.write_if_free(tick.column, line, Some(TextStyle::Faint));
        }
        cells
    }

    /// Writes the note of a bar to the right of the bar, otherwise to its left, otherwise into it,
    /// in the longest form that has room. One cell stays free on each side, so that the note cannot
    /// be mistaken for a part of a bar.
    fn draw_note(self, cells: &mut Cells, bar: &TimelineBar, is_alone: bool) {
        let style = Some(TextStyle::Faint);
        let inside = bar.unmarked_columns(0).filter(|_| bar.task.is_some()).unwrap_or_default();
        for note in [bar.note(), bar.short_note()] {
            let note = self.shorten(&note, usize::MAX);
            let width = display_width(&note);
            if cells.is_free(bar.to, bar.to + width + 2) {
                return cells.write(bar.to, &format!(" {note} "), style);
            }
            if is_alone && bar.from > width {
                return cells.write(bar.from - width - 1, &format!("{note} "), style);
            }
            if inside.1 - inside.0 >= width + 4 {
                return cells.write(inside.0 + 1, &format!(" {note} "), style);
            }
        }
    }

    fn draw_bar(self, cells: &mut Cells, bar: &TimelineBar) {
        let style = Some(match bar.status {
            BarStatus::Succeeded => TextStyle::Good,
            BarStatus::Stopped => TextStyle::Faint,
            BarStatus::Running => TextStyle::Busy,
            BarStatus::Failed => TextStyle::Bad,
        });
        if bar.task.is_none() {
            let full = self.state_char(BarState::Background);
            (bar.from..bar.to).for_each(|column| cells.set(column, full, style));
            cells.write(bar.from, &self.count_text(bar), style);
            return;
        }
        for part in &bar.parts {
            let fill = self.state_char(part.state);
            (part.from..part.to).for_each(|column| cells.set(column, fill, style));
        }
        // A later kind is more important and replaces an earlier one in the same column.
        let mut marks: Vec<_> = bar.marks.iter().collect();
        marks.sort_by_key(|mark| mark.kind);
        for mark in marks {
            cells.set(mark.column, self.mark_char(mark.kind, bar.status), style);
        }
    }

    /// Returns the number of tasks that a bar combines, with a sign if some failed, as far as it
    /// fits.
    fn count_text(self, bar: &TimelineBar) -> String {
        let sign = match bar.counts.failed {
            0 => String::new(),
            _ => self.end_char(BarStatus::Failed).to_string(),
        };
        let count = bar.counts.tasks.to_string();
        let width = bar.to - bar.from;
        if count.len() + display_width(&sign) <= width {
            count + &sign
        } else if !sign.is_empty() {
            sign
        } else if count.len() <= width {
            count
        } else {
            "+".to_owned()
        }
    }

    const fn state_char(self, state: BarState) -> char {
        match (self.characters, state) {
            (CharacterSet::Unicode, BarState::Foreground) => '░',
            (CharacterSet::Unicode, BarState::Background) => '█',
            (CharacterSet::Unicode, BarState::Lingering) => '▒',
            (CharacterSet::Unicode, BarState::Stopping) => '▓',
            (CharacterSet::Ascii, BarState::Foreground) => '-',
            (CharacterSet::Ascii, BarState::Background) => '=',
            (CharacterSet::Ascii, BarState::Lingering) => '_',
            (CharacterSet::Ascii, BarState::Stopping) => '*',
        }
    }

    fn mark_char(self, kind: MarkKind, status: BarStatus) -> char {
        match (kind.symbol(), self.characters) {
            (None, _) => self.end_char(status),
            (Some('>'), CharacterSet::Unicode) => '»',
            (Some(symbol), _) => symbol,
        }
    }

    const fn end_char(self, status: BarStatus) -> char {
        self.characters.symbol(match status {
            BarStatus::Succeeded => OutcomeGroup::Succeeded.symbol(),
            BarStatus::Failed => OutcomeGroup::Failed.symbol(),
            BarStatus::Stopped => OutcomeGroup::Stopped.symbol(),
            // A running task has no end.
            BarStatus::Running => '>',
        })
    }

    /// Returns the lines that explain the characters of the picture.
    fn legend_lines(self, timeline: &Timeline) -> Vec<String> {
        let bars = || timeline.lanes.iter().flat_map(|lane| &lane.rows).flat_map(|row| &row.bars);
        let states = BarState::ALL.into_iter().filter_map(|state| {
            let is_used = bars().flat_map(|bar| &bar.parts).any(|part| part.state == state);
            is_used.then(|| format!("{} {}", self.state_char(state), state.as_str()))
        });
        let marks = MarkKind::ALL.into_iter().filter_map(|kind| {
            let is_used = bars().flat_map(|bar| &bar.marks).any(|mark| mark.kind == kind);
            let symbol = kind.symbol().filter(|_| is_used)?;
            let symbol =
                if symbol == '>' { self.mark_char(kind, BarStatus::Running) } else { symbol };
            Some(format!("{symbol} {}", kind.legend()))
        });
        let ends = [BarStatus::Succeeded, BarStatus::Failed, BarStatus::Stopped];
        let ends = ends.into_iter().filter_map(|status| {
            let is_used = bars().any(|bar| bar.status == status);
            is_used.then(|| format!("{} {}", self.end_char(status), status.as_str()))
        });
        let is_shared = bars().any(|bar| bar.task.is_none());
        let shared = is_shared.then(|| "9 number of tasks in a shared bar".to_owned());
        let mut lines: Vec<String> = Vec::new();
        for item in states.chain(marks).chain(ends).chain(shared) {
            let width = display_width(&item) + INDENT;
            match lines.last_mut().filter(|line| display_width(line) + width <= self.columns) {
                Some(line) => line.push_str(&format!("  {item}")),
                None => lines.push(item),
            }
        }
        lines
    }

    /// Cuts a text to a width. The sign for the cut is ASCII where only ASCII can be displayed.
    fn shorten(self, text: &str, columns: usize) -> String {
        self.characters.replace_symbols(&one_line(text, columns)).into_owned()
    }
}

fn indent(depth: usize) -> usize {
    (depth * INDENT).min(MAX_INDENT)
}

#[cfg(test)]
mod tests {
    use siding_model::outcome::Outcome;
    use siding_model::process::UnixMs;
    use siding_model::timeline::{SessionParents, TimelineEvent, TimelineTask, TimelineWindow};

    use super::*;

    const NOW: UnixMs = UnixMs(1_763_764_800_000);

    fn task(id: &str, session: &str, start: i64, end: Option<i64>) -> TimelineTask {
        let at = |minutes: i64| NOW.plus_ms((minutes - 60) * 60_000);
        let events = vec![TimelineEvent {
            at: at(start + 2),
            kind: MarkKind::HandOver,
            text: "its budget had passed".to_owned(),
        }];
        let ended_at = end.map(at);
        let mut task = TimelineTask {
            task_id: id.parse().expect("an id"),
            session_id: session.parse().expect("a session"),
            parent_task: None,
            title: format!("make {start} in a directory with a long name"),
            started_at: at(start),
            ended_at,
            outcome: end.map(|_| Outcome::Exited { code: 0 }),
            states: vec![(at(start), BarState::Foreground), (at(start + 2), BarState::Background)],
            events,
        };
        task.events.extend(ended_at.map(|at| TimelineEvent {
            at,
            kind: MarkKind::Ended,
            text: "exited 0".to_owned(),
        }));
        task
    }

    fn sample() -> Vec<TimelineTask> {
        let mut failed = task("b-4k7q0n2m8x5t", "cli", 10, Some(30));
        failed.outcome = Some(Outcome::Stopped { by: "\x1b[31muser".to_owned() });
        let mut child = task("b-5k7q0n2m8x5t", "agent-1", 22, Some(23));
        let parent = task("b-3k7q0n2m8x5t", "agent-1", 20, None);
        child.parent_task = Some(parent.task_id);
        vec![failed, parent, child, task("b-6k7q0n2m8x5t", "cli", 0, Some(8))]
    }

    fn draw(columns: usize, characters: CharacterSet, tasks: Vec<TimelineTask>) -> String {
        let text = TimelineText { columns, characters, colors: ColorMode::Off };
        let window = TimelineWindow::fit(&tasks, NOW, 3_600_000);
        text.draw(&Timeline::new(window, text.grid(), tasks, &SessionParents::new()))
    }

    #[test]
    fn tasks_are_drawn_as_bars_below_their_sessions() {
        let text = draw(80, CharacterSet::Unicode, sample());
        let lines: Vec<&str> = text.lines().collect();
        let starts = [
            "         ",
            "session cli: 2 tasks, 1 stopped",
            "  b-6k7q make 0 in a di… ░»",
            "  b-4k7q make 10 in a d…",
            "session agent-1: 2 tasks, 1 running",
            "  b-3k7q make 20 in a d…",
            "    b-5k7q make 22 in a…",
        ];
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{start:?} in\n{text}");
        }
        assert!(lines[0].ends_with("now") && lines[0].contains("21:45"), "{text}");
        assert!(lines[2].contains("███✓ 8m"), "{text}");
        assert!(lines[3].contains("░»██"), "{text}");
        assert!(lines[3].contains("■ stopped by \\e[31muser, 20m"), "{text}");
        assert!(lines[5].contains("░»█") && !lines[5].contains('│'), "{text}");
        assert!(lines[7].starts_with("░ foreground  █ background  » hand-over"), "{text}");
    }

    #[test]
    fn ascii_pictures_contain_only_ascii() {
        let text = draw(80, CharacterSet::Ascii, sample());
        assert!(text.is_ascii(), "{text}");
        assert!(text.contains('|') && text.contains("-->==="), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in [40, 80, 133, 300] {
            let many = (0..1_000).map(|number| {
                let id = format!("b-1{number:03}0n2m8x5t");
                task(&id, &format!("s{}", number % 70), number % 59, Some(number % 59 + 1))
            });
            for tasks in [sample(), many.collect()] {
                let text = draw(columns, CharacterSet::Unicode, tasks);
                assert!(text.lines().all(|line| display_width(line) <= columns), "{text}");
                assert!(text.lines().count() < 120, "{text}");
                assert!(!text.contains('\x1b'), "{text}");
            }
        }
    }
}
