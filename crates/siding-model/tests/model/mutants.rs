//! Mutants: lifecycles with one deliberate fault each, and the rule that must detect the fault.
//!
//! A rule that no mutant violates possibly checks nothing, so a test requires a mutant for every
//! rule.

use std::fmt::Debug;
use std::marker::PhantomData;

use siding_model::lifecycle::{Lifecycle, LifecycleEffect, Phase, StopReason, TaskEvent};
use siding_model::outcome::{LeaderEnd, Outcome, Placement};
use siding_model::process::MonotonicMs;
use siding_model::spec::TaskSpec;

use crate::lifecycle::deterministic_histories;
use crate::random_histories::{self, EventHistory};
use crate::rules::Rule;
use crate::traced_lifecycle::{LifecycleView, TracedLifecycle, trace_history};

/// A single fault in the lifecycle. A mutant overrides one or two functions; the default functions
/// are correct.
trait Fault: Clone + Debug + 'static {
    fn step(
        life: &Lifecycle,
        event: &TaskEvent,
        now: MonotonicMs,
    ) -> (Lifecycle, Vec<LifecycleEffect>) {
        life.step(event, now)
    }
    fn due_event(life: &Lifecycle, now: MonotonicMs) -> Option<TaskEvent> {
        life.due_event(now)
    }
    fn wake_at(life: &Lifecycle) -> Option<MonotonicMs> {
        life.wake_at()
    }
    /// Changes the state that the rules see, given all events so far.
    fn distort(_view: &mut LifecycleView, _told: &[(TaskEvent, MonotonicMs)]) {}
}

/// The real lifecycle with the functions of the fault `F` in front of it.
#[derive(Debug, Clone)]
struct FaultyLifecycle<F> {
    lifecycle: Lifecycle,
    events: Vec<(TaskEvent, MonotonicMs)>,
    fault: PhantomData<F>,
}

impl<F: Fault> TracedLifecycle for FaultyLifecycle<F> {
    fn start(spec: &TaskSpec, started: MonotonicMs) -> Self {
        Self { lifecycle: Lifecycle::new(spec, started), events: Vec::new(), fault: PhantomData }
    }

    fn step(&self, event: &TaskEvent, now: MonotonicMs) -> (Self, Vec<LifecycleEffect>) {
        let (life, effects) = F::step(&self.lifecycle, event, now);
        let events = self.events.iter().cloned().chain([(event.clone(), now)]).collect();
        (Self { lifecycle: life, events, fault: PhantomData }, effects)
    }

    fn due_event(&self, now: MonotonicMs) -> Option<TaskEvent> {
        F::due_event(&self.lifecycle, now)
    }

    fn wake_at(&self) -> Option<MonotonicMs> {
        F::wake_at(&self.lifecycle)
    }

    fn view(&self) -> LifecycleView {
        let mut view = self.lifecycle.view();
        F::distort(&mut view, &self.events);
        view
    }
}

fn unchanged(life: &Lifecycle) -> (Lifecycle, Vec<LifecycleEffect>) {
    (life.clone(), Vec::new())
}

/// Returns the requester, the grace in milliseconds and the time of each stop request, the oldest
/// first.
fn stop_requests(
    events: &[(TaskEvent, MonotonicMs)],
) -> impl DoubleEndedIterator<Item = (&String, Option<u64>, MonotonicMs)> {
    events.iter().filter_map(|(event, at)| {
        let TaskEvent::StopAsked { by, grace_ms, .. } = event else { return None };
        Some((by, *grace_ms, *at))
    })
}

