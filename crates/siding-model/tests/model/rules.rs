//! The rules of the lifecycle. Each rule checks the trace of a complete history.

mod outcome_rules;
mod step_rules;
mod stop_rules;

use siding_model::lifecycle::{Phase, TaskEvent};

use crate::traced_lifecycle::{Trace, TraceStep};

/// `Ok` if the rule holds, otherwise a description of the first violation.
pub(crate) type RuleResult = Result<(), String>;

/// A property of the lifecycle that must hold in every history, whatever events arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A change is recorded before any other effect, and there are no effects without a change.
    RecordFirst,
    /// The event of a due timer changes the state, so that a shim cannot spin, and every timer has
    /// such an event.
    TimersProgress,
    /// A timer is set for the right time in every phase that the passage of time ends.
    TimersAreSet,
    /// The lifecycle depends only on differences of times: a history has the same result with any
    /// start time.
    OnlyDifferencesCount,
    /// The deadline never exceeds the cap. The deadline moves only on request, never into the past,
    /// and not once a stop was requested.
    DeadlineStaysBelowCap,
    /// A task moves to the background at most once, never back, and never after its end.
    BackgroundOnce,
    /// No kill occurs before the grace period has passed.
    NoEarlyKill,
    /// A stop request is never lost, even if it arrives while the task starts.
    StopIsKept,
    /// A second stop request can shorten the grace, and then replaces the signal, but it can neither
    /// extend the grace nor replace the first reason.
    SecondStopShortens,
    /// A stop never lets a task live longer than its deadline would have.
    StopIsNoExtension,
    /// An empty tree does not end a task whose leader's end is unknown, because the leader is part
    /// of the tree.
    LeaderIsPartOfTheTree,
    /// The end is final, and it is announced exactly once.
    EndIsFinal,
    /// The outcome was reported by an event.
    OutcomeWasSeen,
    /// The outcome names the first cause of the end: a requester, a limit or the deadline.
    FirstAskerIsNamed,
    /// The leader's own end is the outcome if it preceded every decision to stop the task.
    OwnEndStays,
    /// A stop, the deadline and the hand-over at the same time lead to a single outcome.
    OneOutcomeInOneInstant,
}

impl Rule {
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

    /// Checks the rule in a history.
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

/// Checks every step, and reports the first step that violates the rule.
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

    /// Whether the step decides to stop a task that has not ended: by a stop request, a limit, or a
    /// passed deadline.
    fn requests_end(&self) -> bool {
        let passed = self.event == TaskEvent::DeadlinePassed && self.now >= self.before.deadline;
        let asked =
            matches!(self.event, TaskEvent::StopAsked { .. } | TaskEvent::LimitPassed { .. });
        (passed || asked) && !is_ended(&self.before.phase)
    }

    /// Whether the step recorded the leader's end.
    fn records_leader_end(&self) -> bool {
        matches!(self.event, TaskEvent::LeaderEnded { .. }) && self.changed()
    }
}

fn is_ended(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended { .. })
}

/// Whether the phase can occur only before a stop request.
fn has_no_stop_request(phase: &Phase) -> bool {
    match phase {
        Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => true,
        Phase::Starting { stop: Some(_) }
        | Phase::Stopping { .. }
        | Phase::Killing { .. }
        | Phase::Ended { .. } => false,
    }
}
