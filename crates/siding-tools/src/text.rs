//! Formats the text that several tools use in their answers.

use std::time::Duration;

use siding_core::output;
use siding_core::sys::clock;
use siding_core::task::port_conflict::port_conflict_advice;
use siding_core::task::view::ViewDetail;
use siding_model::advice::{self, NoticeChannel};
use siding_model::id::TaskId;
use siding_model::notice::Coverage;
use siding_model::record::StopReport;
use siding_model::task_view::{PhaseName, TaskView};
use siding_model::text::one_line;
use siding_terminal::format_screen;

use crate::answer::{ToolAnswer, ToolError};
use crate::context::{TaskSnapshot, ToolContext};
use crate::delivery::DeliveryAck;
use crate::structured::{self, RunDetails, TaskSummary};
use crate::terminal::TaskScreen;

pub use crate::structured::LINE_COLUMNS;

/// Maximum width of the last line of an output, in columns.
const LAST_LINE_COLUMNS: usize = 400;
/// Maximum width of the text about a survivor of a stop, in columns.
const SURVIVOR_COLUMNS: usize = 120;

/// Returns an answer with the state of a task (`b-4k7q…  exited 1 after 3s  npm test`) and the next
/// step, if there is one. `view` is the view of the snapshot.
#[must_use]
pub fn status_answer(
    context: &ToolContext,
    snapshot: &TaskSnapshot,
    view: &TaskView,
) -> ToolAnswer {
    ToolAnswer::from_line(advice::format_task_line(view, LINE_COLUMNS))
        .with_line(next_step_with_port(context, snapshot, view))
}

/// Returns the advice on the next step for a task of a snapshot, whose view is `view`, or `None` if
/// there is none. For a task that could not listen on a port, the advice names the port's holder.
#[must_use]
pub fn next_step_with_port(
    context: &ToolContext,
    snapshot: &TaskSnapshot,
    view: &TaskView,
) -> Option<String> {
    let TaskSnapshot { dir, state } = snapshot;
    let conflict = port_conflict_advice(&context.root, dir, state, context.dialect);
    next_step(context, view)
        .into_iter()
        .chain(conflict)
        .reduce(|all, next| format!("{all}; {next}"))
}

/// Returns the advice on the next step, or `None` if there is none.
#[must_use]
pub fn next_step(context: &ToolContext, view: &TaskView) -> Option<String> {
    // Only the advice about a running background task depends on the channel. For other tasks the
    // channel is not determined, because that requires reading files.
    let channel = match (view.phase, view.placement.why) {
        (PhaseName::Running, Some(_)) => context.notice_channel(),
        (_, _) => NoticeChannel::PollOnly,
    };
    advice::task_advice(view, context.dialect, channel, clock::unix_now())
}

/// Returns an answer with the state of a task, the next step, and at most `max` bytes of output.
/// For a running task with a terminal, the answer shows the screen and the input that the task
/// waits for.
///
/// # Errors
///
/// Returns [`ToolError::Io`] when the task's output cannot be read.
pub fn answer_with_output(
    context: &ToolContext,
    snapshot: &TaskSnapshot,
    max: usize,
) -> Result<ToolAnswer, ToolError> {
    let view = context.view(snapshot, ViewDetail::Full);
    if let Some(answer) = answer_with_screen(context, snapshot, &view) {
        return Ok(answer);
    }
    let keep_head = snapshot.state.spec.keep_head;
    let excerpt = output::excerpt(&snapshot.dir, keep_head, max)
        .map_err(|source| ToolError::Io { doing: "read the output", source })?;
    let mut answer = status_answer(context, snapshot, &view);
    if view.output.bytes == 0 {
        answer.lines.push("no output".to_owned());
    }
    answer.lines.extend(passed_limits(&view, snapshot));
    let (task, output_truncated) = (Some(TaskSummary::from(&view)), excerpt.truncated);
    let details = RunDetails { task, task_id: None, duplicate_of: None, output_truncated };
    answer.details = structured::to_fields(&details);
    answer.output = Some(excerpt.text);
    Ok(answer)
}

