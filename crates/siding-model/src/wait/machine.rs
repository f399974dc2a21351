//! When a wait is over.

use super::Condition;
use crate::process::Mono;

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
pub enum Event {
    /// A condition came true. It counts from then on, whatever happens to it later.
    Holds {
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
    Woke,
}

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// What was waited for came true.
    Satisfied,
    /// It can no longer come true, since tasks have ended.
    Ended,
    /// The bound was reached.
    Timeout,
}

/// How one condition of one task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Open,
    Holds,
    Missed,
}

/// A wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    quantifier: Quantifier,
    is_exit: Vec<bool>,
    /// Task by task, each with all conditions.
    standing: Vec<Standing>,
    holding: usize,
    missed: usize,
    bound: Mono,
    verdict: Option<Verdict>,
}

impl Wait {
    /// Begins a wait for `conditions` of each of `tasks` tasks, until `bound` at the latest.
    #[must_use]
    pub fn new(
        quantifier: Quantifier,
        tasks: usize,
        conditions: &[Condition],
        bound: Mono,
    ) -> Self {
        Self {
            quantifier,
            is_exit: conditions.iter().map(|one| *one == Condition::Exit).collect(),
            standing: vec![Standing::Open; tasks.saturating_mul(conditions.len())],
            holding: 0,
            missed: 0,
            bound,
            verdict: None,
        }
    }

    /// Takes in what was seen at `now`. Returns why the wait is over, once it is; nothing changes
    /// after that.
    ///
    /// What is seen counts even when the bound has passed: a look that took long is no reason to
    /// deny what it found.
    pub fn step(&mut self, event: Event, now: Mono) -> Option<Verdict> {
        if self.verdict.is_some() {
            return self.verdict;
        }
        match event {
            Event::Holds { task, condition } => self.settle(task, condition, Standing::Holds),
            Event::Ended { task } => {
                for condition in 0..self.is_exit.len() {
                    let becomes =
                        if self.is_exit[condition] { Standing::Holds } else { Standing::Missed };
                    self.settle(task, condition, becomes);
                }
            }
            Event::Woke => {}
        }
        self.verdict = self.judge(event, now);
        self.verdict
    }

    fn settle(&mut self, task: usize, condition: usize, becomes: Standing) {
        let at = self.at(task, condition);
        if self.standing[at] == Standing::Open {
            self.standing[at] = becomes;
            match becomes {
                Standing::Holds => self.holding += 1,
                Standing::Missed => self.missed += 1,
                Standing::Open => {}
            }
        }
    }

    fn judge(&self, event: Event, now: Mono) -> Option<Verdict> {
        let all = self.standing.len();
        let (satisfied, hopeless) = match self.quantifier {
            Quantifier::All => (self.holding == all, self.missed > 0),
            Quantifier::Any => (self.holding > 0, self.missed == all),
        };
        if satisfied {
            Some(Verdict::Satisfied)
        } else if hopeless {
            Some(Verdict::Ended)
        } else if event == Event::Woke && now >= self.bound {
            Some(Verdict::Timeout)
        } else {
            None
        }
    }

    const fn at(&self, task: usize, condition: usize) -> usize {
        task * self.is_exit.len() + condition
    }

    /// Returns why the wait is over, once it is.
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// Returns when the wait is over at the latest.
    #[must_use]
    pub const fn wake_at(&self) -> Mono {
        self.bound
    }

    /// Whether it is still worth looking at a condition.
    #[must_use]
    pub fn is_open(&self, task: usize, condition: usize) -> bool {
        self.standing[self.at(task, condition)] == Standing::Open
    }

    /// Whether a condition came true.
    #[must_use]
    pub fn holds(&self, task: usize, condition: usize) -> bool {
        self.standing[self.at(task, condition)] == Standing::Holds
    }

    /// Whether a task ended before a condition came true.
    #[must_use]
    pub fn is_missed(&self, task: usize, condition: usize) -> bool {
        self.standing[self.at(task, condition)] == Standing::Missed
    }
}
