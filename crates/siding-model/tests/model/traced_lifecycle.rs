//! Runs histories on a lifecycle and records every event, state and effect for the rules.
//!
//! [`TracedLifecycle`] is implemented by the real [`Lifecycle`] and by the mutants that break it.

use std::fmt::Debug;

use siding_model::lifecycle::{Lifecycle, LifecycleEffect, Phase, TaskEvent};
use siding_model::outcome::Placement;
use siding_model::process::MonotonicMs;
use siding_model::spec::TaskSpec;

use crate::random_histories::{EventHistory, StepAction};

/// The part of [`Lifecycle`] that histories drive and rules observe.
pub(crate) trait TracedLifecycle: Clone + Debug {
    fn start(spec: &TaskSpec, started: MonotonicMs) -> Self;
    /// Returns the lifecycle after an event, and the effects that the event requests.
    fn step(&self, event: &TaskEvent, now: MonotonicMs) -> (Self, Vec<LifecycleEffect>);
    /// Returns the event of a timer that is due at `now`.
    fn due_event(&self, now: MonotonicMs) -> Option<TaskEvent>;
    /// Returns the time at which the next timer is due.
    fn wake_at(&self) -> Option<MonotonicMs>;
    fn view(&self) -> LifecycleView;
}

impl TracedLifecycle for Lifecycle {
    fn start(spec: &TaskSpec, started: MonotonicMs) -> Self {
        Self::new(spec, started)
    }

    fn step(&self, event: &TaskEvent, now: MonotonicMs) -> (Self, Vec<LifecycleEffect>) {
        self.step(event, now)
    }

    fn due_event(&self, now: MonotonicMs) -> Option<TaskEvent> {
        self.due_event(now)
    }

    fn wake_at(&self) -> Option<MonotonicMs> {
        self.wake_at()
    }

    fn view(&self) -> LifecycleView {
        let (phase, placement) = (self.phase().clone(), self.placement());
        // The histories have no task whose deadline counts from the move to the background.
        let deadline = self.deadline().expect("the deadline counts from the start");
        LifecycleView { phase, placement, deadline }
    }
}

/// The complete visible state of a lifecycle. Two lifecycles of the same task with equal views are
/// equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LifecycleView {
    pub(crate) phase: Phase,
    pub(crate) placement: Placement,
    pub(crate) deadline: MonotonicMs,
}

/// The effect that the timers of a lifecycle would have after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimerStatus {
    /// Time at which the next timer is due; `None` if only an external event can change the state.
    pub(crate) wake_at: Option<MonotonicMs>,
    /// Whether the event of a timer that is due now changes the state; `None` if no timer is due.
    pub(crate) progress_now: Option<bool>,
    /// Whether the event of the next timer changes the state at the time at which the timer is due,
    /// or now if that time has passed; `None` if no timer is set.
    pub(crate) progress_then: Option<bool>,
}

/// An event with the states before and after it, and its effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceStep {
    pub(crate) now: MonotonicMs,
    pub(crate) event: TaskEvent,
    pub(crate) before: LifecycleView,
    pub(crate) after: LifecycleView,
    pub(crate) effects: Vec<LifecycleEffect>,
    pub(crate) timers: TimerStatus,
}

/// The steps of a complete history. All times are milliseconds since the start of the task.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) spec: TaskSpec,
    pub(crate) steps: Vec<TraceStep>,
    /// The same history on a lifecycle with another start time.
    pub(crate) shifted_steps: Vec<TraceStep>,
}

/// Two start times with an odd difference, so that a lifecycle that rounds times is detected.
const START_TIMES: [MonotonicMs; 2] = [MonotonicMs(1 << 20), MonotonicMs((1 << 20) + 999_983)];

/// Runs a history on two new lifecycles with different start times.
pub(crate) fn trace_history<M: TracedLifecycle>(history: &EventHistory) -> Trace {
    let [turns, elsewhen] = START_TIMES.map(|started| run_history::<M>(history, started));
    Trace { spec: history.spec.clone(), steps: turns, shifted_steps: elsewhen }
}

fn run_history<M: TracedLifecycle>(history: &EventHistory, started: MonotonicMs) -> Vec<TraceStep> {
    let mut machine = M::start(&history.spec, started);
    let mut now = started;
    let mut turns = Vec::new();
    for step in &history.steps {
        now = now.plus_ms(step.wait_ms);
        let event = match &step.action {
            StepAction::Deliver(event) => to_absolute(event, started),
            StepAction::SleepUntilTimer => {
                now = machine.wake_at().map_or(now, |at| at.max(now));
                let Some(event) = machine.due_event(now) else { continue };
                event
            }
        };
        let before = relative_view(machine.view(), started);
        let (next, effects) = machine.step(&event, now);
        machine = next;
        turns.push(TraceStep {
            now: MonotonicMs(now.ms_since(started)),
            event: to_relative(&event, started),
            before,
            after: relative_view(machine.view(), started),
            effects,
            timers: timer_status(&machine, now, started),
        });
    }
    turns
}

fn timer_status<M: TracedLifecycle>(
    machine: &M,
    now: MonotonicMs,
    started: MonotonicMs,
) -> TimerStatus {
    let progress = |at: MonotonicMs| {
        let event = machine.due_event(at)?;
        Some(machine.step(&event, at).0.view() != machine.view())
    };
    let wake_at = machine.wake_at();
    TimerStatus {
        wake_at: wake_at.map(|at| MonotonicMs(at.ms_since(started))),
        progress_now: progress(now),
        progress_then: wake_at.map(|at| progress(at.max(now)) == Some(true)),
    }
}

/// Converts the relative times in an event to the absolute times that a lifecycle expects.
fn to_absolute(event: &TaskEvent, started: MonotonicMs) -> TaskEvent {
    let mut event = event.clone();
    if let TaskEvent::Extended { deadline, .. } = &mut event {
        *deadline = started.plus_ms(deadline.0);
    }
    event
}

fn to_relative(event: &TaskEvent, started: MonotonicMs) -> TaskEvent {
    let mut event = event.clone();
    if let TaskEvent::Extended { deadline, .. } = &mut event {
        *deadline = MonotonicMs(deadline.ms_since(started));
    }
    event
}

fn relative_view(mut view: LifecycleView, started: MonotonicMs) -> LifecycleView {
    view.deadline = MonotonicMs(view.deadline.ms_since(started));
    if let Phase::Stopping { kill_at, .. } = &mut view.phase {
        *kill_at = MonotonicMs(kill_at.ms_since(started));
    }
    view
}