/// Declares mutants: the name of each, the rule that it breaks, and the overridden functions.
macro_rules! mutants {
    ($($(#[$doc:meta])+ $name:ident breaks $rule:ident { $($body:item)* })+) => {
        $($(#[$doc])+ #[derive(Debug, Clone)] struct $name;
        impl Fault for $name { $($body)* })+

        /// All mutants: the name, the rule that must detect it, and the check.
        const MUTANTS: &[(&str, Rule, fn(Rule, &[EventHistory]) -> bool)] =
            &[$((stringify!($name), Rule::$rule, is_caught::<$name>)),+];
    };
}

mutants! {
    /// Acts on an event before it is recorded.
    ActsUnrecorded breaks RecordFirst {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            let (next, mut effects) = life.step(event, now);
            effects.reverse();
            (next, effects)
        }
    }
    /// Records an event without effect, which a replay rejects as corruption.
    RecordsNothing breaks RecordFirst {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            let (next, effects) = life.step(event, now);
            if next == *life { (next, vec![LifecycleEffect::Record]) } else { (next, effects) }
        }
    }
    /// Returns the event of the deadline when the grace period ends, which changes nothing, so the
    /// timer stays due.
    SpinsOnTheDeadline breaks TimersProgress {
        fn due_event(life: &Lifecycle, now: MonotonicMs) -> Option<TaskEvent> {
            life.due_event(now).map(|_| TaskEvent::DeadlinePassed)
        }
    }
    /// Returns a due event one millisecond late, so that a caller that wakes on time sleeps again
    /// for zero time.
    WakesTooEarly breaks TimersProgress {
        fn due_event(life: &Lifecycle, now: MonotonicMs) -> Option<TaskEvent> {
            life.due_event(MonotonicMs(now.0 - 1))
        }
    }
    /// Sets no timer for the end of the grace, so the kill never happens.
    SleepsThroughTheGrace breaks TimersAreSet {
        fn wake_at(life: &Lifecycle) -> Option<MonotonicMs> {
            let stopping = matches!(life.phase(), Phase::Stopping { .. });
            life.wake_at().filter(|_| !stopping)
        }
        fn due_event(life: &Lifecycle, now: MonotonicMs) -> Option<TaskEvent> {
            Self::wake_at(life).and_then(|_| life.due_event(now))
        }
    }
    /// Rounds the absolute time, so the behavior depends on when the machine was started.
    RoundsTheClock breaks OnlyDifferencesCount {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            life.step(event, MonotonicMs(now.0 / 16 * 16))
        }
    }
    /// Accepts every extension, even beyond the cap.
    ObeysAnyExtension breaks DeadlineStaysBelowCap {
        fn distort(view: &mut LifecycleView, events: &[(TaskEvent, MonotonicMs)]) {
            if let Some((TaskEvent::Extended { deadline, .. }, _)) = events.last() {
                view.deadline = *deadline;
            }
        }
    }
    /// Lets a later placement replace the first reason.
    MovesTwice breaks BackgroundOnce {
        fn distort(view: &mut LifecycleView, events: &[(TaskEvent, MonotonicMs)]) {
            if let (Some((TaskEvent::Placed { why }, _)), false) =
                (events.last(), matches!(view.phase, Phase::Ended { .. }))
            {
                view.placement = Placement::Background { why: *why };
            }
        }
    }
    /// Returns a task to the foreground when the task ends.
    ComesBack breaks BackgroundOnce {
        fn distort(view: &mut LifecycleView, _: &[(TaskEvent, MonotonicMs)]) {
            if matches!(view.phase, Phase::Ended { .. }) {
                view.placement = Placement::Foreground;
            }
        }
    }
    /// Moves an ended task to the background.
    MovesTheDead breaks BackgroundOnce {
        fn distort(view: &mut LifecycleView, events: &[(TaskEvent, MonotonicMs)]) {
            if let (Some((TaskEvent::Placed { why }, _)), Phase::Ended { .. }) =
                (events.last(), &view.phase)
            {
                view.placement = Placement::Background { why: *why };
            }
        }
    }
    /// Kills on any event that claims the end of the grace.
    KillsEarly breaks NoEarlyKill {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            let now = if *event == TaskEvent::GraceOver { MonotonicMs(u64::MAX) } else { now };
            life.step(event, now)
        }
    }
    /// Drops a stop request that arrives before the leader has started.
    ForgetsEarlyStops breaks StopIsKept {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            match (life.phase(), event) {
                (Phase::Starting { .. }, TaskEvent::StopAsked { .. }) => unchanged(life),
                _ => life.step(event, now),
            }
        }
    }
    /// Keeps an early stop request but never sends the signal.
    StopsInSilence breaks StopIsKept {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            let (next, mut effects) = life.step(event, now);
            if matches!(event, TaskEvent::Spawned { .. }) {
                effects.retain(|effect| !matches!(effect, LifecycleEffect::Signal(_)));
            }
            (next, effects)
        }
    }
    /// Restarts the grace with every stop request.
    StretchesTheGrace breaks SecondStopShortens {
        fn distort(view: &mut LifecycleView, events: &[(TaskEvent, MonotonicMs)]) {
            if let (Phase::Stopping { intent, kill_at, .. }, Some((_, grace, at))) =
                (&mut view.phase, stop_requests(events).last())
            {
                let own = u64::try_from(intent.grace.as_millis()).expect("short graces");
                *kill_at = (*kill_at).max(at.plus_ms(grace.unwrap_or(own)));
            }
        }
    }
    /// Ignores all stop requests after the first, even with a shorter grace.
    IgnoresASecondStop breaks SecondStopShortens {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            match (life.phase(), event) {
                (Phase::Stopping { .. }, TaskEvent::StopAsked { .. }) => unchanged(life),
                _ => life.step(event, now),
            }
        }
    }
    /// Ignores a second stop request while the task starts.
    IgnoresASecondEarlyStop breaks SecondStopShortens {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            match (life.phase(), event) {
                (Phase::Starting { stop: Some(_) }, TaskEvent::StopAsked { .. }) => unchanged(life),
                _ => life.step(event, now),
            }
        }
    }
    /// Lets a stop with a long grace keep the task alive beyond its deadline.
    StopsToLive breaks StopIsNoExtension {
        fn distort(view: &mut LifecycleView, events: &[(TaskEvent, MonotonicMs)]) {
            if let (Phase::Stopping { kill_at, .. }, Some((_, Some(grace), at))) =
                (&mut view.phase, stop_requests(events).next())
            {
                *kill_at = at.plus_ms(grace);
            }
        }
    }
    /// Treats an empty tree as the end although the leader's end is unknown.
    EndsWithoutItsLeader breaks LeaderIsPartOfTheTree {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            match (life.phase(), event) {
                (Phase::Stopping { ended: None, .. }, TaskEvent::TreeEmpty) => {
                    life.step(&TaskEvent::Vanished { why: "empty".to_owned() }, now)
                }
                _ => life.step(event, now),
            }
        }
    }
    /// Closes the task again if the tree is reported empty after the end.
    ClosesTwice breaks EndIsFinal {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            let (next, effects) = life.step(event, now);
            let again = life.is_ended() && *event == TaskEvent::TreeEmpty;
            (next, if again { vec![LifecycleEffect::Record, LifecycleEffect::Close] } else { effects })
        }
    }
    /// Ends the task without the effect `Close`, so no closing record is written.
    NeverCloses breaks EndIsFinal {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            let (next, mut effects) = life.step(event, now);
            effects.retain(|effect| *effect != LifecycleEffect::Close);
            (next, effects)
        }
    }
    /// Converts the end by a signal to an exit code, as shells do.
    CallsASignalAnExit breaks OutcomeWasSeen {
        fn distort(view: &mut LifecycleView, _: &[(TaskEvent, MonotonicMs)]) {
            if let Phase::Ended { outcome, .. } = &mut view.phase
                && let Outcome::Signaled { signal, .. } = outcome
            {
                let number = u8::try_from(signal.number()).expect("signal numbers are small");
                *outcome = Outcome::Exited { code: 128 + number };
            }
        }
    }
    /// Reports an unobserved end as exit code 0.
    CallsTheUnknownASuccess breaks OutcomeWasSeen {
        fn distort(view: &mut LifecycleView, _: &[(TaskEvent, MonotonicMs)]) {
            if let Phase::Ended { outcome, leader } = &mut view.phase
                && matches!(outcome, Outcome::Lost { .. })
            {
                *outcome = Outcome::Exited { code: 0 };
                *leader = Some(LeaderEnd::Exited { code: 0 });
            }
        }
    }
    /// Accepts a deadline event before the deadline.
    BelievesInAnyDeadline breaks OutcomeWasSeen {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            let early = *event == TaskEvent::DeadlinePassed;
            life.step(event, if early { life.deadline().max(Some(now)).unwrap_or(now) } else { now })
        }
    }
    /// Names the last requester of a stop instead of the first.
    NamesTheLastAsker breaks FirstAskerIsNamed {
        fn distort(view: &mut LifecycleView, events: &[(TaskEvent, MonotonicMs)]) {
            if let (Phase::Ended { outcome: Outcome::Stopped { by }, .. }, Some((last, _, _))) =
                (&mut view.phase, stop_requests(events).last())
            {
                by.clone_from(last);
            }
        }
    }
    /// Prefers the deadline to a stop request that is handled at the same time.
    PrefersTheDeadline breaks FirstAskerIsNamed {
        fn step(life: &Lifecycle, event: &TaskEvent, now: MonotonicMs) -> (Lifecycle, Vec<LifecycleEffect>) {
            let is_due = life.deadline().is_some_and(|deadline| now >= deadline);
            let passed = matches!(event, TaskEvent::StopAsked { .. }) && is_due;
            life.step(if passed { &TaskEvent::DeadlinePassed } else { event }, now)
        }
    }
    /// Reports a leader's own end as a stop that was requested later.
    TakesCreditForTheEnd breaks OwnEndStays {
        fn distort(view: &mut LifecycleView, events: &[(TaskEvent, MonotonicMs)]) {
            if let (Phase::Ended { outcome, leader: Some(_) }, Some((by, _, _))) =
                (&mut view.phase, stop_requests(events).next())
            {
                *outcome = Outcome::Stopped { by: by.clone() };
            }
        }
    }
    /// Reports a stopped task with the end of its leader as the outcome.
    DeniesTheStop breaks OwnEndStays {
        fn distort(view: &mut LifecycleView, _: &[(TaskEvent, MonotonicMs)]) {
            if let Phase::Ended { outcome, leader: Some(end) } = &mut view.phase {
                *outcome = Outcome::from(end.clone());
            }
        }
    }
    /// Changes the outcome when the tree is reported empty after the end.
    ChangesItsMind breaks OneOutcomeInOneInstant {
        fn distort(view: &mut LifecycleView, events: &[(TaskEvent, MonotonicMs)]) {
            if let (Phase::Ended { outcome: outcome @ Outcome::Stopped { .. }, .. }, true) =
                (&mut view.phase, events.last().is_some_and(|(event, _)| *event == TaskEvent::TreeEmpty))
            {
                *outcome = Outcome::Deadline { limit_ms: 0 };
            }
        }
    }
    /// Replaces the reason of a stop in progress with a later request.
    ReplacesTheReason breaks SecondStopShortens {
        fn distort(view: &mut LifecycleView, events: &[(TaskEvent, MonotonicMs)]) {
            if let (Phase::Stopping { intent, .. }, Some((by, _, _))) =
                (&mut view.phase, stop_requests(events).last())
            {
                intent.reason = StopReason::Stop { by: by.clone() };
            }
        }
    }
}

