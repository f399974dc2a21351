//! Rules about the end: it is one, it is final, and it is true.

use siding_model::lifecycle::{Effect, Event, Phase};
use siding_model::outcome::{LeaderEnd, Outcome};
use siding_model::process::Mono;

use super::{Verdict, is_ended, require};
use crate::machine::{Trace, Turn};

/// Returns how the task ended, if it did: the outcome, and what is said of the leader.
fn end(trace: &Trace) -> Option<(&Outcome, Option<&LeaderEnd>)> {
    trace.turns.iter().find_map(|turn| match &turn.after.phase {
        Phase::Ended { outcome, leader } => Some((outcome, leader.as_ref())),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => None,
    })
}

pub(super) fn end_is_final(trace: &Trace) -> Verdict {
    for (number, turn) in trace.turns.iter().enumerate() {
        let closes = turn.effects.iter().filter(|effect| **effect == Effect::Close).count();
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

pub(super) fn was_seen(trace: &Trace) -> Verdict {
    let Some((outcome, leader)) = end(trace) else { return Ok(()) };
    let told = |found: &dyn Fn(&Turn) -> bool| trace.turns.iter().any(found);
    let leader_told = |end: &LeaderEnd| {
        told(&|turn| {
            turn.takes_leader_end()
                && matches!(&turn.event, Event::LeaderEnded { end: seen, .. } if seen == end)
        })
    };
    require(leader.is_none_or(leader_told), || format!("nobody saw the leader end {leader:?}"))?;
    let seen = match outcome {
        Outcome::Exited { code } => leader_told(&LeaderEnd::Exited { code: *code }),
        Outcome::Signaled { signal, by } => {
            leader_told(&LeaderEnd::Signaled { signal: *signal, by: by.clone() })
        }
        Outcome::Deadline { limit_ms } => told(&|turn| {
            let passed = turn.event == Event::DeadlinePassed && turn.now >= turn.before.deadline;
            passed && turn.before.deadline == Mono(*limit_ms) && turn.changed()
        }),
        Outcome::Stopped { by } => {
            told(&|turn| matches!(&turn.event, Event::StopAsked { by: asker, .. } if asker == by))
        }
        Outcome::FailedToStart { error } => told(
            &|turn| matches!(&turn.event, Event::SpawnFailed { error: told, .. } if told == error),
        ),
        Outcome::Released { by } => told(&|turn| {
            matches!(&turn.event, Event::Released { by: told } if told == by)
                && matches!(turn.before.phase, Phase::Running { .. } | Phase::Lingering { .. })
        }),
        Outcome::Lost { why } => {
            let vanished =
                told(&|turn| matches!(&turn.event, Event::Vanished { why: told } if told == why));
            vanished || leader_told(&LeaderEnd::Unknown { why: why.clone() })
        }
        Outcome::Limit { which } => {
            told(&|turn| turn.event == Event::LimitPassed { which: *which } && turn.changed())
        }
        // Nothing in the model says these yet.
        _ => false,
    };
    require(seen, || format!("nobody told of {outcome:?}"))
}

pub(super) fn first_asker_is_named(trace: &Trace) -> Verdict {
    let (Some((outcome, _)), Some(first)) =
        (end(trace), trace.turns.iter().find(|turn| turn.asks_for_the_end()))
    else {
        return Ok(());
    };
    let named = match (outcome, &first.event) {
        (Outcome::Stopped { by }, Event::StopAsked { by: asker, .. }) => by == asker,
        (Outcome::Deadline { limit_ms }, Event::DeadlinePassed) => {
            first.before.deadline == Mono(*limit_ms)
        }
        (Outcome::Limit { which }, Event::LimitPassed { which: passed }) => which == passed,
        (Outcome::Stopped { .. } | Outcome::Deadline { .. } | Outcome::Limit { .. }, _) => false,
        _ => true,
    };
    require(named, || format!("{:?} was first, and yet {outcome:?}", first.event))
}

pub(super) fn own_end_stays(trace: &Trace) -> Verdict {
    let first = trace.turns.iter().find(|turn| turn.asks_for_the_end() || turn.takes_leader_end());
    let (Some((outcome, leader)), Some(first)) = (end(trace), first) else { return Ok(()) };
    if matches!(outcome, Outcome::Released { .. }) {
        // Something of it lives, so that the leader's end is not that of the task.
        return Ok(());
    }
    if let Event::LeaderEnded { end, .. } = &first.event {
        let own = *outcome == Outcome::from(end.clone()) && leader == Some(end);
        return require(own, || format!("{end:?} came first, and yet {outcome:?} with {leader:?}"));
    }
    // And the other way round: an end that was asked for is never called the leader's own.
    let own = matches!(outcome, Outcome::Exited { .. } | Outcome::Signaled { .. });
    require(!own, || format!("{:?} came first, and yet {outcome:?}", first.event))
}

pub(super) fn one_in_one_instant(trace: &Trace) -> Verdict {
    let at_once = |turn: &Turn| {
        let same = trace.turns.iter().filter(|other| other.now == turn.now);
        same.filter(|other| other.asks_for_the_end()).count() > 1
    };
    if !trace.turns.iter().any(at_once) {
        return Ok(());
    }
    let mut outcomes: Vec<&Outcome> = Vec::new();
    for turn in &trace.turns {
        if let Phase::Ended { outcome, .. } = &turn.after.phase
            && !outcomes.contains(&outcome)
        {
            outcomes.push(outcome);
        }
    }
    let closes = trace.turns.iter().flat_map(|turn| &turn.effects);
    let closes = closes.filter(|effect| **effect == Effect::Close).count();
    require(outcomes.len() == closes && closes <= 1, || {
        format!("closed {closes} times, with {outcomes:?}")
    })
}
