//! A life as the rules see it: what it is told, what it shows, what it wants done.
//!
//! [`Machine`] is implemented by the real [`Life`] and by the mutants that break it.

use std::fmt::Debug;

use siding_model::lifecycle::{Effect, Event, Life, Phase};
use siding_model::outcome::Placement;
use siding_model::process::Mono;
use siding_model::spec::TaskSpec;

use crate::history::{Act, Story};

/// Something that lives as a task does.
pub(crate) trait Machine: Clone + Debug {
    /// Begins to live.
    fn begin(spec: &TaskSpec, started: Mono) -> Self;
    /// Returns the life after an event, and what to do about it.
    fn step(&self, event: &Event, now: Mono) -> (Self, Vec<Effect>);
    /// Returns the timer event that is due.
    fn due(&self, now: Mono) -> Option<Event>;
    /// Returns when the next timer is due.
    fn wake_at(&self) -> Option<Mono>;
    /// Returns everything that can be seen of it.
    fn view(&self) -> View;
}

impl Machine for Life {
    fn begin(spec: &TaskSpec, started: Mono) -> Self {
        Self::new(spec, started)
    }

    fn step(&self, event: &Event, now: Mono) -> (Self, Vec<Effect>) {
        self.step(event, now)
    }

    fn due(&self, now: Mono) -> Option<Event> {
        self.due(now)
    }

    fn wake_at(&self) -> Option<Mono> {
        self.wake_at()
    }

    fn view(&self) -> View {
        let (phase, placement) = (self.phase().clone(), self.placement());
        View { phase, placement, deadline: self.deadline() }
    }
}

/// Everything that can be seen of a life. Two lives that look the same are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) phase: Phase,
    pub(crate) placement: Placement,
    pub(crate) deadline: Mono,
}

/// The timers of a life after a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timers {
    /// When the next one is due.
    pub(crate) wake_at: Option<Mono>,
    /// If one is due now: whether it changes the life.
    pub(crate) progress_now: Option<bool>,
    /// If one will be due: whether at that moment there is an event, and it changes the life.
    pub(crate) progress_then: Option<bool>,
}

/// One event and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) now: Mono,
    pub(crate) event: Event,
    pub(crate) before: View,
    pub(crate) after: View,
    pub(crate) effects: Vec<Effect>,
    pub(crate) timers: Timers,
}

/// A whole history. All times in it are milliseconds since the start.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) spec: TaskSpec,
    pub(crate) turns: Vec<Turn>,
    /// The same history told to a life that started at another time.
    pub(crate) elsewhen: Vec<Turn>,
}

/// Two starts with an odd distance, so that nothing round hides the difference.
const STARTS: [Mono; 2] = [Mono(1 << 20), Mono((1 << 20) + 999_983)];

/// Tells a story to two new lives.
pub(crate) fn run<M: Machine>(story: &Story) -> Trace {
    let [turns, elsewhen] = STARTS.map(|started| tell::<M>(story, started));
    Trace { spec: story.spec.clone(), turns, elsewhen }
}

fn tell<M: Machine>(story: &Story, started: Mono) -> Vec<Turn> {
    let mut machine = M::begin(&story.spec, started);
    let mut now = started;
    let mut turns = Vec::new();
    for step in &story.moves {
        now = now.plus_ms(step.wait_ms);
        let event = match &step.act {
            Act::Tell(event) => absolute(event, started),
            Act::SleepUntilWoken => {
                now = machine.wake_at().map_or(now, |at| at.max(now));
                let Some(event) = machine.due(now) else { continue };
                event
            }
        };
        let before = since(machine.view(), started);
        let (next, effects) = machine.step(&event, now);
        machine = next;
        turns.push(Turn {
            now: Mono(now.ms_since(started)),
            event: relative(&event, started),
            before,
            after: since(machine.view(), started),
            effects,
            timers: timers(&machine, now, started),
        });
    }
    turns
}

fn timers<M: Machine>(machine: &M, now: Mono, started: Mono) -> Timers {
    let progress = |at: Mono| {
        let event = machine.due(at)?;
        Some(machine.step(&event, at).0.view() != machine.view())
    };
    let wake_at = machine.wake_at();
    Timers {
        wake_at: wake_at.map(|at| Mono(at.ms_since(started))),
        progress_now: progress(now),
        progress_then: wake_at.map(|at| progress(at.max(now)) == Some(true)),
    }
}

/// Stories give times since the start; a life knows only the clock's.
fn absolute(event: &Event, started: Mono) -> Event {
    let mut event = event.clone();
    if let Event::Extended { deadline } = &mut event {
        *deadline = started.plus_ms(deadline.0);
    }
    event
}

fn relative(event: &Event, started: Mono) -> Event {
    let mut event = event.clone();
    if let Event::Extended { deadline } = &mut event {
        *deadline = Mono(deadline.ms_since(started));
    }
    event
}

fn since(mut view: View, started: Mono) -> View {
    view.deadline = Mono(view.deadline.ms_since(started));
    if let Phase::Stopping { kill_at, .. } = &mut view.phase {
        *kill_at = Mono(kill_at.ms_since(started));
    }
    view
}
