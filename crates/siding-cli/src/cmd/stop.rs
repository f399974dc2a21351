//! `siding stop`: stops tasks and everything they started.

mod wait_note;

use std::process::ExitCode;
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::view::ViewDetail;
use siding_core::task::watch::WatchError;
use siding_core::{parallel, session};
use siding_model::id::{SessionId, TaskId};
use siding_model::notice::Coverage;
use siding_model::record::StopReport;
use siding_model::signal::Signal;
use siding_model::task_view::TaskView;
use siding_model::text::{one_line, wrap_message};

use super::ps;
use super::remote_call::RemoteCall;
use crate::context::{self, SHIM_PROGRAM, Task};
use crate::exit;
use crate::failure::Failure;
use crate::render::color::ColorMode;
use crate::render::{self, out};
use crate::{stderr, stdout};

/// Maximum width in columns of an outcome, which is printed next to the task's id.
const OUTCOME_COLUMNS: usize = 64;
/// Maximum width in columns of the outcome of a task that had ended before the call.
const PAST_OUTCOME_COLUMNS: usize = 45;
/// Maximum width in columns of the reason why a process survived.
const REASON_COLUMNS: usize = 400;

/// Stops tasks and everything they started.
///
/// Sends the termination signal to the whole process tree, kills what is left after the grace, and
/// reports what it ended. In a terminal, SIGHUP follows SIGTERM for shells that ignore it. Fails
/// unless it is proven that nothing is left. If the machine of a task cannot be reached, or has not
/// confirmed the stop 30 s after the grace, returns 75: the stop is recorded, and follows later.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding stop b-4k7q            stop one task
  siding stop                   stop nothing; list the running tasks
  siding stop --all             stop every task
  siding stop --all --session S stop the tasks of one session
  siding stop --grace 0s b-4k7q kill immediately
  siding stop --on build b-4k7q stop a task of another machine")]
pub(crate) struct Args {
    /// Tasks: ids, unique prefixes, names, or `@` for the last one
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Stop every running task
    #[arg(long, conflicts_with_all = ["ids", "on"])]
    all: bool,
    /// With --all: only the tasks of this session and of its subagents
    #[arg(long, requires = "all", value_name = "ID")]
    session: Option<SessionId>,
    /// Time between the termination signal and the kill (default: the task's own grace)
    #[arg(long, value_name = "D", value_parser = super::parse_duration)]
    grace: Option<Duration>,
    /// Termination signal (default: the task's own signal)
    #[arg(short, long, value_name = "SIGNAL")]
    signal: Option<Signal>,
    #[command(flatten)]
    remote: RemoteCall,
    /// Print the tasks as JSON: an object for one id, otherwise a list
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(code) = self.remote.run()? {
            return Ok(code);
        }
        let root = context::open_state_dir()?;
        if !self.all && self.ids.is_empty() {
            return report_missing_id(&root);
        }
        let (ids, mut failures) = self.select_tasks(&root)?;
        if self.all && ids.is_empty() {
            errln!("siding: no task is running");
        }
        let mut results = Vec::new();
        // Up to `MAX_WAITING_THREADS` tasks are stopped concurrently, so that their graces
        // overlap.
        let stop_all =
            || parallel::map(&ids, parallel::MAX_WAITING_THREADS, |id| self.stop_task(&root, *id));
        for result in wait_note::run_with_note(&root, &ids, self.grace, stop_all) {
            match result {
                Ok(result) => results.push(result),
                Err(failure) => {
                    failures += 1;
                    failure.report();
                }
            }
        }
        let views: Vec<TaskView> =
            results.iter().map(|result| result.task.view(&root, ViewDetail::Full)).collect();
        let reader = self.print(&results, &views)?;
        if reader == out::ReaderState::Connected {
            // The caller has received the outcome, so the agent of the caller's session needs no
            // notice. A task whose stop is pending has no outcome yet.
            for result in results.iter().filter(|result| result.pending.is_none()) {
                context::mark_consumed(&root, &result.task.state, Coverage::Status);
            }
        }
        let has_left = views
            .iter()
            .any(|view| view.stop_report.as_ref().is_some_and(|report| !report.is_complete()));
        Ok(ExitCode::from(if failures > 0 || has_left {
            exit::SIDING_FAILED
        } else if results.iter().any(|result| result.pending.is_some()) {
            exit::STILL_RUNNING
        } else {
            0
        }))
    }

    /// Prints the results with the views of their tasks.
    fn print(
        &self,
        results: &[StopResult],
        views: &[TaskView],
    ) -> Result<out::ReaderState, Failure> {
        if !self.json {
            let results = views.iter().zip(results);
            let text = results.map(|(view, result)| format_result(view, result));
            return out::print(&text.collect::<String>());
        }
        for pending in results.iter().filter_map(|result| result.pending.as_ref()) {
            errln!("siding: {}", one_line(pending, REASON_COLUMNS));
        }
        match views {
            [view] if !self.all && self.ids.len() == 1 => render::json::print_to_reader(view),
            views => render::json::print_to_reader(&views),
        }
    }

    /// Returns the tasks to stop, and the number of failures: ids that do not match exactly one
    /// task, and unreadable tasks that may belong to the session. Reports each failure; the caller
    /// stops the other tasks.
    fn select_tasks(&self, root: &StateDir) -> Result<(Vec<TaskId>, usize), Failure> {
        if !self.all {
            let mut unknown = 0;
            let mut ids = Vec::new();
            for found in context::resolve_distinct(root, &self.ids, self.json) {
                match found {
                    Ok(id) => ids.push(id),
                    Err(failure) => {
                        unknown += 1;
                        failure.report();
                    }
                }
            }
            return Ok((ids, unknown));
        }
        let Some(session) = &self.session else { return Ok((root.live_tasks()?, 0)) };
        // The tasks of the session's subagents are stopped as well.
        let sessions = session::session_tree(root, session)?;
        let running = stop::list_running(root, |spec| sessions.contains(&spec.session_id))?;
        if running.specs.is_empty() {
            context::ensure_session_exists(root, session)?;
        }
        for (id, error) in &running.unreadable {
            Failure::new(format!("task {id} may belong to `{session}`: {error}")).report();
        }
        let ids = running.specs.iter().map(|spec| spec.task_id).collect();
        Ok((ids, running.unreadable.len()))
    }

    fn stop_task(&self, root: &StateDir, id: TaskId) -> Result<StopResult, Failure> {
        let had_ended = Task::read(root, id).is_ok_and(|task| !task.state.is_live());
        let options = StopOptions { requested_by: "user", grace: self.grace, signal: self.signal };
        let pending = match stop::stop(root, SHIM_PROGRAM, id, options) {
            Err(error @ WatchError::StopPending { .. }) => Some(error.to_string()),
            result => {
                result?;
                None
            }
        };
        Ok(StopResult { task: Task::read(root, id)?, had_ended, pending })
    }
}

