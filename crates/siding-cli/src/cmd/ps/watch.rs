//! `siding ps --watch`: the list for a person, repainted in place.
//!
//! The list stays in the terminal's normal screen, so that `q` and Ctrl-C leave the last list above
//! the prompt. Keys are not echoed: the mode of the terminal is changed, and restored before this
//! process ends or is suspended.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use siding_core::session;
use siding_core::sys::signals::{self, SignalFd};
use siding_core::sys::{poll, tty};
use siding_live::{EndedTasks, LiveOptions, LiveTask, LiveView};
use siding_model::id::{SessionId, TaskId};
use siding_model::signal::Signal;
use siding_model::task_view::TaskView;
use siding_model::text::{display_width, one_line, printed_width, wrap_text};

use super::person::{self, PersonList};
use super::{Args, NO_TASKS};
use crate::context;
use crate::failure::Failure;
use crate::key_reader::{KEYBOARD_SIGNALS, KeyReader};
use crate::render::color::ColorMode;
use crate::render::out::{self, ReaderState};
use crate::run_history;

/// Shortest time in milliseconds between two paints if no signal arrives. It is also the interval
/// of the paints while a task runs.
const PAINT_INTERVAL_MS: u64 = 1_000;
/// Interval of the paints while no task runs: the list then shows only ages in minutes.
const IDLE_INTERVAL_MS: u64 = 60_000;
/// The columns and rows of a terminal that does not report its size.
const DEFAULT_SIZE: (u16, u16) = (80, 24);
/// The byte of the key that ends the command.
const QUIT_KEY: u8 = b'q';
/// Signals that end the command, once the mode of the terminal is restored.
const END_SIGNALS: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// The reason why [`wait`] has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeReason {
    /// The next paint is due, or a key other than [`QUIT_KEY`] was pressed.
    PaintDue,
    /// The cursor may no longer be below the last paint: this process was continued or moved to the
    /// foreground, after which the shell has written to the terminal.
    CursorMoved,
    /// The person has pressed [`QUIT_KEY`].
    Quit,
}

/// The present content of the terminal.
#[derive(Debug, Default)]
struct Screen {
    /// The lines of the last paint, which are directly above the cursor.
    lines: Vec<String>,
    /// The columns of the terminal at the last paint.
    columns: usize,
}

impl Args {
    /// Shows the list until `q` is pressed, a signal ends this process or the terminal is closed.
    pub(super) fn watch_list(&self) -> Result<ExitCode, Failure> {
        if !io::stdout().is_terminal() {
            return Err(Failure::new(
                "--watch repaints a terminal, but standard output is not a terminal",
            )
            .with_hint("`siding ps` prints the list once; `siding ps --json` is for programs"));
        }
        let root = context::open_state_dir()?;
        // A failed repair is reported, and the tasks are still listed.
        let _logged_by_callee = context::recover_all(&root)?;
        if let Some(session) = &self.session {
            context::ensure_session_exists(&root, session)?;
        }
        let signals = [&[Signal::WINCH][..], &KEYBOARD_SIGNALS, &END_SIGNALS].concat();
        let signals = SignalFd::block(&signals)
            .map_err(|error| Failure::new(format!("could not wait for signals: {error}")))?;
        let mut keys = KeyReader::for_stdin()
            .ok_or_else(|| Failure::new("could not duplicate the descriptor of standard input"))?;
        let options = LiveOptions {
            ended: if self.running { EndedTasks::None } else { EndedTasks::All },
            deadline_notice: context::load_valid_settings().deadline_notice,
            ..LiveOptions::default()
        };
        let mut view = LiveView::open(root, options).map_err(Failure::new)?;
        let mut screen = Screen::default();
        let mut new: Vec<TaskId> = view.tasks().map(LiveTask::id).collect();
        keys.resume();
        loop {
            add_expectations(&mut view, &new);
            if tty::stops_writer(io::stdout()) {
                // The kernel would let this process paint, because SIGTTOU is blocked.
                keys.suspend();
            } else if self.paint(&mut screen, &mut view)? == ReaderState::Disconnected {
                return Ok(ExitCode::SUCCESS);
            }
            let has_running = view.tasks().next().is_some_and(LiveTask::is_live);
            match wait(&view, &signals, &mut keys, has_running)? {
                WakeReason::PaintDue => {}
                WakeReason::CursorMoved => screen = Screen::default(),
                WakeReason::Quit => return Ok(ExitCode::SUCCESS),
            }
            new = view.refresh().map_err(Failure::new)?.appeared.into_iter().collect();
        }
    }

