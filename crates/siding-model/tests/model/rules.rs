//! The rules of a life. Each looks at a whole history and says what is wrong with it.

mod ending;
mod outcome;
mod turn;

use siding_model::lifecycle::{Event, Phase};

use crate::machine::{Trace, Turn};

/// What a rule says: nothing, or how it was broken.
pub(crate) type Verdict = Result<(), String>;

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
    pub(crate) fn judge(self, trace: &Trace) -> Verdict {
        match self {
            Self::RecordFirst => each(trace, turn::record_first),
            Self::TimersProgress => each(trace, turn::timers_progress),
            Self::TimersAreSet => each(trace, turn::timers_are_set),
            Self::OnlyDifferencesCount => only_differences_count(trace),
            Self::DeadlineStaysBelowCap => {
                each(trace, |turn| turn::deadline_stays_below_cap(turn, &trace.spec))
            }
            Self::BackgroundOnce => each(trace, turn::background_once),
            Self::NoEarlyKill => ending::no_early_kill(trace),
            Self::StopIsKept => ending::stop_is_kept(trace),
            Self::SecondStopShortens => {
                each(trace, |turn| ending::second_stop_shortens(turn, &trace.spec))
            }
            Self::StopIsNoExtension => {
                each(trace, |turn| ending::stop_is_no_extension(turn, &trace.spec))
            }
            Self::LeaderIsPartOfTheTree => ending::leader_is_part_of_the_tree(trace),
            Self::EndIsFinal => outcome::end_is_final(trace),
            Self::OutcomeWasSeen => outcome::was_seen(trace),
            Self::FirstAskerIsNamed => outcome::first_asker_is_named(trace),
            Self::OwnEndStays => outcome::own_end_stays(trace),
            Self::OneOutcomeInOneInstant => outcome::one_in_one_instant(trace),
        }
    }
}

/// Judges every turn, and tells which one broke the rule.
fn each(trace: &Trace, rule: impl Fn(&Turn) -> Verdict) -> Verdict {
    let mut numbered = trace.turns.iter().enumerate();
    numbered
        .try_for_each(|(number, turn)| rule(turn).map_err(|why| format!("turn {number}: {why}")))
}

fn require(holds: bool, why: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(why()) }
}

fn only_differences_count(trace: &Trace) -> Verdict {
    let here_and_there = trace.turns.iter().zip(&trace.elsewhen);
    for (number, (here, there)) in here_and_there.enumerate() {
        require(here == there, || {
            format!("turn {number}: {here:#?} at another time of day is {there:#?}")
        })?;
    }
    require(trace.turns.len() == trace.elsewhen.len(), || {
        "a timer fired at one time of day only".to_owned()
    })
}

impl Turn {
    fn changed(&self) -> bool {
        self.before != self.after
    }

    /// Whether somebody asks for the end of a task that has not ended: a person, a limit, or the
    /// deadline once it has passed.
    fn asks_for_the_end(&self) -> bool {
        let passed = self.event == Event::DeadlinePassed && self.now >= self.before.deadline;
        let asked = matches!(self.event, Event::StopAsked { .. } | Event::LimitPassed { .. });
        (passed || asked) && !is_ended(&self.before.phase)
    }

    /// Whether the leader's end was taken in.
    fn takes_leader_end(&self) -> bool {
        matches!(self.event, Event::LeaderEnded { .. }) && self.changed()
    }
}

fn is_ended(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended { .. })
}

/// Whether nobody has asked for the end yet.
fn is_free(phase: &Phase) -> bool {
    match phase {
        Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => true,
        Phase::Starting { stop: Some(_) }
        | Phase::Stopping { .. }
        | Phase::Killing { .. }
        | Phase::Ended { .. } => false,
    }
}
