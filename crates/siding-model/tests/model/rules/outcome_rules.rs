//! Rules about the outcome: an ended task has exactly one outcome, which an event reported and
//! which never changes.

use siding_model::lifecycle::{LifecycleEffect, Phase, TaskEvent};
use siding_model::outcome::{LeaderEnd, Outcome};
use siding_model::process::MonotonicMs;

use super::{RuleResult, is_ended, require};
use crate::traced_lifecycle::{Trace, TraceStep};

/// Returns the outcome and the leader's end, if the task ended.
fn final_outcome(trace: &Trace) -> Option<(&Outcome, Option<&LeaderEnd>)> {
    trace.steps.iter().find_map(|turn| match &turn.after.phase {
        Phase::Ended { outcome, leader } => Some((outcome, leader.as_ref())),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => None,
    })
}

pub(super) fn end_is_final(trace: &Trace) -> RuleResult {
    for (number, turn) in trace.steps.iter().enumerate() {
        let closes =
            turn.effects.iter().filter(|effect| **effect == LifecycleEffect::Close).count();
        if is_ended(&turn.before.phase) {
            require(turn.before.phase == turn.after.phase && turn.effects.is_empty(), || {
                format!("turn {number}: after the end {:?} {:?}", turn.after, turn.effects)
            })?;
        } else {
            let expected = usize::from(is_ended(&turn.after.phase));
            require(closes == expected, || {
                format!("turn {number}: {closes} times closed on the way to {:?}", turn.after.phase)
            })?;
        }
    }
    Ok(())
}

pub(super) fn outcome_was_observed(trace: &Trace) -> RuleResult {
    let Some((outcome, leader)) = final_outcome(trace) else { return Ok(()) };
    let any_step = |found: &dyn Fn(&TraceStep) -> bool| trace.steps.iter().any(found);
    let leader_told = |end: &LeaderEnd| {
        any_step(&|turn| {
            turn.records_leader_end()
                && matches!(&turn.event, TaskEvent::LeaderEnded { end: seen, .. } if seen == end)
        })
    };
    require(leader.is_none_or(leader_told), || {
        format!("no event reported the leader's end {leader:?}")
    })?;
    let seen = match outcome {
        Outcome::Exited { code } => leader_told(&LeaderEnd::Exited { code: *code }),
        Outcome::Signaled { signal, by } => {
            leader_told(&LeaderEnd::Signaled { signal: *signal, by: by.clone() })
        }
        Outcome::Deadline { limit_ms } => any_step(&|turn| {
            let passed =
                turn.event == TaskEvent::DeadlinePassed && turn.now >= turn.before.deadline;
            passed && turn.before.deadline == MonotonicMs(*limit_ms) && turn.changed()
        }),
        Outcome::Stopped { by } => any_step(
            &|turn| matches!(&turn.event, TaskEvent::StopAsked { by: asker, .. } if asker == by),
        ),
        Outcome::FailedToStart { error } => any_step(
            &|turn| matches!(&turn.event, TaskEvent::SpawnFailed { error: recorded, .. } if recorded == error),
        ),
        Outcome::Released { by } => any_step(&|turn| {
            matches!(&turn.event, TaskEvent::Released { by: recorded } if recorded == by)
                && matches!(turn.before.phase, Phase::Running { .. } | Phase::Lingering { .. })
        }),
        Outcome::Lost { why } => {
            let vanished = any_step(
                &|turn| matches!(&turn.event, TaskEvent::Vanished { why: recorded } if recorded == why),
            );
            vanished || leader_told(&LeaderEnd::Unknown { why: why.clone() })
        }
        Outcome::Limit { limit_kind } => any_step(&|turn| {
            turn.event == TaskEvent::LimitPassed { limit_kind: *limit_kind } && turn.changed()
        }),
        // `Outcome` is `#[non_exhaustive]`, but the events of these tests lead to no other outcome.
        _ => false,
    };
    require(seen, || format!("no event reported {outcome:?}"))
}

pub(super) fn first_asker_is_named(trace: &Trace) -> RuleResult {
    let (Some((outcome, _)), Some(first)) =
        (final_outcome(trace), trace.steps.iter().find(|turn| turn.requests_end()))
    else {
        return Ok(());
    };
    let named = match (outcome, &first.event) {
        (Outcome::Stopped { by }, TaskEvent::StopAsked { by: asker, .. }) => by == asker,
        (Outcome::Deadline { limit_ms }, TaskEvent::DeadlinePassed) => {
            first.before.deadline == MonotonicMs(*limit_ms)
        }
        (Outcome::Limit { limit_kind }, TaskEvent::LimitPassed { limit_kind: passed }) => {
            limit_kind == passed
        }
        (Outcome::Stopped { .. } | Outcome::Deadline { .. } | Outcome::Limit { .. }, _) => false,
        _ => true,
    };
    require(named, || format!("{:?} was first, and yet {outcome:?}", first.event))
}

pub(super) fn own_end_stays(trace: &Trace) -> RuleResult {
    let first = trace.steps.iter().find(|turn| turn.requests_end() || turn.records_leader_end());
    let (Some((outcome, leader)), Some(first)) = (final_outcome(trace), first) else {
        return Ok(());
    };
    if matches!(outcome, Outcome::Released { .. }) {
        // Processes of a released task may be alive, so the leader's end need not be the outcome.
        return Ok(());
    }
    if let TaskEvent::LeaderEnded { end, .. } = &first.event {
        let own = *outcome == Outcome::from(end.clone()) && leader == Some(end);
        return require(own, || format!("{end:?} came first, and yet {outcome:?} with {leader:?}"));
    }
    // Conversely, a stop is never reported as the leader's own end.
    let own = matches!(outcome, Outcome::Exited { .. } | Outcome::Signaled { .. });
    require(!own, || format!("{:?} came first, and yet {outcome:?}", first.event))
}

pub(super) fn one_outcome_per_instant(trace: &Trace) -> RuleResult {
    let at_once = |turn: &TraceStep| {
        let same = trace.steps.iter().filter(|other| other.now == turn.now);
        same.filter(|other| other.requests_end()).count() > 1
    };
    if !trace.steps.iter().any(at_once) {
        return Ok(());
    }
    let mut outcomes: Vec<&Outcome> = Vec::new();
    for turn in &trace.steps {
        if let Phase::Ended { outcome, .. } = &turn.after.phase
            && !outcomes.contains(&outcome)
        {
            outcomes.push(outcome);
        }
    }
    let closes = trace.steps.iter().flat_map(|turn| &turn.effects);
    let closes = closes.filter(|effect| **effect == LifecycleEffect::Close).count();
    require(outcomes.len() == closes && closes <= 1, || {
        format!("closed {closes} times, with {outcomes:?}")
    })
}