/// Returns the answer about a running task with a terminal; `None` for another task, or if the
/// screen cannot be read. A task that waits for input needs no advice about waiting for its end.
fn answer_with_screen(
    context: &ToolContext,
    snapshot: &TaskSnapshot,
    view: &TaskView,
) -> Option<ToolAnswer> {
    if snapshot.state.terminal.is_none() || !snapshot.state.is_live() {
        return None;
    }
    let shown = TaskScreen::read(context, snapshot).ok().filter(|shown| !shown.has_ended)?;
    let mut answer = match shown.awaited {
        Some(_) => ToolAnswer::from_line(advice::format_task_line(view, LINE_COLUMNS)),
        None => status_answer(context, snapshot, view),
    };
    let id = view.task_id;
    answer.lines.push(shown.describe_with_tools(id, context.dialect));
    answer.lines.extend(passed_limits(view, snapshot));
    let details =
        RunDetails { task: None, task_id: Some(id), duplicate_of: None, output_truncated: false };
    answer.details = structured::to_fields(&details);
    answer.output = Some(format_screen(&shown.screen));
    context.shown_screens.record(id, shown.screen.content_hash());
    Some(answer)
}

/// Returns an answer with the outcome of an ended task, which counts as reported.
///
/// # Errors
///
/// Returns [`ToolError::Watch`] when the state of the task cannot be read.
pub(crate) fn ended_answer(context: &ToolContext, id: TaskId) -> Result<ToolAnswer, ToolError> {
    let snapshot = context.snapshot(id)?;
    let view = context.view(&snapshot, ViewDetail::Brief);
    let mut answer = status_answer(context, &snapshot, &view);
    answer
        .delivery_acks
        .push(DeliveryAck::TaskReported(Box::new(snapshot.state), Coverage::Status));
    Ok(answer)
}

/// Returns a line for each limit or watchdog that a task has exceeded without being stopped.
#[must_use]
pub fn passed_limits(view: &TaskView, snapshot: &TaskSnapshot) -> Vec<String> {
    let limits = &snapshot.state.spec.limits;
    // A limit that stops the task is reported by the outcome.
    let passed = view.breaches.iter().filter(|one| !limits.stops_at(one));
    passed.map(|one| one_line(&one.detail, LINE_COLUMNS)).collect()
}

/// Returns the last line of a task's output; `None` if there is none, or if the output cannot be
/// read.
#[must_use]
pub fn last_line(snapshot: &TaskSnapshot) -> Option<String> {
    let line = output::last_line(&snapshot.dir).ok().filter(|line| !line.is_empty())?;
    Some(one_line(&line, LAST_LINE_COLUMNS))
}

/// Returns a text with the processes that a stop could not terminate and, if it is unproven that no
/// other process is left, the reason. Returns `None` if it is proven that the stop left no process.
#[must_use]
pub fn format_survivors(report: &StopReport) -> Option<String> {
    let all = report.survivors.iter().map(|survivor| {
        one_line(
            &format!("{} {}: {}", survivor.pid, survivor.command, survivor.why),
            SURVIVOR_COLUMNS,
        )
    });
    let unproven = report.unproven.iter().map(|why| one_line(why, SURVIVOR_COLUMNS));
    let all: Vec<String> = all.chain(unproven).collect();
    (!all.is_empty()).then(|| format!("STILL ALIVE: {}", all.join("; ")))
}

/// Converts a number of seconds to a duration. `name` is the argument's name, for the error.
///
/// # Errors
///
/// Returns [`ToolError::Arguments`] when the number is negative, not finite or too large.
pub fn parse_seconds(name: &str, seconds: f64) -> Result<Duration, ToolError> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        ToolError::Arguments(format!(
            "`{name}`: {seconds} is not a valid time; give seconds, such as 30"
        ))
    })
}

/// Returns a duration in milliseconds, at most `u64::MAX`.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