    /// Paints the list for the present size of the terminal.
    fn paint(&self, screen: &mut Screen, view: &mut LiveView) -> Result<ReaderState, Failure> {
        let (columns, rows) = tty::size(io::stdout()).unwrap_or(DEFAULT_SIZE);
        let columns = usize::from(columns);
        let lines = self.paint_lines(view, columns, rows.into())?;
        screen.paint(lines, columns)
    }

    /// Measures the running tasks and returns the lines of a screen of this size.
    fn paint_lines(
        &self,
        view: &mut LiveView,
        columns: usize,
        rows: usize,
    ) -> Result<Vec<String>, Failure> {
        // The tasks of the session's subagents are listed as well.
        let sessions = self.session.as_ref().map(|id| session::session_tree(view.root(), id));
        let sessions = sessions.transpose()?;
        let running: Vec<TaskId> =
            view.tasks().take_while(|task| task.is_live()).map(LiveTask::id).take(rows).collect();
        view.sample(&running);
        let list = |color| self.format_live_list(view, sessions.as_ref(), color, columns);
        Ok(fit_lines(list(ColorMode::for_stdout()), || list(ColorMode::Off), columns, rows))
    }

    fn format_live_list(
        &self,
        view: &LiveView,
        sessions: Option<&HashSet<SessionId>>,
        color: ColorMode,
        columns: usize,
    ) -> PersonList {
        let is_listed = |task: &&LiveTask| {
            sessions.is_none_or(|sessions| sessions.contains(&task.view.session_id))
                && (task.is_live() || !self.running)
        };
        let views: Vec<TaskView> = view.tasks().filter(is_listed).map(to_row).collect();
        let is_empty = views.is_empty();
        let need = |row: &TaskView| view.task(row.task_id).and_then(|task| task.need);
        let mut list = person::format_list(views, need, self.scope(), color, columns);
        if is_empty {
            let text = if self.running { "nothing is running" } else { NO_TASKS };
            list.summary = Some(text.to_owned());
        }
        if let Some((id, why)) = view.unreadable().first_key_value() {
            let count = view.unreadable().len();
            let text = format!("unreadable tasks: {count}, the first is {id}: {why}");
            list.summary = Some(match list.summary {
                Some(summary) => format!("{summary}\n{text}"),
                None => text,
            });
        }
        list
    }
}

/// Returns the view of a task with the ports that were measured last.
fn to_row(task: &LiveTask) -> TaskView {
    let mut row = task.view.clone();
    if let Some(usage) = &task.usage {
        row.listening.clone_from(&usage.ports);
    }
    row
}

/// Sets the usual durations of the running tasks among `ids`.
fn add_expectations(view: &mut LiveView, ids: &[TaskId]) {
    let running: Vec<TaskView> = ids
        .iter()
        .filter_map(|id| view.task(*id))
        .filter(|task| task.is_live())
        .map(|task| task.view.clone())
        .collect();
    if running.is_empty() {
        return;
    }
    let usual = run_history::expectations(view.root(), running.iter());
    for (row, usual) in running.iter().zip(usual) {
        if let Some(usual) = usual {
            view.set_expectation(row.task_id, usual);
        }
    }
}

