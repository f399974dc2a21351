//! Advice for the user of a task, who is a person or an agent: the task's state and the next step,
//! as text.

mod host_terminal;
mod key_error;
mod keys_refusal;
mod port_conflict;
mod queued;
mod running;
mod stop_wait;
mod time_left;
mod unreachable;

use std::time::Duration;

use crate::duration::format_duration;
use crate::foreground_call;
use crate::id::TaskId;
use crate::limits::Breach;
use crate::mirror::InputLoss;
use crate::outcome::{LeaderEnd, LimitKind, Outcome, has_masked_failure};
use crate::process::UnixMs;
use crate::record::StopReport;
use crate::signal::Signal;
use crate::size::size_in_words;
use crate::task_view::{PhaseName, ProcessView, TaskView};
use crate::text::one_line;

pub use host_terminal::{host_terminal_advice, host_terminal_text};
pub use key_error::key_error_text;
pub use keys_refusal::{
    keys_refusal_reason, keys_refusal_text, partly_typed_text, unconfirmed_keys_text,
    unconfirmed_secret_text,
};
pub use port_conflict::{PortHolder, find_conflicting_port, port_holder_advice};
use queued::queue_advice;
use running::running_advice;
pub use stop_wait::stop_wait_text;
pub use time_left::{is_deadline_near, until_deadline};
use unreachable::unreachable_advice;

/// The interface in whose terms advice is worded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Commands and flags of the `siding` program, for an agent or a program.
    Commands,
    /// Commands and flags of the `siding` program, for a person at a terminal, in short lines.
    Terminal,
    /// Names and arguments of the tools that the MCP server offers to a model.
    Tools,
    /// Names and arguments of the tools of siding's own agent.
    Agent,
}

impl Dialect {
    /// Returns the quoted name of an operation in this dialect. `what` is `run`, `wait`, `output`,
    /// `stop`, `list`, `input` or `why`.
    #[must_use]
    pub fn format_tool(self, what: &str) -> String {
        match (self, what) {
            (Self::Commands | Self::Terminal, "list") => "`siding ps`".to_owned(),
            (Self::Commands | Self::Terminal, what) => format!("`siding {what}`"),
            (Self::Tools, what) => format!("`{what}`"),
            (Self::Agent, "run") => "`bash`".to_owned(),
            (Self::Agent, what) => format!("`task_{what}`"),
        }
    }

    /// Returns the quoted call for an operation on one task. `what` is `wait`, `output`, `stop`,
    /// `input`, `screen` or `show`.
    fn format_task_call(self, what: &str, id: TaskId) -> String {
        match (self, what) {
            (Self::Commands | Self::Terminal, what) => format!("`siding {what} {id}`"),
            // The tools have no `show`, but their `list` contains the state of each task.
            (Self::Tools | Self::Agent, "show") => self.format_tool("list"),
            (Self::Tools | Self::Agent, what) => self.format_tool(what),
        }
    }

    /// Returns the name of an option of a call in this dialect.
    #[must_use]
    pub fn format_option(self, name: &str) -> String {
        match (self, name) {
            (Self::Commands | Self::Terminal, name) => format!("--{name}"),
            (Self::Agent, "background") => "`run_in_background`".to_owned(),
            (Self::Tools | Self::Agent, name) => format!("`{name}`"),
        }
    }
}

/// How the reader of advice learns that a background task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeChannel {
    /// The reader receives no notice and has to poll.
    PollOnly,
    /// By a notice that siding's agent or the hooks of the host deliver.
    Pushed,
    /// By a notice in the result of a later tool call.
    WithToolResults,
}

impl NoticeChannel {
    /// Returns the clause that announces the notice, or `None` when no notice will come.
    const fn promise(self) -> Option<&'static str> {
        match self {
            Self::PollOnly => None,
            Self::Pushed => Some("you will be notified when it ends"),
            Self::WithToolResults => {
                Some("you will be notified when it ends, in a later result of these tools")
            }
        }
    }
}

/// Maximum number of remaining processes of a lingering task that the advice lists.
const MAX_NAMED_PROCESSES: usize = 5;
/// Maximum number of columns of the reason why siding could not prove that all processes of a task
/// have ended.
const UNPROVEN_COLUMNS: usize = 200;
/// Maximum number of columns of the sentence about a task's readiness conditions.
const READY_COLUMNS: usize = 400;
/// Maximum number of columns of a command line inside a sentence.
const COMMAND_COLUMNS: usize = 40;

