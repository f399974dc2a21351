//! What has happened to a workflow, and what is to be done next. The only place that decides.
//!
//! ```text
//! waiting ──► running ──► ok
//!    │           ├──────► failed       no attempt is left, or none is allowed
//!    │           └──────► stopped      by the workflow; waiting again when it is resumed
//!    ├─► skipped                       its condition does not hold
//!    └─► not_run                       the workflow is being ended
//! ```

use schemars::JsonSchema;
use serde::Serialize;
use siding_model::id::TaskId;
use siding_model::process::UnixMs;

use super::plan::Plan;
use super::record::{Record, Rules, StepEnd, Verdict};

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has not begun, or is to be tried again.
    Waiting,
    /// An attempt runs.
    Running,
    /// It went well.
    Ok,
    /// It did not.
    Failed,
    /// Its condition does not hold.
    Skipped,
    /// The workflow has stopped it.
    Stopped,
    /// The workflow ended before its turn.
    NotRun,
}

impl State {
    /// Returns its word, as in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Stopped => "stopped",
            Self::NotRun => "not_run",
        }
    }

    /// Whether nothing more becomes of it, as long as nobody resumes the workflow.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// An attempt that has begun and is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Which.
    pub attempt: u32,
    /// The task that it is.
    pub task: Option<TaskId>,
}

/// What has happened to one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Track {
    /// Attempts that were begun.
    pub begun: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// The attempt that runs.
    pub live: Option<Live>,
    /// How the last one ended that is over.
    pub last: Option<StepEnd>,
    /// The task of the last attempt.
    pub task: Option<TaskId>,
    /// When the last attempt began.
    pub began: Option<UnixMs>,
    /// When that was over.
    pub ended: Option<UnixMs>,
}

/// A record that cannot follow those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(String);

/// A step to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Its place.
    pub step: usize,
    /// Which attempt, from 1 on.
    pub attempt: u32,
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Next {
    /// Steps to begin, in this order.
    pub start: Vec<Start>,
    /// Places of steps that run and are to be stopped.
    pub stop: Vec<usize>,
    /// How it ended, once nothing is left to be done.
    pub verdict: Option<Verdict>,
}

/// A workflow and what has happened to it.
#[derive(Debug, Clone)]
pub struct Course {
    plan: Plan,
    rules: Rules,
    tracks: Vec<Track>,
    /// Who wants it stopped.
    wish: Option<String>,
    over: Option<Verdict>,
}

impl Course {
    /// Returns a workflow to which nothing has happened yet.
    #[must_use]
    pub fn new(plan: Plan, rules: Rules) -> Self {
        let tracks = vec![Track::default(); plan.steps().len()];
        Self { plan, rules, tracks, wish: None, over: None }
    }

    /// Returns what it consists of.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns what has happened to each step.
    #[must_use]
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Returns how it ended, if that is on record.
    #[must_use]
    pub const fn over(&self) -> Option<Verdict> {
        self.over
    }

    /// Looks whether a record can follow what has happened.
    ///
    /// # Errors
    ///
    /// [`Misfit`], when it cannot.
    pub(super) fn fits(&self, record: &Record) -> Result<(), Misfit> {
        let misfit = |what: String| Err(Misfit(what));
        match (record, self.over) {
            (Record::Opened { .. }, _) => misfit("it began twice".to_owned()),
            (Record::Resumed { .. }, None | Some(Verdict::Stopped)) => Ok(()),
            (_, Some(_)) => misfit("something follows its end".to_owned()),
            (Record::Began { step, attempt, .. }, None) => {
                let track = &self.tracks[self.place(step)?];
                if track.live.is_some() || *attempt != track.begun + 1 {
                    return misfit(format!("attempt {attempt} of `{step}` begins out of turn"));
                }
                if matches!(track.last, Some(StepEnd::Ok)) {
                    return misfit(format!("`{step}` begins again after it went well"));
                }
                Ok(())
            }
            (Record::Ended { step, attempt, .. }, None) => {
                let live = self.tracks[self.place(step)?].live;
                if live.is_none_or(|live| live.attempt != *attempt) {
                    return misfit(format!("attempt {attempt} of `{step}` ends and does not run"));
                }
                Ok(())
            }
            (Record::Stopping { .. } | Record::Over { .. }, None) => Ok(()),
        }
    }

