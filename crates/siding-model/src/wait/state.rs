//! The state machine of a wait for conditions of tasks.

use super::Condition;
use crate::process::MonotonicMs;

/// The number of conditions that must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantifier {
    /// Every condition of every task.
    All,
    /// One condition of one task.
    Any,
}

/// An observation that the waiting process makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEvent {
    /// A condition was satisfied. The condition remains satisfied for this wait, even if it no
    /// longer holds later.
    Satisfied {
        /// Index of the task in the wait.
        task: usize,
        /// Index of the condition in the wait.
        condition: usize,
    },
    /// A task ended. The waiting process must check the pending conditions of the task once more
    /// before it passes this event, because all of them except `exit` become missed.
    Ended {
        /// Index of the task in the wait.
        task: usize,
    },
    /// Nothing was observed; the event lets the wait end at its bound.
    TimerFired,
}

/// The reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitVerdict {
    /// The conditions were satisfied.
    Satisfied,
    /// The conditions can no longer be satisfied, because tasks have ended.
    Ended,
    /// The upper bound was reached.
    Timeout,
}

/// The state of one condition of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConditionState {
    Pending,
    Satisfied,
    Missed,
}

/// The state machine of a wait for conditions of one or more tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitState {
    quantifier: Quantifier,
    is_exit: Vec<bool>,
    /// The states of the conditions, grouped by task, in the order of the tasks.
    states: Vec<ConditionState>,
    satisfied_count: usize,
    missed_count: usize,
    bound: MonotonicMs,
    verdict: Option<WaitVerdict>,
}

impl WaitState {
    /// Starts a wait for `conditions` of each of `tasks` tasks, at most until `bound`.
    #[must_use]
    pub fn new(
        quantifier: Quantifier,
        tasks: usize,
        conditions: &[Condition],
        bound: MonotonicMs,
    ) -> Self {
        Self {
            quantifier,
            is_exit: conditions.iter().map(|one| *one == Condition::Exit).collect(),
            states: vec![ConditionState::Pending; tasks.saturating_mul(conditions.len())],
            satisfied_count: 0,
            missed_count: 0,
            bound,
            verdict: None,
        }
    }

    /// Processes an observation made at `now`. Returns the verdict once the wait has ended. Later
    /// observations do not change the verdict.
    ///
    /// An observation after the bound can still satisfy the wait, because the result of a slow
    /// check must not be lost. Only [`WaitEvent::TimerFired`] ends the wait at its bound.
    pub fn step(&mut self, event: WaitEvent, now: MonotonicMs) -> Option<WaitVerdict> {
        if self.verdict.is_some() {
            return self.verdict;
        }
        match event {
            WaitEvent::Satisfied { task, condition } => {
                self.settle(task, condition, ConditionState::Satisfied)
            }
            WaitEvent::Ended { task } => {
                for condition in 0..self.is_exit.len() {
                    let becomes = if self.is_exit[condition] {
                        ConditionState::Satisfied
                    } else {
                        ConditionState::Missed
                    };
                    self.settle(task, condition, becomes);
                }
            }
            WaitEvent::TimerFired => {}
        }
        self.verdict = self.evaluate(event, now);
        self.verdict
    }

    fn settle(&mut self, task: usize, condition: usize, becomes: ConditionState) {
        let at = self.index(task, condition);
        if self.states[at] == ConditionState::Pending {
            self.states[at] = becomes;
            match becomes {
                ConditionState::Satisfied => self.satisfied_count += 1,
                ConditionState::Missed => self.missed_count += 1,
                ConditionState::Pending => {}
            }
        }
    }

    fn evaluate(&self, event: WaitEvent, now: MonotonicMs) -> Option<WaitVerdict> {
        let all = self.states.len();
        let (satisfied, hopeless) = match self.quantifier {
            Quantifier::All => (self.satisfied_count == all, self.missed_count > 0),
            Quantifier::Any => (self.satisfied_count > 0, self.missed_count == all),
        };
        if satisfied {
            Some(WaitVerdict::Satisfied)
        } else if hopeless {
            Some(WaitVerdict::Ended)
        } else if event == WaitEvent::TimerFired && now >= self.bound {
            Some(WaitVerdict::Timeout)
        } else {
            None
        }
    }

    const fn index(&self, task: usize, condition: usize) -> usize {
        task * self.is_exit.len() + condition
    }

    /// Returns the verdict, or `None` while the wait continues.
    #[must_use]
    pub const fn verdict(&self) -> Option<WaitVerdict> {
        self.verdict
    }

    /// Returns the bound, at which [`WaitEvent::TimerFired`] is due.
    #[must_use]
    pub const fn wake_at(&self) -> MonotonicMs {
        self.bound
    }

    /// Returns whether a condition must still be checked.
    #[must_use]
    pub fn is_pending(&self, task: usize, condition: usize) -> bool {
        self.states[self.index(task, condition)] == ConditionState::Pending
    }

    /// Returns whether a condition was satisfied.
    #[must_use]
    pub fn is_satisfied(&self, task: usize, condition: usize) -> bool {
        self.states[self.index(task, condition)] == ConditionState::Satisfied
    }

    /// Returns whether a task ended before a condition was satisfied.
    #[must_use]
    pub fn is_missed(&self, task: usize, condition: usize) -> bool {
        self.states[self.index(task, condition)] == ConditionState::Missed
    }
}
