//! Rules about stop requests: they are not lost, do not extend a task's life, and are followed by a
//! kill in time.

use std::time::Duration;

use siding_model::lifecycle::{LifecycleEffect, Phase, TaskEvent};
use siding_model::process::MonotonicMs;
use siding_model::signal::Signal;
use siding_model::spec::{OnLeaderExit, TaskSpec};

use super::{RuleResult, has_no_stop_request, is_ended, require};
use crate::traced_lifecycle::{Trace, TraceStep};

pub(super) fn no_early_kill(trace: &Trace) -> RuleResult {
    for (number, turn) in trace.steps.iter().enumerate() {
        if !turn.effects.contains(&LifecycleEffect::Kill) {
            continue;
        }
        let so_far = &trace.steps[..number];
        let asked = (0..number).filter_map(|ask| grace_end(so_far, ask, &trace.spec));
        let allowed = asked.min();
        require(allowed.is_some_and(|at| turn.now >= at), || {
            format!("turn {number}: killed at {:?}, allowed from {allowed:?}", turn.now)
        })?;
    }
    Ok(())
}

/// Returns the end of the grace period that step number `ask` started; `None` if that step started
/// none.
fn grace_end(turns: &[TraceStep], ask: usize, spec: &TaskSpec) -> Option<MonotonicMs> {
    let turn = &turns[ask];
    let reaps = spec.on_leader_exit == OnLeaderExit::Reap;
    let grace_ms = if turn.requests_end() {
        requested_grace_ms(turn, spec).unwrap_or(spec.grace_ms)
    } else if reaps && matches!(turn.event, TaskEvent::LeaderEnded { .. }) {
        spec.grace_ms
    } else {
        return None;
    };
    // The grace starts with the signal, and a task in `Starting` has no process to which a signal
    // could be sent.
    let begins = turns[ask..]
        .iter()
        .find(|turn| !matches!(turn.after.phase, Phase::Starting { .. }))
        .map_or(turn.now, |turn| turn.now);
    Some(begins.plus_ms(grace_ms).min(latest_kill(begins, turn.before.deadline, spec)))
}

/// Returns the grace that this step requests, in milliseconds; `None` if the step is not a stop
/// request.
fn requested_grace_ms(turn: &TraceStep, spec: &TaskSpec) -> Option<u64> {
    let TaskEvent::StopAsked { grace_ms, .. } = turn.event else { return None };
    Some(grace_ms.unwrap_or(spec.grace_ms))
}

/// Returns the signal that this step requests; `None` if the step is not a stop request.
fn requested_signal(turn: &TraceStep, spec: &TaskSpec) -> Option<Signal> {
    let TaskEvent::StopAsked { signal, .. } = turn.event else { return None };
    Some(signal.unwrap_or(spec.signal))
}

/// Returns the latest time at which a task with this deadline may be killed after a stop at `now`.
fn latest_kill(now: MonotonicMs, deadline: MonotonicMs, spec: &TaskSpec) -> MonotonicMs {
    now.max(deadline).plus_ms(spec.grace_ms)
}

pub(super) fn stop_is_kept(trace: &Trace) -> RuleResult {
    let mut asked = false;
    for (number, turn) in trace.steps.iter().enumerate() {
        asked |= turn.requests_end();
        require(!(asked && has_no_stop_request(&turn.after.phase)), || {
            format!("turn {number}: asked to end, and yet {:?}", turn.after.phase)
        })?;
        sends_its_signal(turn).map_err(|why| format!("turn {number}: {why}"))?;
    }
    Ok(())
}

