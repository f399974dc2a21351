//! Rules that can be checked on each step alone.

use siding_model::lifecycle::{LifecycleEffect, Phase, TaskEvent};
use siding_model::outcome::Placement;
use siding_model::process::MonotonicMs;
use siding_model::spec::TaskSpec;

use super::{RuleResult, has_no_stop_request, is_ended, require};
use crate::traced_lifecycle::TraceStep;

pub(super) fn record_first(turn: &TraceStep) -> RuleResult {
    let records = turn.effects.iter().filter(|effect| **effect == LifecycleEffect::Record).count();
    if turn.changed() {
        let first = turn.effects.first() == Some(&LifecycleEffect::Record);
        require(first && records == 1, || format!("a change with {:?}", turn.effects))
    } else {
        require(turn.effects.is_empty(), || format!("no change, and yet {:?}", turn.effects))
    }
}

pub(super) fn timers_progress(turn: &TraceStep) -> RuleResult {
    let timers = &turn.timers;
    require(timers.progress_now != Some(false), || {
        format!("the timer due at {:?} changes nothing in {:?}", turn.now, turn.after)
    })?;
    require(timers.progress_then != Some(false), || {
        format!("nothing happens at {:?} in {:?}", timers.wake_at, turn.after)
    })?;
    let is_due = timers.wake_at.is_some_and(|at| at <= turn.now);
    require(is_due == timers.progress_now.is_some(), || {
        format!("due at {:?}, now {:?}: {:?}", timers.wake_at, turn.now, timers.progress_now)
    })
}

pub(super) fn timers_are_set(turn: &TraceStep) -> RuleResult {
    let expected = match &turn.after.phase {
        Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => {
            Some(turn.after.deadline)
        }
        Phase::Stopping { kill_at, .. } => Some(*kill_at),
        // In these phases only an external event changes the state.
        Phase::Starting { stop: Some(_) } | Phase::Killing { .. } | Phase::Ended { .. } => None,
    };
    require(turn.timers.wake_at == expected, || {
        format!("wakes at {:?}, not {expected:?}, in {:?}", turn.timers.wake_at, turn.after)
    })
}

pub(super) fn deadline_stays_below_cap(turn: &TraceStep, spec: &TaskSpec) -> RuleResult {
    let (before, after) = (turn.before.deadline, turn.after.deadline);
    let cap = MonotonicMs(spec.cap_ms);
    require(before <= cap && after <= cap, || format!("{after:?} is beyond the cap {cap:?}"))?;
    if before == after {
        return Ok(());
    }
    let asked =
        matches!(turn.event, TaskEvent::Extended { deadline, .. } if deadline.min(cap) == after);
    require(asked, || format!("moved to {after:?} by {:?}", turn.event))?;
    require(after >= turn.now, || format!("moved to {after:?}, before {:?}", turn.now))?;
    require(has_no_stop_request(&turn.before.phase), || format!("moved in {:?}", turn.before.phase))
}

pub(super) fn background_once(turn: &TraceStep) -> RuleResult {
    let (before, after) = (turn.before.placement, turn.after.placement);
    let movable = before == Placement::Foreground && !is_ended(&turn.before.phase);
    let expected = if let (TaskEvent::Placed { why }, true) = (&turn.event, movable) {
        Placement::Background { why: *why }
    } else {
        before
    };
    require(after == expected, || {
        format!("{:?} in {:?} moved {before:?} to {after:?}", turn.event, turn.before.phase)
    })
}