/// Waits until the next paint is due, a signal arrives or a key is pressed.
fn wait(
    view: &LiveView,
    signals: &SignalFd,
    keys: &mut KeyReader,
    has_running: bool,
) -> Result<WakeReason, Failure> {
    let io = |error| Failure::new(format!("could not wait for a change: {error}"));
    let mut sources = vec![signals.as_fd()];
    sources.extend(keys.readable_fd());
    let is_woken = poll::wait_readable(&sources, Some(PAINT_INTERVAL_MS)).map_err(io)?;
    if !is_woken.contains(&true) && !has_running {
        sources.push(view.source());
        let idle = Some(IDLE_INTERVAL_MS - PAINT_INTERVAL_MS);
        let _checked_below = poll::wait_readable(&sources, idle).map_err(io)?;
    }
    let mut bytes = [0; 256];
    let count = keys.read(&mut bytes);
    if bytes[..count].contains(&QUIT_KEY) {
        return Ok(WakeReason::Quit);
    }
    let mut is_cursor_moved = false;
    // The SIGCONT that ends a suspension is read before the next paint. Otherwise the list would be
    // painted again below that paint.
    loop {
        let pending = signals.read_pending();
        if pending.is_empty() {
            break;
        }
        is_cursor_moved |= pending.iter().any(|signal| *signal != Signal::WINCH);
        pending.into_iter().for_each(|signal| handle_signal(signal, keys));
    }
    let was_reading = keys.is_reading();
    if !was_reading {
        // A shell sends no signal to a running background job that it moves to the foreground.
        keys.resume();
    }
    is_cursor_moved |= keys.is_reading() != was_reading;
    Ok(if is_cursor_moved { WakeReason::CursorMoved } else { WakeReason::PaintDue })
}

/// Restores the mode of the terminal, then lets a signal suspend or end this process.
fn handle_signal(signal: Signal, keys: &mut KeyReader) {
    if END_SIGNALS.contains(&signal) {
        keys.pause();
        // Returns only if the signal is ignored, as SIGHUP is under nohup(1).
        signals::raise_unblocked(signal);
    } else if signal == Signal::TSTP {
        keys.suspend();
    }
    keys.resume();
}

/// Returns the lines that fit a screen of this size, with one row left for the cursor. If a line is
/// too wide, the lines of `plain` are cut instead, because they contain no escape sequences.
fn fit_lines(
    list: PersonList,
    plain: impl FnOnce() -> PersonList,
    columns: usize,
    rows: usize,
) -> Vec<String> {
    let plain = plain();
    let is_too_wide = |line: &str| display_width(line) > columns;
    let is_cut = plain.table.lines().any(is_too_wide);
    let (table, summary) =
        if is_cut { (plain.table, plain.summary) } else { (list.table, list.summary) };
    let cut = |line: &str| if is_cut { one_line(line, columns) } else { line.to_owned() };
    let mut lines: Vec<String> = table.lines().map(cut).collect();
    let summary = summary.unwrap_or_default();
    let mut summary: Vec<String> =
        summary.lines().flat_map(|line| wrap_text(line, columns)).collect();
    summary.truncate(rows.saturating_sub(2).max(1));
    let room = rows.saturating_sub(1 + summary.len()).max(1);
    if lines.len() > room {
        let hidden = lines.len() - (room - 1);
        lines.truncate(room - 1);
        lines.push(one_line(&format!("{hidden} more tasks do not fit on the screen"), columns));
    }
    lines.extend(summary);
    lines
}

impl Screen {
    /// Paints lines over those of the last paint. Writes nothing if neither they nor the columns of
    /// the terminal have changed.
    fn paint(&mut self, lines: Vec<String>, columns: usize) -> Result<ReaderState, Failure> {
        if self.lines == lines && self.columns == columns {
            return Ok(ReaderState::Connected);
        }
        let above = match wraps_again(|name| std::env::var_os(name).is_some()) {
            true => count_rows(&self.lines, columns),
            // The painted lines fitted the screen.
            false => self.lines.len(),
        };
        let text = repaint(above, &lines);
        *self = Self { lines, columns };
        out::print(&text)
    }
}

