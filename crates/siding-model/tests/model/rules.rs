//! The rules of a life. Each looks at a whole history and says what is wrong with it.

mod outcome_rules;
mod step_rules;
mod stop_rules;

use siding_model::lifecycle::{Phase, TaskEvent};

use crate::traced_lifecycle::{Trace, TraceStep};

/// What a rule says: nothing, or how it was broken.
pub(crate) type RuleResult = Result<(), String>;

/// What must hold in every history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A change is recorded before it is acted on, and nothing is done without a change.
    RecordFirst,
    /// A due timer makes progress, so the shell cannot spin; and none is forgotten.
    TimersProgress,
    /// A timer is set, and at the right moment, wherever time alone changes something.
    TimersAreSet,
    /// The core reads no clock: the same history at another time of day is the same history. So
    /// suspend counts exactly as much as the clock that is passed in says, which is not at all.
    OnlyDifferencesCount,
    /// The deadline never exceeds the cap, and moves only when somebody moves it, before any end
    /// was asked for, and never into the past.
    DeadlineStaysBelowCap,
    /// A task moves to the background at most once, never back, and never after its end.
    BackgroundOnce,
    /// No kill before the grace is over.
    NoEarlyKill,
    /// A request to stop is never forgotten, also not while the task starts.
    StopIsKept,
    /// A second request may shorten the grace, never stretch it; the first reason stays.
    SecondStopShortens,
    /// A stop never lets a task live longer than its deadline would have.
    StopIsNoExtension,
    /// An empty tree means nothing while the leader's end is unknown: the leader is part of it.
    LeaderIsPartOfTheTree,
    /// The end is final, and announced exactly once.
    EndIsFinal,
    /// The outcome is never made up: somebody told it.
    OutcomeWasSeen,
    /// The first who asked for the end is named, be it a person or the deadline.
    FirstAskerIsNamed,
    /// The leader's own end, when it came before any decision, stays the outcome.
    OwnEndStays,
    /// A stop, the deadline and the hand-over in one instant give one outcome.
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

    /// Judges a history.
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

/// Judges every turn, and tells which one broke the rule.
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

    /// Whether somebody asks for the end of a task that has not ended: a person, a limit, or the
    /// deadline once it has passed.
    fn requests_end(&self) -> bool {
        let passed = self.event == TaskEvent::DeadlinePassed && self.now >= self.before.deadline;
        let asked =
            matches!(self.event, TaskEvent::StopAsked { .. } | TaskEvent::LimitPassed { .. });
        (passed || asked) && !is_ended(&self.before.phase)
    }

    /// Whether the leader's end was taken in.
    fn records_leader_end(&self) -> bool {
        matches!(self.event, TaskEvent::LeaderEnded { .. }) && self.changed()
    }
}

fn is_ended(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended { .. })
}

/// Whether nobody has asked for the end yet.
fn has_no_stop_request(phase: &Phase) -> bool {
    match phase {
        Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => true,
        Phase::Starting { stop: Some(_) }
        | Phase::Stopping { .. }
        | Phase::Killing { .. }
        | Phase::Ended { .. } => false,
    }
}
