//! The lifecycle of a task: a pure function from state, event and time to the next state and its
//! effects.
//!
//! ```text
//!  Starting ──spawned──► Running ──leader ended, tree empty────────────► Ended
//!     │                    │  └─leader ended, tree lives─► Lingering ──► Ended
//!     │                    │  deadline · limit · stop         │
//!     │                    └────────────┬─────────────────────┘
//!     │                                 ▼
//!     │                             Stopping ──grace over──► Killing ──► Ended
//!     └─spawn failed───────────────────────────────────────────────────► Ended
//!  Stopping ──leader ended, tree empty─────────────────────────────────► Ended
//!  Running, Lingering ──released, processes live───────────────────────► Ended
//!  every phase except Ended ──no process found after a shim died───────► Ended
//! ```
//!
//! [`Lifecycle::step`] is the only function that changes a phase. The function reads no clock and
//! has no side effects: time is an argument, and effects are return values. The journal holds only
//! events that changed the state. A reader replays them through this function, and an event that
//! changes nothing in the replay is corruption.

mod deadline;
mod event;
mod phase;

use std::time::Duration;

use crate::outcome::{BackgroundReason, LeaderEnd, Outcome, Placement};
use crate::process::{LeaderRef, MonotonicMs};
use crate::signal::Signal;
use crate::spec::{OnLeaderExit, TaskSpec};

pub use event::{JobLimitAnswer, LifecycleEffect, TaskEvent, TreeLiveness};
pub use phase::{Phase, StopIntent, StopReason};

/// The parts of a task's specification that affect its lifecycle.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LifecyclePolicy {
    started: MonotonicMs,
    cap: MonotonicMs,
    /// The deadline and the cap, in milliseconds after the time from which they count.
    deadline_ms: u64,
    cap_ms: u64,
    signal: Signal,
    grace: Duration,
    on_leader_exit: OnLeaderExit,
    /// Whether the move to the background starts a deadline that does not count yet; false in a
    /// mirror, where the remote task decides.
    placement_starts_deadline: bool,
}

/// The lifecycle state of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    phase: Phase,
    placement: Placement,
    /// `None` while no deadline counts ([`TaskSpec::deadline_from_background`]).
    deadline: Option<MonotonicMs>,
    policy: LifecyclePolicy,
}

impl Lifecycle {
    /// Returns the initial state of a task that has not been spawned yet. `started` is the time at
    /// which the task was recorded or, for an adopted task, at which its process was marked.
    #[must_use]
    pub fn new(spec: &TaskSpec, started: MonotonicMs) -> Self {
        let cap = started.plus_ms(spec.cap_ms);
        let counts_later = spec.deadline_from_background && spec.placement == Placement::Foreground;
        Self {
            phase: Phase::Starting { stop: None },
            placement: spec.placement,
            deadline: (!counts_later).then(|| started.plus_ms(spec.deadline_ms).min(cap)),
            policy: LifecyclePolicy {
                started,
                cap,
                deadline_ms: spec.deadline_ms,
                cap_ms: spec.cap_ms,
                signal: spec.signal,
                grace: Duration::from_millis(spec.grace_ms),
                on_leader_exit: spec.on_leader_exit,
                placement_starts_deadline: !spec.is_remote(),
            },
        }
    }

    /// Returns the current phase.
    #[must_use]
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns the placement of the task.
    #[must_use]
    pub const fn placement(&self) -> Placement {
        self.placement
    }

    /// Returns the current deadline; `None` while no deadline counts, because a person waits for
    /// the task in the foreground.
    #[must_use]
    pub const fn deadline(&self) -> Option<MonotonicMs> {
        self.deadline
    }

    /// Returns the latest time to which the deadline can be moved, once it counts.
    #[must_use]
    pub const fn cap(&self) -> MonotonicMs {
        self.policy.cap
    }

    /// Returns the time at which the task was recorded or, for an adopted task, at which its
    /// process was marked.
    #[must_use]
    pub const fn started(&self) -> MonotonicMs {
        self.policy.started
    }