/// Minimum number of columns for a command line and the two spaces before it. With less space
/// [`format_task_line`] leaves the command line out.
const MIN_COMMAND_COLUMNS: usize = 14;

/// Returns a line with a task's outcome or current phase, and with its command if `columns` leaves
/// space for one: `b-4k7q0n2m8x5t  exited 7 after 3m 12s  npm test`.
#[must_use]
pub fn format_task_line(view: &TaskView, columns: usize) -> String {
    let (id, after) = (
        format!("{}  ", view.task_id),
        format!(" after {}", format_duration(Duration::from_millis(view.state_time_ms()))),
    );
    let room = columns.saturating_sub(id.len() + after.len());
    let state = match &view.outcome {
        Some(outcome) => one_line(&outcome.to_string(), room),
        None => view.live_state().to_owned(),
    };
    if room.saturating_sub(state.chars().count()) < MIN_COMMAND_COLUMNS {
        return format!("{id}{state}{after}");
    }
    one_line(&format!("{id}{state}{after}  {}", view.display_name()), columns)
}

/// Returns advice for the user of a task, or `None` for an ended task whose outcome, readiness,
/// stop report and output need no explanation.
#[must_use]
pub fn task_advice(
    view: &TaskView,
    dialect: Dialect,
    channel: NoticeChannel,
    now: UnixMs,
) -> Option<String> {
    let id = view.task_id;
    let phase_advice = match view.phase {
        PhaseName::Starting if view.queued.is_some() => queue_advice(view, dialect),
        PhaseName::Starting if view.is_connecting() => Some(format!(
            "its machine has not answered yet; {} shows its state",
            dialect.format_task_call("show", id)
        )),
        PhaseName::Starting => Some(format!(
            "it is starting; {} shows its state",
            dialect.format_task_call("show", id)
        )),
        PhaseName::Running => Some(running_advice(view, dialect, channel, now)),
        PhaseName::Lingering => Some(lingering_advice(view, dialect, now)),
        PhaseName::Stopping => Some(format!(
            "it is being stopped with everything it started; {} waits until that is complete",
            dialect.format_task_call("wait", id)
        )),
        PhaseName::Ended => ended_advice(view, dialect, "timeout"),
    };
    let facts = join_advice(unreachable_advice(view, now), readiness_advice(view, dialect));
    join_advice(input_loss_advice(view), join_advice(facts, phase_advice))
}

/// Returns advice like [`task_advice`], for the user of an ended task whose deadline was the budget
/// of the call, as with `--on-timeout stop`.
#[must_use]
pub fn budget_stop_advice(view: &TaskView, dialect: Dialect) -> Option<String> {
    let end = join_advice(readiness_advice(view, dialect), ended_advice(view, dialect, "budget"));
    join_advice(input_loss_advice(view), end)
}

/// Says that the command has received only a part of its standard input.
fn input_loss_advice(view: &TaskView) -> Option<String> {
    view.input_loss.map(InputLoss::describe)
}

fn join_advice(first: Option<String>, second: Option<String>) -> Option<String> {
    first.into_iter().chain(second).reduce(|all, next| format!("{all}; {next}"))
}

/// Describes the readiness of a task. Returns `None` for a task without a readiness condition, and
/// for an ended task that was ready.
fn readiness_advice(view: &TaskView, dialect: Dialect) -> Option<String> {
    let ready = view.ready.as_ref()?;
    let is_live = view.phase != PhaseName::Ended;
    let says = one_line(&ready.describe(is_live), READY_COLUMNS);
    match (is_live, ready.after_ms, dialect) {
        (false, Some(_), _) => None,
        (true, None, Dialect::Commands | Dialect::Terminal) => {
            Some(format!("{says}; `siding notices` reports when it is"))
        }
        (_, _, _) => Some(says),
    }
}

