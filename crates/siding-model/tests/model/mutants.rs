//! Lives that are broken on purpose, one thing each, and the rule that must notice.
//!
//! A rule that no mutant violates is decoration. To add a rule, add a mutant here: a test insists.

use std::fmt::Debug;
use std::marker::PhantomData;

use siding_model::lifecycle::{Effect, Event, Life, Phase, Reason};
use siding_model::outcome::{LeaderEnd, Outcome, Placement};
use siding_model::process::Mono;
use siding_model::spec::TaskSpec;

use crate::history::{self, Story};
use crate::lifecycle::some_stories;
use crate::machine::{Machine, View, run};
use crate::rules::Rule;

/// One thing that is wrong. Whatever is not overridden is right.
trait Fault: Clone + Debug + 'static {
    fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
        life.step(event, now)
    }
    fn due(life: &Life, now: Mono) -> Option<Event> {
        life.due(now)
    }
    fn wake_at(life: &Life) -> Option<Mono> {
        life.wake_at()
    }
    /// Alters what is seen of the life, knowing everything that it was told.
    fn distort(_view: &mut View, _told: &[(Event, Mono)]) {}
}

/// A life with a fault.
#[derive(Debug, Clone)]
struct Broken<F> {
    life: Life,
    told: Vec<(Event, Mono)>,
    fault: PhantomData<F>,
}

impl<F: Fault> Machine for Broken<F> {
    fn begin(spec: &TaskSpec, started: Mono) -> Self {
        Self { life: Life::new(spec, started), told: Vec::new(), fault: PhantomData }
    }

    fn step(&self, event: &Event, now: Mono) -> (Self, Vec<Effect>) {
        let (life, effects) = F::step(&self.life, event, now);
        let told = self.told.iter().cloned().chain([(event.clone(), now)]).collect();
        (Self { life, told, fault: PhantomData }, effects)
    }

    fn due(&self, now: Mono) -> Option<Event> {
        F::due(&self.life, now)
    }

    fn wake_at(&self) -> Option<Mono> {
        F::wake_at(&self.life)
    }

    fn view(&self) -> View {
        let mut view = self.life.view();
        F::distort(&mut view, &self.told);
        view
    }
}

fn unchanged(life: &Life) -> (Life, Vec<Effect>) {
    (life.clone(), Vec::new())
}

/// Returns who asked to stop and with which grace, oldest first.
fn stops(told: &[(Event, Mono)]) -> impl DoubleEndedIterator<Item = (&String, Option<u64>, Mono)> {
    told.iter().filter_map(|(event, at)| {
        let Event::StopAsked { by, grace_ms, .. } = event else { return None };
        Some((by, *grace_ms, *at))
    })
}

