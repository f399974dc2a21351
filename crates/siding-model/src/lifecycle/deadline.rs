//! The deadline of a task: when it starts, passes and moves, and how it bounds the grace of a stop.

use std::time::Duration;

use super::{Lifecycle, LifecycleEffect, LifecyclePolicy, Phase, StopReason};
use crate::process::MonotonicMs;
use crate::spec::TaskSpec;

impl Lifecycle {
    /// Returns this state with a deadline and a cap counted from `now`, unless the task already has
    /// a deadline.
    #[must_use]
    pub fn with_deadline_from(&self, now: MonotonicMs) -> Self {
        if self.deadline.is_some() {
            return self.clone();
        }
        let cap = now.plus_ms(self.policy.cap_ms);
        let deadline = now.plus_ms(self.policy.deadline_ms).min(cap);
        let policy = LifecyclePolicy { cap, ..self.policy.clone() };
        Self { deadline: Some(deadline), policy, ..self.clone() }
    }

    /// Returns the state of a mirror whose remote task started at `started`. The placement stays,
    /// because the caller waits at the mirror.
    pub(crate) fn with_start(&self, spec: &TaskSpec, started: MonotonicMs) -> Self {
        Self { placement: self.placement, phase: self.phase.clone(), ..Self::new(spec, started) }
    }

    /// Returns the initial state of a mirror whose remote task starts again at `started`.
    pub(crate) fn restarted(&self, spec: &TaskSpec, started: MonotonicMs) -> Self {
        Self { placement: self.placement, ..Self::new(spec, started) }
    }

    /// Stops a task whose deadline has passed.
    pub(super) fn on_deadline_passed(&self, now: MonotonicMs) -> (Self, Vec<LifecycleEffect>) {
        let Some(deadline) = self.deadline.filter(|deadline| *deadline <= now) else {
            return self.unchanged();
        };
        let limit_ms = deadline.ms_since(self.policy.started);
        self.stop_for_overrun(StopReason::Deadline { limit_ms }, now)
    }

    /// Moves the deadline, at most to the cap. Changes nothing if the task has no deadline, if the
    /// new deadline has already passed, or once the task is being stopped.
    pub(super) fn on_extended(
        &self,
        deadline: MonotonicMs,
        now: MonotonicMs,
    ) -> (Self, Vec<LifecycleEffect>) {
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
        let moves = self.deadline.is_some_and(|before| before != deadline);
        if !movable || !moves || deadline < now {
            return self.unchanged();
        }
        (Self { deadline: Some(deadline), ..self.clone() }, vec![LifecycleEffect::Record])
    }

    /// Returns the time at which the tree is killed: `now` plus `grace`, but no later than the
    /// deadline, or `now` if the deadline has passed, plus the task's own grace. Otherwise a stop
    /// with a long grace would let the task exceed its cap.
    pub(super) fn kill_deadline(&self, grace: Duration, now: MonotonicMs) -> MonotonicMs {
        let kill_at = now.plus_ms(duration_ms(grace));
        self.deadline.map_or(kill_at, |deadline| {
            kill_at.min(deadline.max(now).plus_ms(duration_ms(self.policy.grace)))
        })
    }
}

fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