    /// Returns whether the task has ended.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
    }

    /// Returns how the task ended, or `None` while it has not.
    #[must_use]
    pub const fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended { outcome, .. } => Some(outcome),
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Lingering { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. } => None,
        }
    }

    /// Returns the time at which the deadline passes or the grace period ends; `None` if the phase
    /// does not depend on the time, or no deadline counts.
    #[must_use]
    pub const fn wake_at(&self) -> Option<MonotonicMs> {
        match &self.phase {
            Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => {
                self.deadline
            }
            Phase::Stopping { kill_at, .. } => Some(*kill_at),
            Phase::Starting { stop: Some(_) } | Phase::Killing { .. } | Phase::Ended { .. } => None,
        }
    }

    /// Returns the event that is due at `now`: the deadline has passed, or the grace period has
    /// ended. Returns `None` if neither is the case.
    #[must_use]
    pub fn due_event(&self, now: MonotonicMs) -> Option<TaskEvent> {
        if self.wake_at().is_none_or(|at| now < at) {
            return None;
        }
        Some(match self.phase {
            Phase::Stopping { .. } => TaskEvent::GraceOver,
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Lingering { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => TaskEvent::DeadlinePassed,
        })
    }

    /// Returns the state after `event` at `now`, and the effects to carry out.
    ///
    /// For an event that changes nothing, the result is the same state without effects.
    #[must_use]
    pub fn step(&self, event: &TaskEvent, now: MonotonicMs) -> (Self, Vec<LifecycleEffect>) {
        match event {
            TaskEvent::Placed { why } => self.on_placed(*why, now),
            TaskEvent::Extended { deadline, .. } => self.on_extended(*deadline, now),
            TaskEvent::StopAsked { by, grace_ms, signal } => {
                let reason = StopReason::Stop { by: by.clone() };
                let grace = grace_ms.map_or(self.policy.grace, Duration::from_millis);
                self.stop(reason, signal.unwrap_or(self.policy.signal), grace, now)
            }
            TaskEvent::LimitPassed { limit_kind } => {
                self.stop_for_overrun(StopReason::Limit { limit_kind: *limit_kind }, now)
            }
            TaskEvent::DeadlinePassed => self.on_deadline_passed(now),
            TaskEvent::GraceOver => self.on_grace_over(now),
            TaskEvent::Spawned { leader } => self.on_spawned(*leader, now),
            TaskEvent::SpawnFailed { error, .. } => match &self.phase {
                Phase::Starting { .. } => {
                    self.enter_ended(Outcome::FailedToStart { error: error.clone() }, None)
                }
                Phase::Running { .. }
                | Phase::Lingering { .. }
                | Phase::Stopping { .. }
                | Phase::Killing { .. }
                | Phase::Ended { .. } => self.unchanged(),
            },
            TaskEvent::LeaderEnded { end, tree, .. } => self.on_leader_ended(end, *tree, now),
            TaskEvent::TreeEmpty => self.on_tree_empty(),
            TaskEvent::Swept { .. } => match &self.phase {
                Phase::Killing { intent, ended } => {
                    self.enter_ended(intent.clone().into_outcome(ended.clone()), ended.clone())
                }
                Phase::Starting { .. }
                | Phase::Running { .. }
                | Phase::Lingering { .. }
                | Phase::Stopping { .. }
                | Phase::Ended { .. } => self.unchanged(),
            },
            TaskEvent::Released { by } => self.on_released(by),
            TaskEvent::Vanished { why } => self.on_vanished(why),
        }
    }

    fn unchanged(&self) -> (Self, Vec<LifecycleEffect>) {
        (self.clone(), Vec::new())
    }

    fn enter_phase(
        &self,
        phase: Phase,
        then: Option<LifecycleEffect>,
    ) -> (Self, Vec<LifecycleEffect>) {
        let effects = std::iter::once(LifecycleEffect::Record).chain(then).collect();
        (Self { phase, ..self.clone() }, effects)
    }

    fn enter_ended(
        &self,
        outcome: Outcome,
        leader: Option<LeaderEnd>,
    ) -> (Self, Vec<LifecycleEffect>) {
        self.enter_phase(Phase::Ended { outcome, leader }, Some(LifecycleEffect::Close))
    }

    /// Moves a foreground task to the background, where its deadline counts. A task in the
    /// background keeps its first reason.
    fn on_placed(&self, why: BackgroundReason, now: MonotonicMs) -> (Self, Vec<LifecycleEffect>) {
        if self.is_ended() || self.placement != Placement::Foreground {
            return self.unchanged();
        }
        let placement = Placement::Background { why };
        let next = match self.policy.placement_starts_deadline {
            true => self.with_deadline_from(now),
            false => self.clone(),
        };
        (Self { placement, ..next }, vec![LifecycleEffect::Record])
    }

    fn stop(
        &self,
        reason: StopReason,
        signal: Signal,
        grace: Duration,
        now: MonotonicMs,
    ) -> (Self, Vec<LifecycleEffect>) {
        let kill_at = self.kill_deadline(grace, now);
        let intent = |natural| StopIntent {
            reason: reason.clone(),
            signal,
            grace,
            earlier_leader_end: natural,
        };
        match &self.phase {
            Phase::Starting { stop: None } => {
                self.enter_phase(Phase::Starting { stop: Some(intent(None)) }, None)
            }
            Phase::Running { .. } => {
                let phase = Phase::Stopping { intent: intent(None), ended: None, kill_at };
                self.enter_phase(phase, Some(LifecycleEffect::Signal(signal)))
            }
            Phase::Lingering { ended } => {
                let phase = Phase::Stopping {
                    intent: intent(Some(ended.clone())),
                    ended: Some(ended.clone()),
                    kill_at,
                };
                self.enter_phase(phase, Some(LifecycleEffect::Signal(signal)))
            }
            // A second request can shorten the grace, but not extend it. If it does so, its signal
            // replaces that of the first request, or is sent after it, unless both are the same.
            // The reason of the first request is kept.
            Phase::Starting { stop: Some(intent) } if grace < intent.grace => {
                let stop = Some(StopIntent { grace, signal, ..intent.clone() });
                self.enter_phase(Phase::Starting { stop }, None)
            }
            Phase::Stopping { intent, ended, kill_at: earlier } if kill_at < *earlier => {
                let phase = Phase::Stopping {
                    intent: StopIntent { grace, signal, ..intent.clone() },
                    ended: ended.clone(),
                    kill_at,
                };
                let is_sent_already = signal == intent.signal;
                let send = (!is_sent_already).then_some(LifecycleEffect::Signal(signal));
                self.enter_phase(phase, send)
            }
            Phase::Starting { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    /// Stops a task that passed its deadline or a limit. Changes nothing if the task is already
    /// being stopped.
    fn stop_for_overrun(
        &self,
        reason: StopReason,
        now: MonotonicMs,
    ) -> (Self, Vec<LifecycleEffect>) {
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

    fn on_grace_over(&self, now: MonotonicMs) -> (Self, Vec<LifecycleEffect>) {
        match &self.phase {
            Phase::Stopping { intent, ended, kill_at } if now >= *kill_at => {
                let phase = Phase::Killing { intent: intent.clone(), ended: ended.clone() };
                self.enter_phase(phase, Some(LifecycleEffect::Kill))
            }
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Lingering { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    fn on_spawned(&self, leader: LeaderRef, now: MonotonicMs) -> (Self, Vec<LifecycleEffect>) {
        match &self.phase {
            Phase::Starting { stop: None } => self.enter_phase(Phase::Running { leader }, None),
            Phase::Starting { stop: Some(intent) } => {
                let kill_at = self.kill_deadline(intent.grace, now);
                let phase = Phase::Stopping { intent: intent.clone(), ended: None, kill_at };
                self.enter_phase(phase, Some(LifecycleEffect::Signal(intent.signal)))
            }
            Phase::Running { .. }
            | Phase::Lingering { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    fn on_leader_ended(
        &self,
        end: &LeaderEnd,
        tree: TreeLiveness,
        now: MonotonicMs,
    ) -> (Self, Vec<LifecycleEffect>) {
        match (&self.phase, tree) {
            // In `Starting` the event comes from a takeover: the previous shim died before it
            // recorded the leader, and the new shim found processes of the task.
            (Phase::Starting { stop: None } | Phase::Running { .. }, TreeLiveness::Empty) => {
                self.enter_ended(end.clone().into(), Some(end.clone()))
            }
            (Phase::Starting { stop: None } | Phase::Running { .. }, TreeLiveness::Alive) => {
                self.linger_or_reap(end, now)
            }
            (
                Phase::Starting { stop: Some(intent) }
                | Phase::Stopping { intent, ended: None, .. },
                TreeLiveness::Empty,
            ) => {
                self.enter_ended(intent.clone().into_outcome(Some(end.clone())), Some(end.clone()))
            }
            (Phase::Starting { stop: Some(intent) }, TreeLiveness::Alive) => {
                let phase = Phase::Stopping {
                    intent: intent.clone(),
                    ended: Some(end.clone()),
                    kill_at: self.kill_deadline(intent.grace, now),
                };
                self.enter_phase(phase, Some(LifecycleEffect::Signal(intent.signal)))
            }
            (Phase::Stopping { intent, ended: None, kill_at }, TreeLiveness::Alive) => {
                let phase = Phase::Stopping {
                    intent: intent.clone(),
                    ended: Some(end.clone()),
                    kill_at: *kill_at,
                };
                self.enter_phase(phase, None)
            }
            (Phase::Killing { intent, ended: None }, _) => {
                let phase = Phase::Killing { intent: intent.clone(), ended: Some(end.clone()) };
                self.enter_phase(phase, None)
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

    /// Lets the descendants of an ended leader continue, or stops them, according to the task's
    /// policy.
    fn linger_or_reap(&self, end: &LeaderEnd, now: MonotonicMs) -> (Self, Vec<LifecycleEffect>) {
        let lingering = Phase::Lingering { ended: end.clone() };
        match self.policy.on_leader_exit {
            OnLeaderExit::Linger => self.enter_phase(lingering, None),
            OnLeaderExit::Reap => {
                let LifecyclePolicy { signal, grace, .. } = self.policy;
                let lingering = Self { phase: lingering, ..self.clone() };
                lingering.stop(StopReason::LeaderExit, signal, grace, now)
            }
        }
    }

    fn on_tree_empty(&self) -> (Self, Vec<LifecycleEffect>) {
        match &self.phase {
            Phase::Lingering { ended } => {
                self.enter_ended(ended.clone().into(), Some(ended.clone()))
            }
            Phase::Stopping { intent, ended: Some(ended), .. } => self
                .enter_ended(intent.clone().into_outcome(Some(ended.clone())), Some(ended.clone())),
            // The leader is part of the tree, so this event cannot precede the leader's end. A kill
            // is completed by `Swept` instead.
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    /// Ends an adopted task without stopping its processes. Changes nothing for a task that is
    /// starting or already being stopped.
    fn on_released(&self, by: &str) -> (Self, Vec<LifecycleEffect>) {
        let released = Outcome::Released { by: by.to_owned() };
        match &self.phase {
            Phase::Running { .. } => self.enter_ended(released, None),
            Phase::Lingering { ended } => self.enter_ended(released, Some(ended.clone())),
            Phase::Starting { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. }
            | Phase::Ended { .. } => self.unchanged(),
        }
    }

    fn on_vanished(&self, why: &str) -> (Self, Vec<LifecycleEffect>) {
        let lost = Outcome::Lost { why: why.to_owned() };
        match &self.phase {
            Phase::Ended { .. } => self.unchanged(),
            Phase::Lingering { ended } => {
                self.enter_ended(ended.clone().into(), Some(ended.clone()))
            }
            Phase::Stopping { intent, ended, .. } | Phase::Killing { intent, ended } => {
                self.enter_ended(intent.clone().into_outcome(ended.clone()), ended.clone())
            }
            Phase::Starting { .. } | Phase::Running { .. } => self.enter_ended(lost, None),
        }
    }
}