/// Declares mutants: a name, the rule it breaks, and the overridden functions.
macro_rules! mutants {
    ($($(#[$doc:meta])+ $name:ident breaks $rule:ident { $($body:item)* })+) => {
        $($(#[$doc])+ #[derive(Debug, Clone)] struct $name;
        impl Fault for $name { $($body)* })+

        /// Every mutant: its name, the rule that must notice, and how the rule finds it.
        const MUTANTS: &[(&str, Rule, fn(Rule, &[Story]) -> bool)] =
            &[$((stringify!($name), Rule::$rule, is_caught::<$name>)),+];
    };
}

mutants! {
    /// Acts before anything is on record.
    ActsUnrecorded breaks RecordFirst {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            let (next, mut effects) = life.step(event, now);
            effects.reverse();
            (next, effects)
        }
    }
    /// Writes a record of what changed nothing, which a reader calls corruption.
    RecordsNothing breaks RecordFirst {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            let (next, effects) = life.step(event, now);
            if next == *life { (next, vec![Effect::Record]) } else { (next, effects) }
        }
    }
    /// Tells of the deadline where the grace is over, for ever.
    SpinsOnTheDeadline breaks TimersProgress {
        fn due(life: &Life, now: Mono) -> Option<Event> {
            life.due(now).map(|_| Event::DeadlinePassed)
        }
    }
    /// Is one millisecond late, so a shell that slept until then sleeps again for no time.
    WakesTooEarly breaks TimersProgress {
        fn due(life: &Life, now: Mono) -> Option<Event> {
            life.due(Mono(now.0 - 1))
        }
    }
    /// Sets no timer for the kill.
    SleepsThroughTheGrace breaks TimersAreSet {
        fn wake_at(life: &Life) -> Option<Mono> {
            let stopping = matches!(life.phase(), Phase::Stopping { .. });
            life.wake_at().filter(|_| !stopping)
        }
        fn due(life: &Life, now: Mono) -> Option<Event> {
            Self::wake_at(life).and_then(|_| life.due(now))
        }
    }
    /// Takes the time of day for something that matters.
    RoundsTheClock breaks OnlyDifferencesCount {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            life.step(event, Mono(now.0 / 16 * 16))
        }
    }
    /// Believes every extension.
    ObeysAnyExtension breaks DeadlineStaysBelowCap {
        fn distort(view: &mut View, told: &[(Event, Mono)]) {
            if let Some((Event::Extended { deadline }, _)) = told.last() {
                view.deadline = *deadline;
            }
        }
    }
    /// Lets a later reason take the place of the first.
    MovesTwice breaks BackgroundOnce {
        fn distort(view: &mut View, told: &[(Event, Mono)]) {
            if let (Some((Event::Placed { why }, _)), false) =
                (told.last(), matches!(view.phase, Phase::Ended { .. }))
            {
                view.placement = Placement::Background { why: *why };
            }
        }
    }
    /// Comes back to the foreground when it ends.
    ComesBack breaks BackgroundOnce {
        fn distort(view: &mut View, _: &[(Event, Mono)]) {
            if matches!(view.phase, Phase::Ended { .. }) {
                view.placement = Placement::Foreground;
            }
        }
    }
    /// Moves what has ended.
    MovesTheDead breaks BackgroundOnce {
        fn distort(view: &mut View, told: &[(Event, Mono)]) {
            if let (Some((Event::Placed { why }, _)), Phase::Ended { .. }) =
                (told.last(), &view.phase)
            {
                view.placement = Placement::Background { why: *why };
            }
        }
    }
    /// Kills as soon as somebody says that the grace is over.
    KillsEarly breaks NoEarlyKill {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            let now = if *event == Event::GraceOver { Mono(u64::MAX) } else { now };
            life.step(event, now)
        }
    }
    /// Drops a stop that comes before the leader is known.
    ForgetsEarlyStops breaks StopIsKept {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            match (life.phase(), event) {
                (Phase::Starting { .. }, Event::StopAsked { .. }) => unchanged(life),
                _ => life.step(event, now),
            }
        }
    }
    /// Remembers an early stop and never tells the task.
    StopsInSilence breaks StopIsKept {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            let (next, mut effects) = life.step(event, now);
            if matches!(event, Event::Spawned { .. }) {
                effects.retain(|effect| !matches!(effect, Effect::Signal(_)));
            }
            (next, effects)
        }
    }
    /// Gives every new asker a grace of his own.
    StretchesTheGrace breaks SecondStopShortens {
        fn distort(view: &mut View, told: &[(Event, Mono)]) {
            if let (Phase::Stopping { intent, kill_at, .. }, Some((_, grace, at))) =
                (&mut view.phase, stops(told).last())
            {
                let own = u64::try_from(intent.grace.as_millis()).expect("graces here are short");
                *kill_at = (*kill_at).max(at.plus_ms(grace.unwrap_or(own)));
            }
        }
    }
    /// Hears only the first stop, however urgent the second is.
    IgnoresASecondStop breaks SecondStopShortens {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            match (life.phase(), event) {
                (Phase::Stopping { .. }, Event::StopAsked { .. }) => unchanged(life),
                _ => life.step(event, now),
            }
        }
    }
    /// The same, for a task that starts.
    IgnoresASecondEarlyStop breaks SecondStopShortens {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            match (life.phase(), event) {
                (Phase::Starting { stop: Some(_) }, Event::StopAsked { .. }) => unchanged(life),
                _ => life.step(event, now),
            }
        }
    }
    /// Lets whoever stops a task with a long grace keep it alive beyond its deadline.
    StopsToLive breaks StopIsNoExtension {
        fn distort(view: &mut View, told: &[(Event, Mono)]) {
            if let (Phase::Stopping { kill_at, .. }, Some((_, Some(grace), at))) =
                (&mut view.phase, stops(told).next())
            {
                *kill_at = at.plus_ms(grace);
            }
        }
    }
    /// Takes an empty tree for the end of everything.
    EndsWithoutItsLeader breaks LeaderIsPartOfTheTree {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            match (life.phase(), event) {
                (Phase::Stopping { ended: None, .. }, Event::TreeEmpty) => {
                    life.step(&Event::Vanished { why: "empty".to_owned() }, now)
                }
                _ => life.step(event, now),
            }
        }
    }
    /// Says goodbye twice.
    ClosesTwice breaks EndIsFinal {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            let (next, effects) = life.step(event, now);
            let again = life.is_ended() && *event == Event::TreeEmpty;
            (next, if again { vec![Effect::Record, Effect::Close] } else { effects })
        }
    }
    /// Ends without telling anybody.
    NeverCloses breaks EndIsFinal {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            let (next, mut effects) = life.step(event, now);
            effects.retain(|effect| *effect != Effect::Close);
            (next, effects)
        }
    }
    /// Folds a signal into an exit code.
    CallsASignalAnExit breaks OutcomeWasSeen {
        fn distort(view: &mut View, _: &[(Event, Mono)]) {
            if let Phase::Ended { outcome, .. } = &mut view.phase
                && let Outcome::Signaled { signal, .. } = outcome
            {
                let number = u8::try_from(signal.number()).expect("signals are small");
                *outcome = Outcome::Exited { code: 128 + number };
            }
        }
    }
    /// Gives what nobody saw the code 0.
    CallsTheUnknownASuccess breaks OutcomeWasSeen {
        fn distort(view: &mut View, _: &[(Event, Mono)]) {
            if let Phase::Ended { outcome, leader } = &mut view.phase
                && matches!(outcome, Outcome::Lost { .. })
            {
                *outcome = Outcome::Exited { code: 0 };
                *leader = Some(LeaderEnd::Exited { code: 0 });
            }
        }
    }
    /// Believes whoever says that the deadline has passed.
    BelievesInAnyDeadline breaks OutcomeWasSeen {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            let early = *event == Event::DeadlinePassed;
            life.step(event, if early { now.max(life.deadline()) } else { now })
        }
    }
    /// Names the last who asked.
    NamesTheLastAsker breaks FirstAskerIsNamed {
        fn distort(view: &mut View, told: &[(Event, Mono)]) {
            if let (Phase::Ended { outcome: Outcome::Stopped { by }, .. }, Some((last, _, _))) =
                (&mut view.phase, stops(told).last())
            {
                by.clone_from(last);
            }
        }
    }
    /// Prefers the deadline to a person when both come in one instant.
    PrefersTheDeadline breaks FirstAskerIsNamed {
        fn step(life: &Life, event: &Event, now: Mono) -> (Life, Vec<Effect>) {
            let passed = matches!(event, Event::StopAsked { .. }) && now >= life.deadline();
            life.step(if passed { &Event::DeadlinePassed } else { event }, now)
        }
    }
    /// Says that a stop ended what had long ended by itself.
    TakesCreditForTheEnd breaks OwnEndStays {
        fn distort(view: &mut View, told: &[(Event, Mono)]) {
            if let (Phase::Ended { outcome, leader: Some(_) }, Some((by, _, _))) =
                (&mut view.phase, stops(told).next())
            {
                *outcome = Outcome::Stopped { by: by.clone() };
            }
        }
    }
    /// Calls a task that was stopped and then exited one that exited.
    DeniesTheStop breaks OwnEndStays {
        fn distort(view: &mut View, _: &[(Event, Mono)]) {
            if let Phase::Ended { outcome, leader: Some(end) } = &mut view.phase {
                *outcome = Outcome::from(end.clone());
            }
        }
    }
    /// Has another outcome as soon as another reason is told, also after the end.
    ChangesItsMind breaks OneOutcomeInOneInstant {
        fn distort(view: &mut View, told: &[(Event, Mono)]) {
            if let (Phase::Ended { outcome: outcome @ Outcome::Stopped { .. }, .. }, true) =
                (&mut view.phase, told.last().is_some_and(|(event, _)| *event == Event::TreeEmpty))
            {
                *outcome = Outcome::Deadline { limit_ms: 0 };
            }
        }
    }
    /// Forgets the first reason when a second comes while it stops.
    ReplacesTheReason breaks SecondStopShortens {
        fn distort(view: &mut View, told: &[(Event, Mono)]) {
            if let (Phase::Stopping { intent, .. }, Some((by, _, _))) =
                (&mut view.phase, stops(told).last())
            {
                intent.reason = Reason::Stop { by: by.clone() };
            }
        }
    }
}

/// Nothing is wrong with it: what the wrapper itself adds must break no rule.
#[derive(Debug, Clone)]
struct Nothing;
impl Fault for Nothing {}

/// Whether the rule notices the fault in any of these histories.
fn is_caught<F: Fault>(rule: Rule, stories: &[Story]) -> bool {
    stories.iter().any(|story| rule.judge(&run::<Broken<F>>(story)).is_err())
}

fn stories(random: usize) -> Vec<Story> {
    let mut stories = history::same_instant();
    stories.extend(some_stories(random));
    stories
}

#[test]
fn every_mutant_is_caught_by_its_rule() {
    let stories = stories(1_500);
    let escaped: Vec<_> = MUTANTS
        .iter()
        .filter(|(_, rule, is_caught)| !is_caught(*rule, &stories))
        .map(|(name, rule, _)| format!("{name} escapes {rule:?}"))
        .collect();
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[test]
fn every_rule_has_a_mutant() {
    let stories = stories(100);
    for rule in Rule::ALL {
        assert!(MUTANTS.iter().any(|(_, broken, _)| *broken == rule), "{rule:?} is decoration");
        assert!(!is_caught::<Nothing>(rule, &stories), "{rule:?} finds fault with what has none");
    }
}
