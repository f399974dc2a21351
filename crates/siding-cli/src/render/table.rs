//! The table of `siding ps`, one line for each task.

use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::id::TaskKind;
use siding_model::size::format_size as size;
use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use super::LINE_COLUMNS;
use super::attention;
use super::bar::progress_bar;
use super::color::{ColorMode, TextStyle};
use super::state;

/// Minimum columns for the command.
const MIN_COMMAND_COLUMNS: usize = 20;
/// Minimum columns for the command in a table that leaves out columns.
const MIN_PERSON_COMMAND_COLUMNS: usize = 12;
/// The columns that are left out of a table without room, the least important first.
const OMITTED_TITLES: [&str; 8] =
    ["OUTPUT", "PORTS", "SESSION", "EXECUTOR", "STARTED", "ELAPSED", "ATTENTION", "STATE"];
/// Maximum columns of a session name.
const MAX_SESSION_COLUMNS: usize = 12;
/// Maximum columns of the name of an executor.
const MAX_EXECUTOR_COLUMNS: usize = 12;
/// Maximum columns of a list of ports.
const MAX_PORTS_COLUMNS: usize = 11;

/// Width of the progress bar next to the usual duration, in columns.
const BAR_CELLS: usize = 4;

/// Any column except the command, which takes the remaining width.
struct Column {
    title: &'static str,
    cells: Vec<String>,
    is_right_aligned: bool,
}

impl Column {
    fn new<T>(title: &'static str, rows: &[T], cell: impl Fn(&T) -> String) -> Self {
        Self { title, cells: rows.iter().map(cell).collect(), is_right_aligned: false }
    }

    fn align_right(self) -> Self {
        Self { is_right_aligned: true, ..self }
    }

    fn width(&self) -> usize {
        // One character is one column here, because only the command may contain wide characters.
        self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0).max(self.title.len())
    }

    fn pad(&self, text: &str, width: usize) -> String {
        if self.is_right_aligned { format!("{text:>width$}") } else { format!("{text:<width$}") }
    }
}

/// Formats a table of tasks, in the given order. The columns for attention, sessions, executors,
/// ports and usual durations appear only if a task has a value for them; the implicit session does
/// not count as a value. The column for usual durations also needs enough room.
///
/// `width` is that of the screen. On a narrow screen, further columns are left out. A program finds
/// all columns in the table for [`LINE_COLUMNS`], whose lines may be longer.
pub(crate) fn task_table(views: &[TaskView], color: ColorMode, width: usize) -> String {
    let mut columns = build_columns(views);
    if width >= LINE_COLUMNS {
        return TableFormat { width, min_command: MIN_COMMAND_COLUMNS, color }
            .format(columns, views);
    }
    retain_fitting(&mut columns, width);
    TableFormat { width, min_command: 0, color }.format(columns, views)
}

/// The cells of a row for a person that are not determined by the task's view alone.
#[derive(Debug)]
pub(crate) struct PersonCells {
    /// The reason why the task needs attention; `None` if it needs none.
    pub(crate) attention: Option<&'static str>,
    /// The time of the start.
    pub(crate) started: String,
}

/// Formats a table of tasks for a person, with `cells` for each task. It leaves out columns that
/// would make the lines longer than `width`, the columns of the screen.
pub(crate) fn person_table(
    views: &[TaskView],
    cells: &[PersonCells],
    color: ColorMode,
    width: usize,
) -> String {
    let mut columns = build_columns(views);
    columns.retain(|column| column.title != "ATTENTION");
    if cells.iter().any(|row| row.attention.is_some()) {
        let label = |row: &PersonCells| row.attention.unwrap_or_default().to_owned();
        columns.insert(2, Column::new("ATTENTION", cells, label));
    }
    let started = Column::new("STARTED", cells, |row| row.started.clone());
    columns.insert(elapsed_index(&columns), started);
    retain_fitting(&mut columns, width);
    TableFormat { width, min_command: 0, color }.format(columns, views)
}

/// Leaves out columns until the others and a command fit into `width`. The first column stays.
fn retain_fitting(columns: &mut Vec<Column>, width: usize) {
    for title in OMITTED_TITLES {
        if used_columns(columns) + MIN_PERSON_COMMAND_COLUMNS > width {
            columns.retain(|column| column.title != title);
        }
    }
}

/// The format of a table.
#[derive(Debug, Clone, Copy)]
struct TableFormat {
    /// Columns of the screen.
    width: usize,
    /// Minimum columns for the command, even if the lines are then longer than `width`.
    min_command: usize,
    color: ColorMode,
}