fn lingering_advice(view: &TaskView, dialect: Dialect, now: UnixMs) -> String {
    let id = view.task_id;
    let end = view
        .leader_outcome
        .as_ref()
        .map_or_else(String::new, |end| format!(" ({})", one_line(&end.to_string(), 100)));
    let processes = match view.processes.len() {
        0 => String::new(),
        count => format!(
            ", {count} {} of it {} on: {}",
            plural(count, "process", "processes"),
            plural(count, "lives", "live"),
            format_processes(&view.processes)
        ),
    };
    let ports = match view.listening.as_slice() {
        [] => String::new(),
        ports => format!("; listening on {}", format_ports(ports)),
    };
    let left = until_deadline(view, now).map_or_else(String::new, |left| {
        format!(
            "; the remaining processes will be ended in {}",
            format_duration(truncate_to_seconds(left))
        )
    });
    format!(
        "its shell has ended{end}{processes}{ports}{left}; {} ends it now, {} shows what it still \
         writes",
        dialect.format_task_call("stop", id),
        dialect.format_task_call("output", id)
    )
}

/// Returns whether the task was stopped completely because the reader of its output had exited. A
/// shell ends such a command of a pipeline without a message.
fn is_end_of_pipeline(view: &TaskView) -> bool {
    let is_by_reader = matches!(&view.outcome, Some(Outcome::Stopped { by }) if by == foreground_call::CLOSED_READER);
    is_by_reader && view.stop_report.as_ref().is_none_or(StopReport::is_complete)
}

