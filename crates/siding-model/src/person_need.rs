//! Decides whether a task needs a person, and why.

use std::time::Duration;

use serde::Serialize;

use crate::advice::is_deadline_near;
use crate::outcome::{Outcome, OutcomeGroup};
use crate::process::UnixMs;
use crate::task_view::TaskView;

/// Why a task needs a person, the most urgent reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PersonNeed {
    /// The task waits for an answer, or a signal has stopped a process of it.
    Action,
    /// The shim of the task was killed, so nothing enforces the deadline.
    /// [`for_task`](Self::for_task) never returns this reason, which no record contains.
    Unsupervised,
    /// The task will be stopped at its deadline soon.
    Deadline,
    /// The task exceeded a limit or a watchdog's threshold.
    Limit,
    /// The task failed, and its end was not shown yet.
    UnreadFailure,
}

impl PersonNeed {
    /// Returns the reason why a task needs a person, or `None` if it does not. `is_unread` says
    /// whether the end of an ended task was not shown to a person yet. A deadline is near if at
    /// most `deadline_notice` is left.
    #[must_use]
    pub fn for_task(
        view: &TaskView,
        is_unread: bool,
        now: UnixMs,
        deadline_notice: Duration,
    ) -> Option<Self> {
        if let Some(outcome) = &view.outcome {
            return (is_unread && is_failed_outcome(outcome)).then_some(Self::UnreadFailure);
        }
        let needs_action = view.attention.as_ref().is_some_and(|attention| {
            attention.verdict.asks_for_input() || attention.verdict.needs_action()
        });
        if needs_action {
            Some(Self::Action)
        } else if is_deadline_near(view, now, deadline_notice) {
            Some(Self::Deadline)
        } else {
            (!view.breaches.is_empty()).then_some(Self::Limit)
        }
    }
}

/// Returns whether a task with this outcome ended neither with exit code 0 nor on request.
#[must_use]
pub const fn is_failed_outcome(outcome: &Outcome) -> bool {
    matches!(outcome.group(), OutcomeGroup::Failed)
}