impl TableFormat {
    /// Formats these columns, the column for usual durations if it is needed, and the commands.
    fn format(self, mut columns: Vec<Column>, views: &[TaskView]) -> String {
        let reserved = self.min_command.max(MIN_PERSON_COMMAND_COLUMNS);
        let behind_elapsed = (elapsed_index(&columns) + 1).min(columns.len());
        columns.splice(
            behind_elapsed..behind_elapsed,
            usual_column(views, self.width.saturating_sub(reserved + used_columns(&columns))),
        );
        let room = self.width.saturating_sub(used_columns(&columns)).max(self.min_command);
        if room == 0 {
            return self.format_first_cells(&columns);
        }
        let widths: Vec<usize> = columns.iter().map(Column::width).collect();
        let faint = |text: &str| self.color.apply(TextStyle::Faint, text);
        let mut text = String::new();
        for (column, width) in columns.iter().zip(&widths) {
            text.push_str(&faint(&column.pad(column.title, *width)));
            text.push_str("  ");
        }
        text.push_str(&faint(&one_line("COMMAND", room)));
        text.push('\n');
        for (row, view) in views.iter().enumerate() {
            for (column, width) in columns.iter().zip(&widths) {
                let cell = column.pad(&column.cells[row], *width);
                let painted = match column.title {
                    "STATE" => self.color.apply(state::state_style(view), &cell),
                    "ATTENTION" => self.color.apply(TextStyle::Bad, &cell),
                    _ => cell,
                };
                text.push_str(&painted);
                text.push_str("  ");
            }
            text.push_str(&format_command(view, room));
            text.push('\n');
        }
        text
    }

    /// Formats the first column alone, for a screen that has no room for the commands.
    fn format_first_cells(self, columns: &[Column]) -> String {
        let Some(first) = columns.first() else { return String::new() };
        let title = self.color.apply(TextStyle::Faint, &one_line(first.title, self.width));
        let cells = first.cells.iter().map(|cell| one_line(cell, self.width));
        std::iter::once(title).chain(cells).fold(String::new(), |text, line| text + &line + "\n")
    }
}

fn build_columns(views: &[TaskView]) -> Vec<Column> {
    let mut columns = vec![
        Column::new("ID", views, |view| view.task_id.to_string()),
        Column::new("STATE", views, state::short_state),
        Column::new("ELAPSED", views, state::format_elapsed).align_right(),
    ];
    if views.iter().any(|view| attention::attention_label(view).is_some()) {
        let mark =
            |view: &TaskView| attention::attention_label(view).unwrap_or_default().to_owned();
        columns.insert(2, Column::new("ATTENTION", views, mark));
    }
    if views.iter().any(|view| !view.session_id.is_implicit()) {
        columns.push(Column::new("SESSION", views, |view| {
            one_line(view.session_id.as_str(), MAX_SESSION_COLUMNS)
        }));
    }
    if views.iter().any(|view| view.executor.is_some()) {
        columns.push(Column::new("EXECUTOR", views, |view| {
            one_line(view.executor.as_deref().unwrap_or_default(), MAX_EXECUTOR_COLUMNS)
        }));
    }
    if views.iter().any(|view| !view.listening.is_empty()) {
        columns.push(Column::new("PORTS", views, format_ports));
    }
    columns.push(Column::new("OUTPUT", views, |view| size(view.output.bytes)).align_right());
    columns
}

fn elapsed_index(columns: &[Column]) -> usize {
    columns.iter().take_while(|column| column.title != "ELAPSED").count()
}

/// Returns the width of the columns, including the spaces after them.
fn used_columns(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width() + 2).sum()
}

/// Returns a column with the progress bar and the usual duration, if any task has a usual duration.
/// If there is too little room, the bar is dropped first, then the column.
fn usual_column(views: &[TaskView], room: usize) -> Option<Column> {
    let text = |view: &TaskView| {
        view.expected_ms.map_or_else(String::new, |ms| format_duration(Duration::from_millis(ms)))
    };
    let both = |view: &TaskView| {
        let bar =
            view.expected_ms.map(|usual| progress_bar(view.elapsed_ms, usual, BAR_CELLS) + " ");
        bar.unwrap_or_default() + &text(view)
    };
    if views.iter().all(|view| view.expected_ms.is_none()) {
        return None;
    }
    let columns = [Column::new("USUALLY", views, both), Column::new("USUALLY", views, text)];
    columns.into_iter().find(|column| column.width() + 2 <= room)
}

fn format_ports(view: &TaskView) -> String {
    let ports: Vec<_> = view.listening.iter().map(ToString::to_string).collect();
    one_line(&ports.join(","), MAX_PORTS_COLUMNS)
}