/// Explains the end of a task. `deadline_option` is the name of the option that set the deadline.
fn ended_advice(view: &TaskView, dialect: Dialect, deadline_option: &str) -> Option<String> {
    if dialect == Dialect::Terminal && is_end_of_pipeline(view) {
        return None;
    }
    let mut sentences: Vec<String> = Vec::new();
    match view.outcome.as_ref()? {
        Outcome::Exited { code } => sentences.extend(masked_failure_advice(*code, view)),
        Outcome::Signaled { by: Some(by), .. } if by == LeaderEnd::OOM_SENDER => sentences.push(format!(
            "the kernel killed it because memory ran out; reduce its concurrency{}",
            match dialect {
                Dialect::Commands | Dialect::Terminal => {
                    ", or set --max-memory to be notified earlier"
                }
                Dialect::Tools | Dialect::Agent => "",
            }
        )),
        Outcome::Signaled { signal, by: Some(by) } => {
            sentences.push(format!("{signal} from {} ended it", one_line(by, 100)));
        }
        Outcome::Signaled { signal, by: None } => sentences.push(signal_advice(*signal)),
        Outcome::Limit { limit_kind } => sentences.push(limit_advice(*limit_kind, view)),
        Outcome::Deadline { limit_ms } => sentences.push(format!(
            "it reached its deadline of {}; a longer one is set with {}{}",
            format_duration(Duration::from_millis(*limit_ms)),
            dialect.format_option(deadline_option),
            match dialect {
                Dialect::Commands | Dialect::Terminal => ", or by `siding extend` while it runs",
                Dialect::Tools | Dialect::Agent => "",
            }
        )),
        Outcome::Lost { why } => sentences.push(format!(
            "its end was not observed: {}; its output may show what was done",
            one_line(why, 200)
        )),
        Outcome::Released { by } => sentences.push(format!(
            "it was released by {}: its remaining processes continued without a deadline, and siding \
             does not know how it ended",
            one_line(by, 100)
        )),
        outcome @ (Outcome::Stopped { .. } | Outcome::FailedToStart { .. }) => {
            sentences.push(one_line(&outcome.to_string(), 400))
        }
    }
    if let Some(report) = &view.stop_report {
        sentences.extend(stop_report_advice(report));
    }
    if view.output.lost_bytes > 0 {
        sentences.push(format!(
            "{} of its output could not be stored, most likely because the disk was full",
            size_in_words(view.output.lost_bytes)
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

/// Names the limit at which the task was stopped, with the recorded numbers if there are any.
fn limit_advice(limit_kind: LimitKind, view: &TaskView) -> String {
    // A watchdog may have reported its own, lower threshold before. It stops no task.
    let is_cause = |breach: &&Breach| breach.limit_kind == limit_kind && !breach.watchdog;
    let breach = view.breaches.iter().find(is_cause);
    let detail = breach.map_or(limit_kind.flag_name(), |breach| breach.detail.as_str());
    format!("stopped at its limit {}", one_line(detail, 400))
}

/// Reports a failure inside a pipeline whose exit code is 0.
fn masked_failure_advice(code: u8, view: &TaskView) -> Option<String> {
    let statuses = view.pipeline_statuses.as_deref()?;
    has_masked_failure(code, statuses).then(|| {
        let statuses: Vec<_> = statuses.iter().map(ToString::to_string).collect();
        format!(
            "an earlier stage of its last pipeline failed, although the exit code is 0 (statuses: {})",
            statuses.join(" ")
        )
    })
}

fn signal_advice(signal: Signal) -> String {
    let guess = if signal == Signal::KILL {
        "; the kernel does that when memory runs out (see `dmesg`)"
    } else {
        ""
    };
    format!("{signal} ended it, and siding did not send this signal{guess}")
}

fn stop_report_advice(report: &StopReport) -> Vec<String> {
    let mut sentences = Vec::new();
    let count = usize::try_from(report.ended_total).unwrap_or(usize::MAX).max(report.ended.len());
    if count > 0 {
        sentences.push(format!("{count} {} ended", plural(count, "process was", "processes were")));
    }
    if !report.ports_freed.is_empty() {
        sentences.push(format!("ports freed: {}", format_ports(&report.ports_freed)));
    }
    if !report.survivors.is_empty() {
        let survivors: Vec<_> = report
            .survivors
            .iter()
            .take(MAX_NAMED_PROCESSES)
            .map(|survivor| {
                let command = one_line(&survivor.command, COMMAND_COLUMNS);
                format!("{} ({command}): {}", survivor.pid, one_line(&survivor.why, 80))
            })
            .collect();
        sentences.push(format!("STILL ALIVE, could not be ended: {}", survivors.join(", ")));
    }
    if let Some(why) = &report.unproven {
        sentences
            .push(format!("NOT PROVEN that nothing is left: {}", one_line(why, UNPROVEN_COLUMNS)));
    }
    sentences
}

fn format_processes(processes: &[ProcessView]) -> String {
    let mut named: Vec<_> = processes
        .iter()
        .take(MAX_NAMED_PROCESSES)
        .map(|process| format!("{} ({})", process.pid, one_line(&process.command, COMMAND_COLUMNS)))
        .collect();
    if processes.len() > MAX_NAMED_PROCESSES {
        named.push(format!("and {} more", processes.len() - MAX_NAMED_PROCESSES));
    }
    named.join(", ")
}

fn format_ports(ports: &[u16]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn output_path(view: &TaskView) -> String {
    one_line(&view.output.path, usize::MAX)
}

const fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

fn truncate_to_seconds(duration: Duration) -> Duration {
    if duration.as_secs() > 0 { Duration::from_secs(duration.as_secs()) } else { duration }
}

/// Width of the progress bar in [`format_progress`], in characters between the brackets.
const PROGRESS_BAR_CELLS: usize = 10;

/// Formats the share of `done` in `all` as a bar of `cells` cells, `[###-------]`. When `done`
/// exceeds `all`, all cells but the last are full, and the last is a `+`.
#[must_use]
pub fn progress_bar(done: u64, all: u64, cells: usize) -> String {
    if done > all {
        return format!("[{}+]", "#".repeat(cells - 1));
    }
    let share = u128::from(done) * cells as u128 / u128::from(all.max(1));
    let full = usize::try_from(share).unwrap_or(cells).min(cells);
    format!("[{}{}]", "#".repeat(full), "-".repeat(cells - full))
}

/// Returns the usual duration and the progress towards it, `4m 10s, 2m in [####------]`, or `None`
/// when no usual duration is known.
#[must_use]
pub fn format_progress(view: &TaskView) -> Option<String> {
    let usual = view.expected_ms?;
    let shown = |ms| format_duration(Duration::from_millis(ms));
    let long = if is_longer_than_p90(view) { ", longer than nine of ten runs" } else { "" };
    let bar = progress_bar(view.elapsed_ms, usual, PROGRESS_BAR_CELLS);
    Some(format!("{}, {} in{long} {bar}", shown(usual), shown(view.elapsed_ms)))
}

/// Returns whether the task already takes longer than nine of ten earlier runs.
fn is_longer_than_p90(view: &TaskView) -> bool {
    view.expected_p90_ms.is_some_and(|p90| view.elapsed_ms > p90)
}