/// Lists the running tasks on standard error, because the call names none, and returns the exit
/// code of a usage mistake.
fn report_missing_id(root: &StateDir) -> Result<ExitCode, Failure> {
    let running = ps::running_views(root)?;
    let Some(newest) = running.first() else {
        return Err(Failure::new("no task is named, and none is running")
            .with_hint("`siding ps` lists the tasks that ended last"));
    };
    errln!("siding: no task is named; these are running:");
    let columns = stderr::terminal_columns().unwrap_or(stdout::TEXT_COLUMNS);
    let _peer_gone = stderr::print(&render::task_table(&running, ColorMode::Off, columns));
    errln!("  hint: `siding stop {}` stops the first, `--all` stops all", newest.task_id);
    Ok(ExitCode::from(exit::SIDING_FAILED))
}

/// A task after a call of `siding stop`.
struct StopResult {
    task: Task,
    /// Whether the task had ended before the call.
    had_ended: bool,
    /// The message about a stop that is recorded and will be carried out later, of this task or of
    /// one that it started.
    pending: Option<String>,
}

/// Formats the result for one task, at most 80 columns wide. For a task that had ended before the
/// call, this is only its outcome, unless something of the task may still be left.
fn format_result(view: &TaskView, result: &StopResult) -> String {
    if let Some(pending) = &result.pending {
        let line = format!("{}\n", one_line(pending, REASON_COLUMNS));
        let pending = wrap_message(&line, stdout::text_columns());
        // The pending stop may belong to a task that this one started, while this one has already
        // ended.
        let stopped = view.outcome.as_ref().map_or_else(String::new, |_| format_stopped(view));
        return stopped + &pending;
    }
    let is_complete = view.stop_report.as_ref().is_none_or(StopReport::is_complete);
    if !result.had_ended || !is_complete {
        return format_stopped(view);
    }
    let outcome = view.outcome.as_ref().map_or_else(String::new, ToString::to_string);
    let outcome = one_line(&outcome, PAST_OUTCOME_COLUMNS);
    let line = format!("{}  had already ended: {outcome}\n", view.task_id);
    wrap_message(&line, stdout::text_columns())
}

/// Formats how a task ended and which processes were terminated, at most 80 columns wide.
fn format_stopped(view: &TaskView) -> String {
    let outcome = view.outcome.as_ref().map_or_else(String::new, ToString::to_string);
    // The outcome of a program that could not be started contains the program's name, which may be
    // long.
    let head = format!("{}  {}\n", view.task_id, one_line(&outcome, OUTCOME_COLUMNS));
    let columns = stdout::text_columns();
    let mut text = wrap_message(&head, columns);
    let Some(report) = &view.stop_report else { return text };
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    for ended in &report.ended {
        let command = short_command(&ended.command);
        let ended = format!("  ended {:>7}  {:<8} {command}", ended.pid, ended.signal);
        line(&one_line(&ended, columns));
    }
    let listed = u32::try_from(report.ended.len()).unwrap_or(u32::MAX);
    if report.ended_total > listed {
        line(&format!("  … and {} more", report.ended_total - listed));
    }
    for survivor in &report.survivors {
        let command = short_command(&survivor.command);
        let survivor_line = format!("  STILL ALIVE {:>7}  {command}", survivor.pid);
        line(&one_line(&survivor_line, columns));
        line(&stdout::wrap_indented(&one_line(&survivor.why, REASON_COLUMNS), 14, columns));
    }
    if let Some(why) = &report.unproven {
        line("  NOT PROVEN that nothing is left:");
        line(&stdout::wrap_indented(&one_line(why, REASON_COLUMNS), 14, columns));
    }
    if !report.ports_freed.is_empty() {
        let ports: Vec<_> = report.ports_freed.iter().map(ToString::to_string).collect();
        let freed = format!("ports freed: {}", ports.join(", "));
        line(&stdout::wrap_indented(&freed, 2, columns));
    }
    text
}

/// Shortens a command to fit into 80 columns next to a pid and a signal.
fn short_command(command: &str) -> String {
    one_line(command, 54)
}