fn format_command(view: &TaskView, room: usize) -> String {
    match (&view.name, view.kind) {
        (Some(name), TaskKind::LocalBash) => one_line(&format!("[{name}] {}", view.command), room),
        _ => one_line(view.display_name(), room),
    }
}

#[cfg(test)]
mod tests {
    use siding_model::evidence::WhyVerdict;
    use siding_model::outcome::Outcome;
    use siding_model::task_view::UnreachableView;

    use super::super::sample::{HOSTILE_TEXT, ended_task, running_task, sample_attention};
    use super::*;

    #[test]
    fn a_table_shows_only_the_needed_columns() {
        let views = [running_task(), ended_task(Outcome::Exited { code: 7 })];
        assert_eq!(
            task_table(&views, ColorMode::Off, LINE_COLUMNS),
            "ID              STATE     ELAPSED  OUTPUT  COMMAND\n\
             b-4k7q0n2m8x5t  running       15s  1.4KiB  npm test\n\
             b-4k7q0n2m8x5t  exited 7      15s  1.4KiB  npm test\n"
        );
        let mut other = running_task();
        other.session_id = "s1".parse().expect("a name");
        other.listening = vec![3000, 65_535, 65_534];
        other.name = Some("web".to_owned());
        assert_eq!(
            task_table(&[other], ColorMode::Off, LINE_COLUMNS),
            "ID              STATE    ELAPSED  SESSION  PORTS        OUTPUT  COMMAND\n\
             b-4k7q0n2m8x5t  running      15s  s1       3000,65535…  1.4KiB  [web] npm test\n"
        );
    }

    #[test]
    fn a_remote_task_shows_its_executor_and_an_interruption() {
        let mut remote = TaskView { executor: Some("build".to_owned()), ..running_task() };
        remote.unreachable = Some(UnreachableView {
            since: remote.started_at.clone(),
            why: "ssh: timed out".to_owned(),
            stop_pending: false,
        });
        let views = [remote, running_task()];
        assert_eq!(
            task_table(&views, ColorMode::Off, LINE_COLUMNS),
            "ID              STATE        ELAPSED  EXECUTOR  OUTPUT  COMMAND\n\
             b-4k7q0n2m8x5t  unreachable      15s  build     1.4KiB  npm test\n\
             b-4k7q0n2m8x5t  running          15s            1.4KiB  npm test\n"
        );
        let colored = task_table(&views, ColorMode::On, LINE_COLUMNS);
        assert!(colored.contains("\x1b[33munreachable\x1b[m"), "{colored:?}");
    }

    #[test]
    fn the_usual_duration_is_shown_when_it_fits() {
        let mut usual = TaskView { elapsed_ms: 120_000, ..running_task() };
        usual.expected_ms = Some(250_000);
        assert_eq!(
            task_table(
                &[usual.clone(), ended_task(Outcome::Exited { code: 7 })],
                ColorMode::Off,
                LINE_COLUMNS
            ),
            "ID              STATE     ELAPSED  USUALLY        OUTPUT  COMMAND\n\
             b-4k7q0n2m8x5t  running        2m  [#---] 4m 10s  1.4KiB  npm test\n\
             b-4k7q0n2m8x5t  exited 7      15s                 1.4KiB  npm test\n"
        );
        usual.session_id = "s1".parse().expect("a name");
        assert!(
            task_table(&[usual.clone()], ColorMode::Off, LINE_COLUMNS).contains("  4m 10s   s1  ")
        );
        usual.session_id = "s1-and-longer".parse().expect("a name");
        usual.listening = (10_000..10_009).collect();
        assert!(!task_table(&[usual], ColorMode::Off, LINE_COLUMNS).contains("USUALLY"));
    }

    #[test]
    fn tasks_of_siding_itself_are_shown_by_name() {
        let named = |kind| {
            let command = "/usr/bin/siding agent --subagent a-x".to_owned();
            task_table(
                &[TaskView { kind, command, name: Some("fix".to_owned()), ..running_task() }],
                ColorMode::Off,
                LINE_COLUMNS,
            )
        };
        assert!(named(TaskKind::LocalBash).contains("[fix] /usr/bin/siding"));
        assert!(
            named(TaskKind::LocalAgent).ends_with("  fix\n"),
            "{}",
            named(TaskKind::LocalAgent)
        );
    }

