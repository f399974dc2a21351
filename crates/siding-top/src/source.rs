//! Converts the tasks of the read model to groups and rows of the list.

use std::time::Duration;

use siding_live::arrange::{self, GroupKey, Grouping};
use siding_live::{LiveTask, LiveView};
use siding_model::advice::until_deadline;
use siding_model::evidence::AttentionView;
use siding_model::outcome::Outcome;
use siding_model::person_need::PersonNeed;
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::session_host::SessionHost;
use siding_model::task_view::{PhaseName, TaskView};
use siding_model::text::one_line;

use crate::list::{ListGroup, ListOptions, TaskTotals};
use crate::row::{RowState, TaskRow};

/// Maximum width of the last line of output in a reason.
const PROMPT_COLUMNS: usize = 60;

/// The present on the monotonic clock and on the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    pub(crate) awake: MonotonicMs,
    pub(crate) wall: UnixMs,
}

/// Filters, sorts and groups the tasks by the options of the list.
pub(crate) fn list_groups(view: &LiveView, options: &ListOptions) -> Vec<ListGroup> {
    let tasks = view.tasks().filter(|task| is_shown(task, options.hides_ended));
    let tasks = arrange::filter_tasks(tasks, &options.filter);
    let groups = arrange::group_tasks(tasks, options.grouping, options.sort);
    let title = |key: &GroupKey| {
        (options.grouping != Grouping::Flat).then(|| one_line(key.title(), usize::MAX))
    };
    groups
        .into_iter()
        .map(|group| ListGroup {
            title: title(&group.key),
            tasks: group.tasks.iter().map(|task| task.id()).collect(),
        })
        .collect()
}

/// Returns whether the list shows a task. An ended task that needs a person is never hidden.
const fn is_shown(task: &LiveTask, hides_ended: bool) -> bool {
    !hides_ended || task.is_live() || task.need.is_some()
}

/// Counts all tasks.
pub(crate) fn count_tasks(view: &LiveView) -> TaskTotals {
    let mut totals = TaskTotals::default();
    for task in view.tasks() {
        totals.needing += usize::from(task.need.is_some());
        let total = match task.view.outcome {
            Some(_) => &mut totals.ended,
            None if task.view.queued.is_some() => &mut totals.queued,
            None => &mut totals.running,
        };
        *total += 1;
    }
    totals
}

/// Returns the row of one task.
pub(crate) fn task_row(live: &LiveView, task: &LiveTask, now: Present) -> TaskRow {
    let view = &task.view;
    let usage = task.usage.as_ref().filter(|_| task.is_live());
    let deadline = until_deadline(view, now.wall);
    TaskRow {
        id: view.task_id,
        title: view.title().into_owned(),
        command: view.command.clone(),
        session: view.session_id.clone(),
        host: live.session_host(&view.session_id).map_or("", SessionHost::label),
        state: row_state(task),
        state_text: state_text(task),
        started: MonotonicMs(now.awake.0.saturating_sub(view.state_time_ms())),
        final_elapsed_ms: view.outcome.is_some().then_some(view.elapsed_ms),
        // The time in a queue is not a part of the duration of the command.
        expected_ms: view.expected_ms.filter(|_| view.queued.is_none()),
        silent_since: task.silent_since(),
        reason: reason(task),
        cpu_percent: usage.and_then(|usage| usage.cpu_percent),
        memory_bytes: usage.map(|usage| usage.memory_bytes),
        processes: usage.map(siding_live::TaskUsage::process_count),
        ports: usage.map(|usage| usage.ports.clone()).unwrap_or_default(),
        output_rate: usage.and_then(|usage| usage.output_rate),
        unread_notices: task.unread_notices,
        is_adopted: view.adopted,
        has_terminal: view.terminal.is_some(),
        output_path: view.output.path.clone(),
        is_unsupervised: task.need == Some(PersonNeed::Unsupervised),
        deadline: deadline.map(|left| now.awake.plus_ms(to_millis(left))),
    }
}

fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn row_state(task: &LiveTask) -> RowState {
    if task.need.is_some() {
        return RowState::NeedsPerson;
    }
    match &task.view.outcome {
        Some(outcome) => RowState::Ended(outcome.group()),
        None if task.view.unreachable.is_some() => RowState::Unreachable,
        None => match task.view.phase {
            PhaseName::Starting | PhaseName::Running => RowState::Running,
            PhaseName::Lingering => RowState::Lingering,
            PhaseName::Stopping | PhaseName::Ended => RowState::Stopping,
        },
    }
}

fn state_text(task: &LiveTask) -> String {
    let text = match (task.need, &task.view.outcome) {
        (Some(PersonNeed::Action), _) => "needs you",
        (Some(PersonNeed::Unsupervised), _) => "no shim",
        (Some(PersonNeed::Deadline), _) => "ends soon",
        (Some(PersonNeed::Limit), _) => "over limit",
        (_, Some(outcome)) => return outcome.short_text(),
        (_, None) => task.view.live_state(),
    };
    text.to_owned()
}

/// Returns the reason why a task is silent or needs a person, or another note about the task; may
/// be empty.
fn reason(task: &LiveTask) -> String {
    let view = &task.view;
    if let Some(machine) = &task.other_machine {
        return format!("runs on {machine}");
    }
    if task.need == Some(PersonNeed::Unsupervised) {
        return format!("its shim was killed; `siding show {}` repairs it", view.task_id);
    }
    match (&view.outcome, &view.attention) {
        (Some(outcome @ (Outcome::FailedToStart { .. } | Outcome::Lost { .. })), _) => {
            outcome.to_string()
        }
        (Some(_), _) => String::new(),
        (None, Some(attention)) => silence_reason(task, attention),
        (None, None) => running_reason(view),
    }
}

fn running_reason(view: &TaskView) -> String {
    if let Some(unreachable) = &view.unreachable {
        return unreachable.why.clone();
    }
    if let Some(queued) = &view.queued {
        return queued.describe(None);
    }
    if let Some(breach) = view.breaches.last() {
        return breach.detail.clone();
    }
    match &view.leader_outcome {
        Some(outcome) if view.phase == PhaseName::Lingering => {
            format!("its command {outcome}, processes are left")
        }
        Some(_) | None => String::new(),
    }
}

/// Returns the verdict about a silent task, with the question that the task asks if it waits for
/// input.
fn silence_reason(task: &LiveTask, attention: &AttentionView) -> String {
    let phrase = attention.verdict.phrase(attention.waiting_on, attention.awaited_input);
    let asked = task.stall().filter(|_| attention.verdict.asks_for_input());
    match asked.map(|stall| one_line(stall.evidence.tail.trim(), PROMPT_COLUMNS)) {
        Some(question) if !question.is_empty() => format!("{phrase}: \"{question}\""),
        Some(_) | None => phrase.to_owned(),
    }
}

#[cfg(test)]
mod tests;