/// Overrides nothing, so that a lifecycle with it must break no rule.
#[derive(Debug, Clone)]
struct NoFault;
impl Fault for NoFault {}

/// Whether the rule detects the fault in any of these histories.
fn is_caught<F: Fault>(rule: Rule, histories: &[EventHistory]) -> bool {
    histories
        .iter()
        .any(|history| rule.check(&trace_history::<FaultyLifecycle<F>>(history)).is_err())
}

fn all_histories(random: usize) -> Vec<EventHistory> {
    let mut histories = random_histories::simultaneous_histories();
    histories.extend(deterministic_histories(random));
    histories
}

#[test]
fn every_mutant_is_detected_by_its_rule() {
    let histories = all_histories(1_500);
    let escaped: Vec<_> = MUTANTS
        .iter()
        .filter(|(_, rule, is_caught)| !is_caught(*rule, &histories))
        .map(|(name, rule, _)| format!("{name} escapes {rule:?}"))
        .collect();
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[test]
fn every_rule_has_a_mutant() {
    let histories = all_histories(100);
    for rule in Rule::ALL {
        assert!(MUTANTS.iter().any(|(_, broken, _)| *broken == rule), "{rule:?} has no mutant");
        assert!(!is_caught::<NoFault>(rule, &histories), "{rule:?} rejects the correct lifecycle");
    }
}