/// Checks that the tree receives each stop signal exactly once: the first as soon as the leader has
/// started, and another one when a request replaces it.
fn sends_its_signal(turn: &TraceStep) -> RuleResult {
    let before = match &turn.before.phase {
        Phase::Stopping { intent, .. } => Some(intent.signal),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Killing { .. }
        | Phase::Ended { .. } => None,
    };
    let sent: Vec<&LifecycleEffect> =
        turn.effects.iter().filter(|effect| matches!(effect, LifecycleEffect::Signal(_))).collect();
    if let Phase::Stopping { intent, .. } = &turn.after.phase
        && before != Some(intent.signal)
    {
        let expected = LifecycleEffect::Signal(intent.signal);
        require(sent == [&expected], || format!("sent {sent:?} for {intent:?}"))
    } else {
        require(sent.is_empty(), || format!("sent {sent:?} in {:?}", turn.after.phase))
    }
}

pub(super) fn second_stop_shortens(turn: &TraceStep, spec: &TaskSpec) -> RuleResult {
    let new_grace = requested_grace_ms(turn, spec);
    let new_signal = requested_signal(turn, spec);
    match (&turn.before.phase, &turn.after.phase) {
        (
            Phase::Stopping { intent: first, kill_at: before, .. },
            Phase::Stopping { intent, kill_at: after, .. },
        ) => {
            let asked = new_grace.map_or(*before, |grace| turn.now.plus_ms(grace));
            require(*after == asked.min(*before), || {
                format!("{:?} moved the kill from {before:?} to {after:?}", turn.event)
            })?;
            let signal = new_signal.filter(|_| after < before).unwrap_or(first.signal);
            require(
                (&first.reason, signal, &first.earlier_leader_end)
                    == (&intent.reason, intent.signal, &intent.earlier_leader_end),
                || format!("{first:?} became {intent:?}"),
            )
        }
        (Phase::Starting { stop: Some(first) }, Phase::Starting { stop: Some(intent) }) => {
            let asked = new_grace.map_or(first.grace, Duration::from_millis);
            require(intent.grace == asked.min(first.grace), || {
                format!("{:?} made {:?} of {:?}", turn.event, intent.grace, first.grace)
            })?;
            let is_shorter = intent.grace < first.grace;
            let signal = new_signal.filter(|_| is_shorter).unwrap_or(first.signal);
            require((&first.reason, signal) == (&intent.reason, intent.signal), || {
                format!("{first:?} became {intent:?}")
            })
        }
        (
            Phase::Stopping { intent: first, .. } | Phase::Starting { stop: Some(first) },
            Phase::Stopping { intent, .. } | Phase::Killing { intent, .. },
        ) => require(first == intent, || format!("{first:?} became {intent:?}")),
        _ => Ok(()),
    }
}

pub(super) fn stop_is_no_extension(turn: &TraceStep, spec: &TaskSpec) -> RuleResult {
    match (&turn.before.phase, &turn.after.phase) {
        // The rule `SecondStopShortens` checks that later steps do not extend the time to the kill.
        (Phase::Stopping { .. }, _) => Ok(()),
        (_, Phase::Stopping { kill_at, .. }) => {
            let latest = latest_kill(turn.now, turn.before.deadline, spec);
            require(*kill_at <= latest, || {
                format!("killed only at {kill_at:?}, the deadline would have at {latest:?}")
            })
        }
        _ => Ok(()),
    }
}

pub(super) fn leader_is_part_of_the_tree(trace: &Trace) -> RuleResult {
    let mut known = false;
    for (number, turn) in trace.steps.iter().enumerate() {
        known |= turn.records_leader_end();
        let early = turn.event == TaskEvent::TreeEmpty && !known;
        require(!(early && turn.changed()), || {
            format!("turn {number}: an empty tree changed {:?}", turn.before.phase)
        })?;
        // An empty tree does end a lingering task, whose leader's end is known.
        let lingers = matches!(turn.before.phase, Phase::Lingering { .. });
        let ends = lingers && turn.event == TaskEvent::TreeEmpty;
        require(!ends || is_ended(&turn.after.phase), || {
            format!("turn {number}: an empty tree left {:?}", turn.after.phase)
        })?;
    }
    Ok(())
}
