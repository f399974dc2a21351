//! The life of a task: a pure function from *life, event, time* to *next life, effects*.
//!
//! ```text
//!  Starting ──spawned──► Running ──leader ended, tree empty────────────► Ended
//!     │                    │  └─leader ended, tree lives─► Lingering ──► Ended
//!     │                    │  deadline · stop · owner lost    │
//!     │                    └────────────┬─────────────────────┘
//!     │                                 ▼
//!     │                             Stopping ──grace over──► Killing ──► Ended
//!     └─spawn failed───────────────────────────────────────────────────► Ended
//!  Running, Lingering ──released, processes live──────────────────────► Ended
//! ```
//!
//! [`Life::step`] is the only place that changes a phase. It reads no clock and touches nothing:
//! time comes in, effects go out. The journal keeps the events that changed something, so a reader
//! folds them through this same table, and an event that changes nothing there is corruption.

mod event;
mod phase;

use std::time::Duration;

use crate::outcome::{LeaderEnd, Outcome, Placement, Why};
use crate::process::{LeaderRef, Mono};
use crate::signal::Signal;
use crate::spec::{OnLeaderExit, TaskSpec};

pub use event::{Effect, Event, Tree};
pub use phase::{Intent, Phase, Reason};

/// The parts of a task's specification that its life depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Policy {
    started: Mono,
    cap: Mono,
    signal: Signal,
    grace: Duration,
    on_leader_exit: OnLeaderExit,
}

/// A task's life so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    phase: Phase,
    placement: Placement,
    deadline: Mono,
    policy: Policy,
}

impl Life {
    /// Returns the life of a task that was recorded at `started` and has not been spawned yet.
    #[must_use]
    pub fn new(spec: &TaskSpec, started: Mono) -> Self {
        let cap = started.plus_ms(spec.cap_ms);
        Self {
            phase: Phase::Starting { stop: None },
            placement: spec.placement,
            deadline: started.plus_ms(spec.deadline_ms).min(cap),
            policy: Policy {
                started,
                cap,
                signal: spec.signal,
                grace: Duration::from_millis(spec.grace_ms),
                on_leader_exit: spec.on_leader_exit,
            },
        }
    }

    /// Returns the current phase.
    #[must_use]
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns where the task is placed.
    #[must_use]
    pub const fn placement(&self) -> Placement {
        self.placement
    }

    /// Returns the deadline in force.
    #[must_use]
    pub const fn deadline(&self) -> Mono {
        self.deadline
    }

    /// Returns the moment beyond which no deadline can be moved.
    #[must_use]
    pub const fn cap(&self) -> Mono {
        self.policy.cap
    }

    /// Returns when the task was recorded.
    #[must_use]
    pub const fn started(&self) -> Mono {
        self.policy.started
    }