    /// Takes in what has happened.
    ///
    /// # Errors
    ///
    /// [`Misfit`], and then nothing has changed.
    pub fn apply(&mut self, record: &Record) -> Result<(), Misfit> {
        self.fits(record)?;
        match record {
            Record::Opened { .. } => {}
            Record::Resumed { .. } => (self.wish, self.over) = (None, None),
            Record::Began { at, step, attempt, task } => {
                let place = self.place(step)?;
                let track = &mut self.tracks[place];
                track.begun = *attempt;
                track.live = Some(Live { attempt: *attempt, task: *task });
                (track.task, track.began, track.ended) = (*task, Some(*at), None);
            }
            Record::Ended { at, step, end, .. } => {
                let place = self.place(step)?;
                let track = &mut self.tracks[place];
                track.live = None;
                track.failures += u32::from(matches!(end, StepEnd::Failed { .. }));
                (track.last, track.ended) = (Some(end.clone()), Some(*at));
            }
            Record::Stopping { by, .. } => self.wish = Some(by.clone()),
            Record::Over { verdict, .. } => self.over = Some(*verdict),
        }
        Ok(())
    }

    /// Returns who wants it stopped, if anybody does.
    #[must_use]
    pub fn wish(&self) -> Option<&str> {
        self.wish.as_deref()
    }

    /// Returns how each step stands.
    #[must_use]
    pub fn states(&self) -> Vec<State> {
        self.survey().0
    }

    /// Returns what is to be done.
    #[must_use]
    pub fn decide(&self) -> Next {
        if self.over.is_some() {
            return Next { verdict: self.over, ..Next::default() };
        }
        let (states, ready) = self.survey();
        let is_failing = self.is_failing();
        let running: Vec<usize> =
            (0..states.len()).filter(|at| states[*at] == State::Running).collect();
        let room = self.rules.max_parallel.saturating_sub(running.len());
        let start = |step: &usize| Start { step: *step, attempt: self.tracks[*step].begun + 1 };
        Next {
            start: ready.iter().take(room).map(start).collect(),
            verdict: states.iter().all(|state| state.is_over()).then(|| self.verdict(&states)),
            stop: running.into_iter().filter(|at| !self.may_run(*at, is_failing)).collect(),
        }
    }

    /// Returns how each step stands, and the places of those whose turn it is.
    fn survey(&self) -> (Vec<State>, Vec<usize>) {
        let is_failing = self.is_failing();
        let mut states = vec![State::Waiting; self.tracks.len()];
        let mut ready = Vec::new();
        for &at in self.plan.order() {
            let (track, step) = (&self.tracks[at], &self.plan.steps()[at]);
            let may_run = self.may_run(at, is_failing);
            states[at] = match &track.last {
                _ if track.live.is_some() => State::Running,
                Some(StepEnd::Ok) => State::Ok,
                Some(StepEnd::Failed { .. }) if self.has_failed(at) || !may_run => State::Failed,
                Some(StepEnd::Stopped | StepEnd::Lost { .. }) if !may_run => State::Stopped,
                // It had its turn once, and nothing that it needs has changed.
                Some(_) => {
                    ready.push(at);
                    State::Waiting
                }
                None if !step.needs.iter().all(|need| states[*need].is_over()) => State::Waiting,
                None if step.condition.holds(&step.needs, &states) => {
                    if may_run {
                        ready.push(at);
                        State::Waiting
                    } else {
                        State::NotRun
                    }
                }
                None => {
                    let is_cut = |need: &usize| is_cut(states[*need]);
                    if step.needs.iter().any(is_cut) { State::NotRun } else { State::Skipped }
                }
            };
        }
        ready.sort_unstable();
        (states, ready)
    }

    /// Whether a step may begin or go on.
    fn may_run(&self, at: usize, is_failing: bool) -> bool {
        let is_for_failures = self.plan.steps()[at].condition.is_for_failures();
        self.wish.is_none() && (!is_failing || is_for_failures)
    }

    /// Whether a step has failed and the others are to end for it.
    fn is_failing(&self) -> bool {
        !self.rules.keep_going && (0..self.tracks.len()).any(|at| self.has_failed(at))
    }

    /// Whether a step has failed for good.
    fn has_failed(&self, at: usize) -> bool {
        let track = &self.tracks[at];
        match track.last {
            Some(StepEnd::Failed { again, .. }) if track.live.is_none() => {
                !again || track.failures > self.plan.steps()[at].retries
            }
            Some(_) | None => false,
        }
    }

    fn verdict(&self, states: &[State]) -> Verdict {
        if self.wish.is_some() && states.iter().copied().any(is_cut) {
            Verdict::Stopped
        } else if states.contains(&State::Failed) {
            Verdict::Failed
        } else {
            Verdict::Ok
        }
    }

    fn place(&self, step: &str) -> Result<usize, Misfit> {
        self.plan.find(step).ok_or_else(|| Misfit(format!("there is no step `{step}`")))
    }
}

/// Whether a step has not come to an end of its own because its workflow was ended.
const fn is_cut(state: State) -> bool {
    matches!(state, State::Stopped | State::NotRun)
}
