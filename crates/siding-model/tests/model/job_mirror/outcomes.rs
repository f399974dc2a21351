//! The true outcome of a task whose job has ended.

use siding_model::lifecycle::{Phase, StopIntent, StopReason};
use siding_model::mirror::JobEnd;
use siding_model::outcome::{LimitKind, Outcome};

/// Returns whether a task in this phase ends with this outcome when its job ends.
pub(super) fn is_true_outcome(
    outcome: &Outcome,
    end: &JobEnd,
    phase: &Phase,
    requester: Option<&str>,
) -> bool {
    if let (Phase::Starting { .. }, JobEnd::NotStarted { why }) = (phase, end) {
        return *outcome == Outcome::FailedToStart { error: why.clone() };
    }
    match phase {
        Phase::Ended { outcome: recorded, .. } => outcome == recorded,
        Phase::Lingering { ended } => *outcome == Outcome::from(ended.clone()),
        Phase::Starting { stop: Some(intent) }
        | Phase::Stopping { intent, .. }
        | Phase::Killing { intent, .. } => *outcome == intended_outcome(intent),
        Phase::Starting { stop: None } | Phase::Running { .. } => match end {
            JobEnd::Cancelled { by } => {
                let by = requester.unwrap_or(by).to_owned();
                *outcome == Outcome::Stopped { by }
            }
            JobEnd::TimeLimit => matches!(outcome, Outcome::Deadline { .. }),
            JobEnd::OutOfMemory => *outcome == Outcome::Limit { limit_kind: LimitKind::Memory },
            JobEnd::NotStarted { why } | JobEnd::Lost { why } => {
                *outcome == Outcome::Lost { why: why.clone() }
            }
        },
    }
}

/// Returns the outcome of a task that is being stopped.
fn intended_outcome(intent: &StopIntent) -> Outcome {
    match (&intent.earlier_leader_end, &intent.reason) {
        (Some(end), _) => end.clone().into(),
        (None, StopReason::Deadline { limit_ms }) => Outcome::Deadline { limit_ms: *limit_ms },
        (None, StopReason::Stop { by }) => Outcome::Stopped { by: by.clone() },
        (None, StopReason::Limit { limit_kind }) => Outcome::Limit { limit_kind: *limit_kind },
        (None, StopReason::LeaderExit) => panic!("the leader has ended"),
    }
}
