//! Rules about asking a task to end, and about killing it.

use std::time::Duration;

use siding_model::lifecycle::{Effect, Event, Phase};
use siding_model::process::Mono;
use siding_model::spec::{OnLeaderExit, TaskSpec};

use super::{Verdict, is_ended, is_free, require};
use crate::machine::{Trace, Turn};

pub(super) fn no_early_kill(trace: &Trace) -> Verdict {
    for (number, turn) in trace.turns.iter().enumerate() {
        if !turn.effects.contains(&Effect::Kill) {
            continue;
        }
        let so_far = &trace.turns[..number];
        let asked = (0..number).filter_map(|ask| grace_over(so_far, ask, &trace.spec));
        let allowed = asked.min();
        require(allowed.is_some_and(|at| turn.now >= at), || {
            format!("turn {number}: killed at {:?}, allowed from {allowed:?}", turn.now)
        })?;
    }
    Ok(())
}

/// Returns when the grace is over that turn number `ask` began, if it began one.
fn grace_over(turns: &[Turn], ask: usize, spec: &TaskSpec) -> Option<Mono> {
    let turn = &turns[ask];
    let reaps = spec.on_leader_exit == OnLeaderExit::Reap;
    let grace_ms = if turn.asks_for_the_end() {
        asked_grace_ms(turn, spec).unwrap_or(spec.grace_ms)
    } else if reaps && matches!(turn.event, Event::LeaderEnded { .. }) {
        spec.grace_ms
    } else {
        return None;
    };
    // The grace begins when there is somebody to ask: a task that starts has to start first.
    let begins = turns[ask..]
        .iter()
        .find(|turn| !matches!(turn.after.phase, Phase::Starting { .. }))
        .map_or(turn.now, |turn| turn.now);
    Some(begins.plus_ms(grace_ms).min(latest_kill(begins, turn.before.deadline, spec)))
}

/// Returns the grace that a person asked for in this turn, if one asked to stop.
fn asked_grace_ms(turn: &Turn, spec: &TaskSpec) -> Option<u64> {
    let Event::StopAsked { grace_ms, .. } = turn.event else { return None };
    Some(grace_ms.unwrap_or(spec.grace_ms))
}

/// Returns when a task would be killed at the latest if its deadline did it.
fn latest_kill(now: Mono, deadline: Mono, spec: &TaskSpec) -> Mono {
    now.max(deadline).plus_ms(spec.grace_ms)
}

pub(super) fn stop_is_kept(trace: &Trace) -> Verdict {
    let mut asked = false;
    for (number, turn) in trace.turns.iter().enumerate() {
        asked |= turn.asks_for_the_end();
        require(!(asked && is_free(&turn.after.phase)), || {
            format!("turn {number}: asked to end, and yet {:?}", turn.after.phase)
        })?;
        asked_aloud(turn).map_err(|why| format!("turn {number}: {why}"))?;
    }
    Ok(())
}

/// The tree is sent the signal of the one who asked, once, as soon as there is a tree.
fn asked_aloud(turn: &Turn) -> Verdict {
    let before = matches!(turn.before.phase, Phase::Stopping { .. });
    let sent: Vec<&Effect> =
        turn.effects.iter().filter(|effect| matches!(effect, Effect::Signal(_))).collect();
    if let (Phase::Stopping { intent, .. }, false) = (&turn.after.phase, before) {
        let expected = Effect::Signal(intent.signal);
        require(sent == [&expected], || format!("sent {sent:?} for {intent:?}"))
    } else {
        require(sent.is_empty(), || format!("sent {sent:?} in {:?}", turn.after.phase))
    }
}

pub(super) fn second_stop_shortens(turn: &Turn, spec: &TaskSpec) -> Verdict {
    let new_grace = asked_grace_ms(turn, spec);
    match (&turn.before.phase, &turn.after.phase) {
        (
            Phase::Stopping { intent: first, kill_at: before, .. },
            Phase::Stopping { intent, kill_at: after, .. },
        ) => {
            let asked = new_grace.map_or(*before, |grace| turn.now.plus_ms(grace));
            require(*after == asked.min(*before), || {
                format!("{:?} moved the kill from {before:?} to {after:?}", turn.event)
            })?;
            require(
                (&first.reason, first.signal, &first.natural)
                    == (&intent.reason, intent.signal, &intent.natural),
                || format!("{first:?} became {intent:?}"),
            )
        }
        (Phase::Starting { stop: Some(first) }, Phase::Starting { stop: Some(intent) }) => {
            let asked = new_grace.map_or(first.grace, Duration::from_millis);
            require(intent.grace == asked.min(first.grace), || {
                format!("{:?} made {:?} of {:?}", turn.event, intent.grace, first.grace)
            })?;
            require(first.reason == intent.reason, || format!("{first:?} became {intent:?}"))
        }
        (
            Phase::Stopping { intent: first, .. } | Phase::Starting { stop: Some(first) },
            Phase::Stopping { intent, .. } | Phase::Killing { intent, .. },
        ) => require(first == intent, || format!("{first:?} became {intent:?}")),
        _ => Ok(()),
    }
}

pub(super) fn stop_is_no_extension(turn: &Turn, spec: &TaskSpec) -> Verdict {
    match (&turn.before.phase, &turn.after.phase) {
        // Later turns only ever move the kill forward: `SecondStopShortens`.
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

pub(super) fn leader_is_part_of_the_tree(trace: &Trace) -> Verdict {
    let mut known = false;
    for (number, turn) in trace.turns.iter().enumerate() {
        known |= turn.takes_leader_end();
        let early = turn.event == Event::TreeEmpty && !known;
        require(!(early && turn.changed()), || {
            format!("turn {number}: an empty tree changed {:?}", turn.before.phase)
        })?;
        // Once the leader's end is known it does end what only waits for it.
        let lingers = matches!(turn.before.phase, Phase::Lingering { .. });
        let ends = lingers && turn.event == Event::TreeEmpty;
        require(!ends || is_ended(&turn.after.phase), || {
            format!("turn {number}: an empty tree left {:?}", turn.after.phase)
        })?;
    }
    Ok(())
}