    /// Whether the task has ended.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
    }

    /// Returns when the next timer is due, `None` when only the outside can change something.
    #[must_use]
    pub const fn wake_at(&self) -> Option<Mono> {
        match &self.phase {
            Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => {
                Some(self.deadline)
            }
            Phase::Stopping { kill_at, .. } => Some(*kill_at),
            Phase::Starting { stop: Some(_) } | Phase::Killing { .. } | Phase::Ended { .. } => None,
        }
    }

    /// Returns the timer event that is due at `now`, if one is.
    #[must_use]
    pub fn due(&self, now: Mono) -> Option<Event> {
        if self.wake_at().is_none_or(|at| now < at) {
            return None;
        }
        Some(match self.phase {
            Phase::Stopping { .. } => Event::GraceOver,
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Lingering { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => Event::DeadlinePassed,
        })
    }

    /// Returns the life after `event` at `now`, and what to do about it.
    ///
    /// An event that changes nothing gives the same life and no effects.
    #[must_use]
    pub fn step(&self, event: &Event, now: Mono) -> (Self, Vec<Effect>) {
        match event {
            Event::Placed { why } => self.placed(*why),
            Event::Extended { deadline } => self.extended(*deadline, now),
            Event::StopAsked { by, grace_ms, signal } => {
                let reason = Reason::Stop { by: by.clone() };
                let grace = grace_ms.map_or(self.policy.grace, Duration::from_millis);
                self.stop(reason, signal.unwrap_or(self.policy.signal), grace, now)
            }
            Event::DeadlinePassed if now >= self.deadline => {
                let limit_ms = self.deadline.ms_since(self.policy.started);
                let reason = Reason::Deadline { limit_ms };
                self.overstepped(reason, now)
            }
            Event::LimitPassed { which } => self.overstepped(Reason::Limit { which: *which }, now),
            Event::DeadlinePassed => self.unchanged(),
            Event::GraceOver => self.grace_over(now),
            Event::Spawned { leader } => self.spawned(*leader, now),
            Event::SpawnFailed { error, .. } => match &self.phase {
                Phase::Starting { .. } => {
                    self.end(Outcome::FailedToStart { error: error.clone() }, None)
                }
                Phase::Running { .. }
                | Phase::Lingering { .. }
                | Phase::Stopping { .. }
                | Phase::Killing { .. }
                | Phase::Ended { .. } => self.unchanged(),
            },
            Event::LeaderEnded { end, tree, .. } => self.leader_ended(end, *tree, now),
            Event::TreeEmpty => self.tree_empty(),
            Event::Swept { .. } => match &self.phase {
                Phase::Killing { intent, ended } => {
                    self.end(intent.clone().outcome(ended.clone()), ended.clone())
                }
                Phase::Starting { .. }
                | Phase::Running { .. }
                | Phase::Lingering { .. }
                | Phase::Stopping { .. }
                | Phase::Ended { .. } => self.unchanged(),
            },
            Event::Released { by } => self.released(by),
            Event::Vanished { why } => self.vanished(why),
        }
    }

    fn unchanged(&self) -> (Self, Vec<Effect>) {
        (self.clone(), Vec::new())
    }

    fn enter(&self, phase: Phase, then: Option<Effect>) -> (Self, Vec<Effect>) {
        let effects = std::iter::once(Effect::Record).chain(then).collect();
        (Self { phase, ..self.clone() }, effects)
    }

    fn end(&self, outcome: Outcome, leader: Option<LeaderEnd>) -> (Self, Vec<Effect>) {
        self.enter(Phase::Ended { outcome, leader }, Some(Effect::Close))
    }

    /// A task moves to the background once; who is first gives the reason.
    fn placed(&self, why: Why) -> (Self, Vec<Effect>) {
        if self.is_ended() || self.placement != Placement::Foreground {
            return self.unchanged();
        }
        let placement = Placement::Background { why };
        (Self { placement, ..self.clone() }, vec![Effect::Record])
    }

    /// Moves the deadline, never beyond the cap, never into the past, never once ending has begun.
    fn extended(&self, deadline: Mono, now: Mono) -> (Self, Vec<Effect>) {
        let deadline = deadline.min(self.policy.cap);
        let movable = match self.phase {
            Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => {
                true
            }
            Phase::Starting { stop: Some(_) }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => false,
        };
        if !movable || deadline == self.deadline || deadline < now {
            return self.unchanged();
        }
        (Self { deadline, ..self.clone() }, vec![Effect::Record])
    }

    fn stop(
        &self,
        reason: Reason,
        signal: Signal,
        grace: Duration,
        now: Mono,
    ) -> (Self, Vec<Effect>) {
        let kill_at = self.kill_at(grace, now);
        let intent = |natural| Intent { reason: reason.clone(), signal, grace, natural };
        match &self.phase {
            Phase::Starting { stop: None } => {
                self.enter(Phase::Starting { stop: Some(intent(None)) }, None)
            }
            Phase::Running { .. } => {
                let phase = Phase::Stopping { intent: intent(None), ended: None, kill_at };
                self.enter(phase, Some(Effect::Signal(signal)))
            }
            Phase::Lingering { ended } => {
                let phase = Phase::Stopping {
                    intent: intent(Some(ended.clone())),
                    ended: Some(ended.clone()),
                    kill_at,
                };
                self.enter(phase, Some(Effect::Signal(signal)))
            }
            // A second request may shorten the grace, never stretch it, and the first reason stays.
            Phase::Starting { stop: Some(intent) } if grace < intent.grace => {
                let stop = Some(Intent { grace, ..intent.clone() });
                self.enter(Phase::Starting { stop }, None)
            }
            Phase::Stopping { intent, ended, kill_at: earlier } if kill_at < *earlier => {
                let phase = Phase::Stopping {
                    intent: Intent { grace, ..intent.clone() },
                    ended: ended.clone(),
                    kill_at,
                };
                self.enter(phase, None)
            }
            Phase::Starting { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    /// Stops a task for something it did itself, unless it is being stopped already.
    fn overstepped(&self, reason: Reason, now: Mono) -> (Self, Vec<Effect>) {
        match self.phase {
            Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => {
                self.stop(reason, self.policy.signal, self.policy.grace, now)
            }
            Phase::Starting { stop: Some(_) }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    /// Returns when asking is over. A long grace never lets a task live longer than its deadline
    /// would have, or a stop would be a way around the cap.
    fn kill_at(&self, grace: Duration, now: Mono) -> Mono {
        let latest = self.deadline.max(now).plus_ms(millis(self.policy.grace));
        now.plus_ms(millis(grace)).min(latest)
    }

    fn grace_over(&self, now: Mono) -> (Self, Vec<Effect>) {
        match &self.phase {
            Phase::Stopping { intent, ended, kill_at } if now >= *kill_at => {
                let phase = Phase::Killing { intent: intent.clone(), ended: ended.clone() };
                self.enter(phase, Some(Effect::Kill))
            }
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Lingering { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    fn spawned(&self, leader: LeaderRef, now: Mono) -> (Self, Vec<Effect>) {
        match &self.phase {
            Phase::Starting { stop: None } => self.enter(Phase::Running { leader }, None),
            Phase::Starting { stop: Some(intent) } => {
                let kill_at = self.kill_at(intent.grace, now);
                let phase = Phase::Stopping { intent: intent.clone(), ended: None, kill_at };
                self.enter(phase, Some(Effect::Signal(intent.signal)))
            }
            Phase::Running { .. }
            | Phase::Lingering { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    fn leader_ended(&self, end: &LeaderEnd, tree: Tree, now: Mono) -> (Self, Vec<Effect>) {
        match (&self.phase, tree) {
            // In `Starting` a rescuer speaks, who found what the leader left and never the leader.
            (Phase::Starting { stop: None } | Phase::Running { .. }, Tree::Empty) => {
                self.end(end.clone().into(), Some(end.clone()))
            }
            (Phase::Starting { stop: None } | Phase::Running { .. }, Tree::Alive) => {
                self.left_behind(end, now)
            }
            (
                Phase::Starting { stop: Some(intent) }
                | Phase::Stopping { intent, ended: None, .. },
                Tree::Empty,
            ) => self.end(intent.clone().outcome(Some(end.clone())), Some(end.clone())),
            (Phase::Starting { stop: Some(intent) }, Tree::Alive) => {
                let phase = Phase::Stopping {
                    intent: intent.clone(),
                    ended: Some(end.clone()),
                    kill_at: self.kill_at(intent.grace, now),
                };
                self.enter(phase, Some(Effect::Signal(intent.signal)))
            }
            (Phase::Stopping { intent, ended: None, kill_at }, Tree::Alive) => {
                let phase = Phase::Stopping {
                    intent: intent.clone(),
                    ended: Some(end.clone()),
                    kill_at: *kill_at,
                };
                self.enter(phase, None)
            }
            (Phase::Killing { intent, ended: None }, _) => {
                let phase = Phase::Killing { intent: intent.clone(), ended: Some(end.clone()) };
                self.enter(phase, None)
            }
            (
                Phase::Lingering { .. }
                | Phase::Stopping { .. }
                | Phase::Killing { .. }
                | Phase::Ended { .. },
                _,
            ) => self.unchanged(),
        }
    }

    /// The leader is gone and its descendants are not: they stay, or are ended.
    fn left_behind(&self, end: &LeaderEnd, now: Mono) -> (Self, Vec<Effect>) {
        let lingering = Phase::Lingering { ended: end.clone() };
        match self.policy.on_leader_exit {
            OnLeaderExit::Linger => self.enter(lingering, None),
            OnLeaderExit::Reap => {
                let Policy { signal, grace, .. } = self.policy;
                let lingering = Self { phase: lingering, ..self.clone() };
                lingering.stop(Reason::LeaderExit, signal, grace, now)
            }
        }
    }

    fn tree_empty(&self) -> (Self, Vec<Effect>) {
        match &self.phase {
            Phase::Lingering { ended } => self.end(ended.clone().into(), Some(ended.clone())),
            Phase::Stopping { intent, ended: Some(ended), .. } => {
                self.end(intent.clone().outcome(Some(ended.clone())), Some(ended.clone()))
            }
            // The leader is part of the tree: while its end is unknown the tree is not empty.
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    /// Ends the record of a task whose processes go on. What is being ended is not given back.
    fn released(&self, by: &str) -> (Self, Vec<Effect>) {
        let released = Outcome::Released { by: by.to_owned() };
        match &self.phase {
            Phase::Running { .. } => self.end(released, None),
            Phase::Lingering { ended } => self.end(released, Some(ended.clone())),
            Phase::Starting { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    fn vanished(&self, why: &str) -> (Self, Vec<Effect>) {
        let lost = Outcome::Lost { why: why.to_owned() };
        match &self.phase {
            Phase::Ended { .. } => self.unchanged(),
            Phase::Lingering { ended } => self.end(ended.clone().into(), Some(ended.clone())),
            Phase::Stopping { intent, ended, .. } | Phase::Killing { intent, ended } => {
                self.end(intent.clone().outcome(ended.clone()), ended.clone())
            }
            Phase::Starting { .. } | Phase::Running { .. } => self.end(lost, None),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
