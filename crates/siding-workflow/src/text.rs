//! Formats the output of the runner: a line for each start and each end of an attempt, the last
//! lines of a failed step's output, and lines about a stop and about the result.

use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::id::TaskId;
use siding_model::process::UnixMs;
use siding_model::text::{make_visible, one_line};

use super::load::LoadedWorkflow;
use super::record::{StepEnd, WorkflowVerdict};
use super::step_status::StepStatus;

/// Maximum width, in columns, of a line about a step or a stop request.
const LINE_COLUMNS: usize = 80;
/// Maximum width, in columns, of a line with the reason of a failure. The limit is high, so that a
/// long reason, such as a list of the known executors, keeps the part that says what to do.
const REASON_COLUMNS: usize = 600;
/// Maximum number of lines shown from the end of a failed step's output.
const MAX_OUTPUT_LINES: usize = 10;
/// Width, in columns, of the field for the word at the start of a line.
const WORD: usize = 8;

/// Formats the line about the start of an attempt.
pub(super) fn format_step_started(id: &str, attempt: u32, attempts: u32, task: TaskId) -> String {
    // Lost and stopped attempts are not counted as failures, so a resumed step may start more
    // attempts than the limit.
    let attempts = attempts.max(attempt);
    let attempt =
        if attempt > 1 { format!(", attempt {attempt} of {attempts}") } else { String::new() };
    format_line("begins", &format!("{id}  {task}{attempt}"))
}

/// Formats the line about the end of an attempt.
pub(super) fn format_step_ended(
    id: &str,
    end: &StepEnd,
    took_ms: u64,
    is_tried_again: bool,
) -> String {
    let took = format_duration(Duration::from_millis(took_ms));
    let again = if is_tried_again { "; it will be retried" } else { "" };
    match end {
        StepEnd::Ok => format_line("ok", &format!("{id}  after {took}")),
        StepEnd::Failed { why, .. } => {
            format_reason("failed", &format!("{id}  {why} after {took}{again}"))
        }
        StepEnd::Stopped => format_line("stopped", &format!("{id}  after {took}")),
        StepEnd::Lost { why } => format_reason("lost", &format!("{id}  {why}{again}")),
    }
}

/// Formats the last lines of a failed step's output.
pub(super) fn format_output_tail(output: &str) -> String {
    let shown = make_visible(output);
    let lines: Vec<&str> = shown.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(MAX_OUTPUT_LINES)..];
    last.iter().map(|line| format!("    | {line}\n")).collect()
}

/// Formats the line about a stop request.
pub(super) fn format_stopping(by: &str) -> String {
    format_line("stopping", &format!("by {by}"))
}

/// Formats the line about a step whose stop was requested, and whose end is still unknown when the
/// runner ends.
pub(super) fn format_stop_not_confirmed(id: &str, task: TaskId, why: &str) -> String {
    format_line("pending", &format!("{id}  {task} was asked to stop, not confirmed: {why}"))
}

/// Formats the line about the end of the workflow.
pub(super) fn format_result(
    workflow: &LoadedWorkflow,
    verdict: WorkflowVerdict,
    now: UnixMs,
) -> String {
    let states = workflow.state.step_statuses();
    let words = [
        StepStatus::Ok,
        StepStatus::Failed,
        StepStatus::Skipped,
        StepStatus::Stopped,
        StepStatus::NotRun,
        StepStatus::Waiting,
        StepStatus::Running,
    ];
    let counts = words.into_iter().filter_map(|word| {
        let count = states.iter().filter(|state| **state == word).count();
        (count > 0).then(|| format!("{count} {}", word.as_str().replace('_', " ")))
    });
    let counts: Vec<String> = counts.collect();
    let took = format_duration(Duration::from_millis(ms_between(workflow.started_at, now)));
    format!("workflow {} in {took}: {}\n", verdict.as_str(), counts.join(", "))
}

/// Returns the milliseconds between two times; zero if the clock was set back.
pub(super) fn ms_between(from: UnixMs, to: UnixMs) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0)
}

fn format_line(word: &str, rest: &str) -> String {
    format!("{word:<WORD$}  {}\n", one_line(rest, LINE_COLUMNS - WORD - 2))
}

fn format_reason(word: &str, rest: &str) -> String {
    format!("{word:<WORD$}  {}\n", one_line(rest, REASON_COLUMNS - WORD - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_failure_is_not_cut() {
        let why =
            format!("no executor has the name `x`; the known names are: {}", "`b`, ".repeat(30));
        let end = StepEnd::Failed { why: why.clone(), again: false };
        let line = format_step_ended("a", &end, 3, false);
        assert!(line.contains(why.trim_end()) && line.ends_with(" after 3ms\n"), "{line}");
    }
}