    #[test]
    fn no_line_exceeds_the_screen_or_is_forged() {
        let mut view = running_task();
        view.command = HOSTILE_TEXT.to_owned();
        view.name = Some(HOSTILE_TEXT.to_owned());
        view.session_id = "a-very-long-session-name-that-is-allowed".parse().expect("a name");
        view.listening = (10_000..10_009).collect();
        view.elapsed_ms = u64::MAX;
        view.output.bytes = u64::MAX;
        let text = task_table(&[view.clone(), view], ColorMode::Off, LINE_COLUMNS);
        assert_eq!(text.lines().count(), 3);
        for line in text.lines() {
            assert_eq!(line, one_line(line, usize::MAX));
        }
        let text = task_table(
            &[TaskView { elapsed_ms: 1, ..running_task() }],
            ColorMode::Off,
            LINE_COLUMNS,
        );
        assert!(text.lines().all(|line| line == one_line(line, LINE_COLUMNS)));
    }

    #[test]
    fn attention_is_shown_and_colored() {
        let mut asking = running_task();
        asking.attention = Some(sample_attention(WhyVerdict::InputWait));
        asking.command = "npm init and so on, longer than there is room for on one line".to_owned();
        let views = [asking.clone(), running_task(), ended_task(Outcome::Exited { code: 7 })];
        assert_eq!(
            task_table(&views, ColorMode::Off, LINE_COLUMNS),
            "ID              STATE     ATTENTION    ELAPSED  OUTPUT  COMMAND\n\
             b-4k7q0n2m8x5t  running   needs input      15s  1.4KiB  npm init and so on, lon…\n\
             b-4k7q0n2m8x5t  running                    15s  1.4KiB  npm test\n\
             b-4k7q0n2m8x5t  exited 7                   15s  1.4KiB  npm test\n"
        );
        let text = task_table(&[asking], ColorMode::On, LINE_COLUMNS);
        assert!(text.contains("\x1b[31mneeds input\x1b[m"), "{text:?}");
    }

    #[test]
    fn a_table_for_a_person_has_start_times_and_fits_the_screen() {
        let cells = |attention| PersonCells { attention, started: "22:41".to_owned() };
        let mut view = running_task();
        assert_eq!(
            person_table(&[view.clone()], &[cells(None)], ColorMode::Off, LINE_COLUMNS),
            "ID              STATE    STARTED  ELAPSED  OUTPUT  COMMAND\n\
             b-4k7q0n2m8x5t  running  22:41        15s  1.4KiB  npm test\n"
        );
        view.session_id = "a-very-long-session-name-that-is-allowed".parse().expect("a name");
        view.listening = (10_000..10_009).collect();
        view.command = HOSTILE_TEXT.to_owned();
        let text = person_table(&[view], &[cells(Some("ends soon"))], ColorMode::Off, LINE_COLUMNS);
        assert!(
            text.starts_with(
                "ID              STATE    ATTENTION  STARTED  ELAPSED  SESSION       COMMAND\n"
            ),
            "{text}"
        );
        assert!(!text.contains("OUTPUT") && !text.contains("PORTS"), "{text}");
        for line in text.lines() {
            assert_eq!(line, one_line(line, LINE_COLUMNS));
        }
    }

    #[test]
    fn a_narrow_screen_gets_fewer_columns_and_no_longer_lines() {
        let mut view = running_task();
        view.session_id = "a-very-long-session-name-that-is-allowed".parse().expect("a name");
        view.listening = (10_000..10_009).collect();
        view.command = HOSTILE_TEXT.to_owned();
        view.expected_ms = Some(250_000);
        let views = [view, ended_task(Outcome::Exited { code: 7 })];
        let cells = || PersonCells { attention: Some("ends soon"), started: "22:41".to_owned() };
        for width in [60, 40, 30, 20, 17, 16, 10, 1, 0] {
            for text in [
                task_table(&views, ColorMode::Off, width),
                person_table(&views, &[cells(), cells()], ColorMode::Off, width),
            ] {
                assert_eq!(text.lines().count(), 3, "{text}");
                for line in text.lines() {
                    assert_eq!(line, one_line(line, width), "{width}: {text}");
                }
            }
        }
        let text = person_table(&views, &[cells(), cells()], ColorMode::Off, 40);
        assert!(text.starts_with("ID              STATE     COMMAND\n"), "{text}");
        assert!(text.ends_with("b-4k7q0n2m8x5t  exited 7  npm test\n"), "{text}");
        assert_eq!(task_table(&views, ColorMode::Off, 10), "ID\nb-4k7q0n2…\nb-4k7q0n2…\n");
    }

    #[test]
    fn color_adds_only_escape_sequences() {
        let plain = task_table(&[running_task()], ColorMode::Off, LINE_COLUMNS);
        let painted = task_table(&[running_task()], ColorMode::On, LINE_COLUMNS);
        assert!(painted.contains("\x1b[36mrunning\x1b[m"));
        let stripped = siding_model::text::render_output(painted.as_bytes(), Default::default());
        assert_eq!(stripped, plain);
    }
}
