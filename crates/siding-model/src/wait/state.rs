//! When a wait is over.

use super::Condition;
use crate::process::MonotonicMs;

/// How many of the conditions have to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantifier {
    /// Every condition of every task.
    All,
    /// One condition of one task.
    Any,
}

/// What whoever waits has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEvent {
    /// A condition came true. It counts from then on, whatever happens to it later.
    Satisfied {
        /// Place of the task among those waited for.
        task: usize,
        /// Place of the condition among those given.
        condition: usize,
    },
    /// A task ended. Whatever its end could still make true was looked at before.
    Ended {
        /// Place of the task.
        task: usize,
    },
    /// Time has passed.
    TimerFired,
}

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitVerdict {
    /// What was waited for came true.
    Satisfied,
    /// It can no longer come true, since tasks have ended.
    Ended,
    /// The bound was reached.
    Timeout,
}

/// How one condition of one task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConditionState {
    Pending,
    Satisfied,
    Missed,
}

/// A wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitState {
    quantifier: Quantifier,
    is_exit: Vec<bool>,
    /// Task by task, each with all conditions.
    states: Vec<ConditionState>,
    satisfied_count: usize,
    missed_count: usize,
    bound: MonotonicMs,
    verdict: Option<WaitVerdict>,
}

impl WaitState {
    /// Begins a wait for `conditions` of each of `tasks` tasks, until `bound` at the latest.
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

    /// Takes in what was seen at `now`. Returns why the wait is over, once it is; nothing changes
    /// after that.
    ///
    /// What is seen counts even when the bound has passed: a look that took long is no reason to
    /// deny what it found.
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

    /// Returns why the wait is over, once it is.
    #[must_use]
    pub const fn verdict(&self) -> Option<WaitVerdict> {
        self.verdict
    }

    /// Returns when the wait is over at the latest.
    #[must_use]
    pub const fn wake_at(&self) -> MonotonicMs {
        self.bound
    }

    /// Whether it is still worth looking at a condition.
    #[must_use]
    pub fn is_pending(&self, task: usize, condition: usize) -> bool {
        self.states[self.index(task, condition)] == ConditionState::Pending
    }

    /// Whether a condition came true.
    #[must_use]
    pub fn is_satisfied(&self, task: usize, condition: usize) -> bool {
        self.states[self.index(task, condition)] == ConditionState::Satisfied
    }

    /// Whether a task ended before a condition came true.
    #[must_use]
    pub fn is_missed(&self, task: usize, condition: usize) -> bool {
        self.states[self.index(task, condition)] == ConditionState::Missed
    }
}
