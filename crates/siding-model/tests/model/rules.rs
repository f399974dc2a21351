//! The rules of the lifecycle. Each rule examines a complete history and describes the violation
//! that it finds.

mod outcome_rules;
mod step_rules;
mod stop_rules;

use siding_model::lifecycle::{Phase, TaskEvent};

use crate::traced_lifecycle::{Trace, TraceStep};

/// The result of a rule: success, or a description of the violation.
pub(crate) type RuleResult = Result<(), String>;

/// A property that must hold in every history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A change is recorded before any other effect, and an event that changes nothing has no
    /// effects.
    RecordFirst,
    /// A due timer makes progress, so that a shim cannot spin, and no timer is lost.
    TimersProgress,
    /// A timer is set, at the right time, wherever the passage of time alone changes something.
    TimersAreSet,
    /// The lifecycle reads no clock: a history behaves the same at any start time. Time in suspend
    /// has no effect, because the caller's clock does not advance then.
    OnlyDifferencesCount,
    /// The deadline never exceeds the cap. The deadline moves only on request, before any stop was
    /// requested, and never into the past.
    DeadlineStaysBelowCap,
    /// A task moves to the background at most once, never back, and never after its end.
    BackgroundOnce,
    /// No kill occurs before the grace period has passed.
    NoEarlyKill,
    /// A stop request is never lost, even while the task starts.
    StopIsKept,
    /// A second request may shorten the grace but never extend it; the first reason is kept.
    SecondStopShortens,
    /// A stop never lets a task live longer than its deadline would have.
    StopIsNoExtension,
    /// An empty tree is no end while the leader's end is unknown, because the leader is part of the
    /// tree.
    LeaderIsPartOfTheTree,
    /// The end is final, and it is announced exactly once.
    EndIsFinal,
    /// An event reported the outcome.
    OutcomeWasSeen,
    /// The outcome names the first requester of the end, which may be a person or the deadline.
    FirstAskerIsNamed,
    /// The leader's own end remains the outcome if it preceded every stop decision.
    OwnEndStays,
    /// A stop, the deadline and the hand-over at the same time give a single outcome.
    OneOutcomeInOneInstant,
}

impl Rule {
    /// Every rule.
    pub(crate) const ALL: [Self; 16] = [
        Self::RecordFirst,
        Self::TimersProgress,
        Self::TimersAreSet,
        Self::OnlyDifferencesCount,
        Self::DeadlineStaysBelowCap,
        Self::BackgroundOnce,
        Self::NoEarlyKill,
        Self::StopIsKept,
        Self::SecondStopShortens,
        Self::StopIsNoExtension,
        Self::LeaderIsPartOfTheTree,
        Self::EndIsFinal,
        Self::OutcomeWasSeen,
        Self::FirstAskerIsNamed,
        Self::OwnEndStays,
        Self::OneOutcomeInOneInstant,
    ];

    /// Checks a history.
    pub(crate) fn check(self, trace: &Trace) -> RuleResult {
        match self {
            Self::RecordFirst => check_every_step(trace, step_rules::record_first),
            Self::TimersProgress => check_every_step(trace, step_rules::timers_progress),
            Self::TimersAreSet => check_every_step(trace, step_rules::timers_are_set),
            Self::OnlyDifferencesCount => time_shift_invariant(trace),
            Self::DeadlineStaysBelowCap => check_every_step(trace, |turn| {
                step_rules::deadline_stays_below_cap(turn, &trace.spec)
            }),
            Self::BackgroundOnce => check_every_step(trace, step_rules::background_once),
            Self::NoEarlyKill => stop_rules::no_early_kill(trace),
            Self::StopIsKept => stop_rules::stop_is_kept(trace),
            Self::SecondStopShortens => {
                check_every_step(trace, |turn| stop_rules::second_stop_shortens(turn, &trace.spec))
            }
            Self::StopIsNoExtension => {
                check_every_step(trace, |turn| stop_rules::stop_is_no_extension(turn, &trace.spec))
            }
            Self::LeaderIsPartOfTheTree => stop_rules::leader_is_part_of_the_tree(trace),
            Self::EndIsFinal => outcome_rules::end_is_final(trace),
            Self::OutcomeWasSeen => outcome_rules::outcome_was_observed(trace),
            Self::FirstAskerIsNamed => outcome_rules::first_asker_is_named(trace),
            Self::OwnEndStays => outcome_rules::own_end_stays(trace),
            Self::OneOutcomeInOneInstant => outcome_rules::one_outcome_per_instant(trace),
        }
    }
}

/// Checks every step, and reports the first one that violates the rule.
fn check_every_step(trace: &Trace, rule: impl Fn(&TraceStep) -> RuleResult) -> RuleResult {
    let mut numbered = trace.steps.iter().enumerate();
    numbered
        .try_for_each(|(number, turn)| rule(turn).map_err(|why| format!("turn {number}: {why}")))
}

fn require(holds: bool, why: impl FnOnce() -> String) -> RuleResult {
    if holds { Ok(()) } else { Err(why()) }
}

fn time_shift_invariant(trace: &Trace) -> RuleResult {
    let here_and_there = trace.steps.iter().zip(&trace.shifted_steps);
    for (number, (here, there)) in here_and_there.enumerate() {
        require(here == there, || {
            format!("turn {number}: {here:#?} at another time of day is {there:#?}")
        })?;
    }
    require(trace.steps.len() == trace.shifted_steps.len(), || {
        "a timer fired at one time of day only".to_owned()
    })
}

impl TraceStep {
    fn changed(&self) -> bool {
        self.before != self.after
    }

    /// Returns whether the step requests the end of a task that has not ended: a person, a limit,
    /// or the deadline after it has passed.
    fn requests_end(&self) -> bool {
        let passed = self.event == TaskEvent::DeadlinePassed && self.now >= self.before.deadline;
        let asked =
            matches!(self.event, TaskEvent::StopAsked { .. } | TaskEvent::LimitPassed { .. });
        (passed || asked) && !is_ended(&self.before.phase)
    }

    /// Returns whether the step recorded the leader's end.
    fn records_leader_end(&self) -> bool {
        matches!(self.event, TaskEvent::LeaderEnded { .. }) && self.changed()
    }
}

fn is_ended(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended { .. })
}

/// Returns whether the phase is one before any stop request.
fn has_no_stop_request(phase: &Phase) -> bool {
    match phase {
        Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => true,
        Phase::Starting { stop: Some(_) }
        | Phase::Stopping { .. }
        | Phase::Killing { .. }
        | Phase::Ended { .. } => false,
    }
}