/// Returns whether a resized terminal wraps the lines on its screen again, as most terminals do.
/// xterm cuts them instead; it sets a variable, which the programs in a tmux there inherit.
/// `is_set` returns whether an environment variable is set. On another terminal that cuts lines,
/// the next paint starts too high, above the list.
fn wraps_again(is_set: impl Fn(&str) -> bool) -> bool {
    !is_set("XTERM_VERSION") || is_set("TMUX")
}

/// Returns the number of rows that painted lines occupy after the terminal was resized to this
/// number of columns and has wrapped them again.
fn count_rows(lines: &[String], columns: usize) -> usize {
    lines.iter().map(|line| printed_width(line).div_ceil(columns.max(1)).max(1)).sum()
}

/// Returns the escape sequences and the text that replace the `above` rows above the cursor with
/// these lines.
fn repaint(above: usize, lines: &[String]) -> String {
    // "Cursor up" moves by one line even for the parameter 0.
    let mut text = if above == 0 { String::new() } else { format!("\x1b[{above}A") };
    text.push('\r');
    for line in lines {
        text.push_str(line);
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[J");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(table: &str, summary: Option<&str>) -> PersonList {
        PersonList {
            table: table.to_owned(),
            listed: Vec::new(),
            summary: summary.map(str::to_owned),
        }
    }

    fn fit(table: &str, summary: Option<&str>, columns: usize, rows: usize) -> Vec<String> {
        let colored =
            table.lines().map(|line| format!("\x1b[32m{line}\x1b[m\n")).collect::<String>();
        fit_lines(list(&colored, summary), || list(table, summary), columns, rows)
    }

    #[test]
    fn lines_that_fit_keep_their_colors() {
        assert_eq!(
            fit("ID\nb-1\n", Some("3 tasks have ended"), 20, 5),
            ["\x1b[32mID\x1b[m", "\x1b[32mb-1\x1b[m", "3 tasks have ended"]
        );
    }

    #[test]
    fn long_lines_are_cut_and_low_screens_count_the_rest() {
        assert_eq!(fit("a long line\nshort\n", None, 7, 5), ["a long…", "short"]);
        assert_eq!(
            fit("ID\n", Some("3 tasks have ended"), 10, 5),
            ["\x1b[32mID\x1b[m", "3 tasks", "have ended"]
        );
        let table = "head\none\ntwo\nthree\nfour\n";
        assert_eq!(
            fit(table, Some("nothing"), 60, 5),
            [
                "\x1b[32mhead\x1b[m",
                "\x1b[32mone\x1b[m",
                "3 more tasks do not fit on the screen",
                "nothing"
            ]
        );
        for rows in 0..5 {
            assert!(fit(table, None, 10, rows).len() <= rows.saturating_sub(1).max(1));
        }
    }

    #[test]
    fn lines_wrapped_by_a_narrower_terminal_occupy_several_rows() {
        let lines = ["\x1b[32mb-4k7q\x1b[m  make".to_owned(), String::new(), "done".to_owned()];
        let rows = [80, 12, 11, 6, 4, 0].map(|columns| count_rows(&lines, columns));
        assert_eq!(rows, [3, 3, 4, 4, 5, 17]);
    }

    #[test]
    fn only_xterm_cuts_the_lines_of_a_resized_screen() {
        let wraps = |variables: &[&str]| wraps_again(|name| variables.contains(&name));
        assert!(wraps(&[]) && wraps(&["TMUX"]) && wraps(&["TMUX", "XTERM_VERSION"]));
        assert!(!wraps(&["XTERM_VERSION"]));
    }

    #[test]
    fn a_paint_replaces_the_lines_above_the_cursor() {
        assert_eq!(repaint(0, &["a".to_owned()]), "\ra\x1b[K\n\x1b[J");
        assert_eq!(repaint(2, &[]), "\x1b[2A\r\x1b[J");
    }
}
