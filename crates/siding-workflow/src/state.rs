//! The state of a workflow and the decisions on its next actions.
//!
//! ```text
//! waiting ──► running ──► ok
//!    │           ├──────► failed       no attempt is left, or none is allowed
//!    │           └──────► stopped      by the workflow; waiting again when it is resumed
//!    ├─► skipped                       its condition is not met
//!    └─► not_run                       the workflow is ending
//! ```
//!
//! A step is waiting again if its attempt failed or was lost and another attempt may start.

use siding_model::id::TaskId;
use siding_model::process::UnixMs;

use super::plan::Plan;
use super::record::{RunOptions, StepEnd, WorkflowRecord, WorkflowVerdict};
use super::step_status::StepStatus;

/// An attempt whose start is recorded and whose end is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningAttempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The task of the attempt; `None` if the task's specification could not be built.
    pub task: Option<TaskId>,
    /// Whether the task is known to have been recorded.
    pub is_started: bool,
}

/// The attempts of a step so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepProgress {
    /// Number of attempts that have started.
    pub attempts_started: u32,
    /// Number of attempts that failed; stopped and lost attempts are not counted.
    pub failed_attempts: u32,
    /// The attempt that is running now, if any.
    pub running: Option<RunningAttempt>,
    /// How the last finished attempt ended; `None` if no attempt has finished.
    pub last_end: Option<StepEnd>,
    /// The task of the last attempt, if it has one.
    pub task: Option<TaskId>,
    /// The time at which the last attempt started; `None` before the first attempt.
    pub started_at: Option<UnixMs>,
    /// The time at which the last attempt ended; `None` while it is running, and before the first
    /// attempt.
    pub ended_at: Option<UnixMs>,
}

/// The error for a record that cannot follow the previous records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRecord(String);

/// The next attempt of a step that is ready to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepStart {
    /// Index of the step in the plan.
    pub step: usize,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// The next actions of the runner. Without a step to start and without a verdict, the runner waits
/// for an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NextActions {
    /// Steps to start, in this order.
    pub start: Vec<StepStart>,
    /// The indexes of running steps to stop, including those that the runner has already asked to
    /// stop.
    pub stop: Vec<usize>,
    /// The verdict; `None` until all steps are finished.
    pub verdict: Option<WorkflowVerdict>,
}

/// A plan and the state of its run. Only records change this state.
#[derive(Debug, Clone)]
pub struct WorkflowState {
    plan: Plan,
    options: RunOptions,
    progress: Vec<StepProgress>,
    /// The name of the signal that asked the run to stop, if there was one.
    stop_requested_by: Option<String>,
    recorded_verdict: Option<WorkflowVerdict>,
}

impl WorkflowState {
    /// Creates the state of a workflow that has not started.
    #[must_use]
    pub fn new(plan: Plan, rules: RunOptions) -> Self {
        let tracks = vec![StepProgress::default(); plan.steps().len()];
        Self {
            plan,
            options: rules,
            progress: tracks,
            stop_requested_by: None,
            recorded_verdict: None,
        }
    }

    /// Returns the plan. The step indexes in all other methods refer to it.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the progress of each step, in the order of the plan.
    #[must_use]
    pub fn step_progress(&self) -> &[StepProgress] {
        &self.progress
    }

    /// Returns the recorded verdict, if the run has ended.
    #[must_use]
    pub const fn recorded_verdict(&self) -> Option<WorkflowVerdict> {
        self.recorded_verdict
    }

    /// Checks whether a record can follow the current state.
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`], with the rule that the record violates.
    pub(super) fn check_record(&self, record: &WorkflowRecord) -> Result<(), InvalidRecord> {
        let misfit = |what: String| Err(InvalidRecord(what));
        match (record, self.recorded_verdict) {
            (WorkflowRecord::Opened { .. }, _) => misfit("the workflow started twice".to_owned()),
            (WorkflowRecord::Resumed { .. }, None | Some(WorkflowVerdict::Stopped)) => Ok(()),
            (_, Some(_)) => misfit("a record follows the end of the workflow".to_owned()),
            (WorkflowRecord::Began { step, attempt, .. }, None) => {
                let track = &self.progress[self.step_index(step)?];
                if track.running.is_some() || *attempt != track.attempts_started + 1 {
                    return misfit(format!("attempt {attempt} of `{step}` starts out of order"));
                }
                if matches!(track.last_end, Some(StepEnd::Ok)) {
                    return misfit(format!("`{step}` starts again after it succeeded"));
                }
                Ok(())
            }
            (
                WorkflowRecord::Started { step, attempt, .. }
                | WorkflowRecord::Ended { step, attempt, .. },
                None,
            ) => {
                let live = self.progress[self.step_index(step)?].running;
                if live.is_none_or(|live| live.attempt != *attempt) {
                    return misfit(format!(
                        "a record about attempt {attempt} of `{step}`, which is not running"
                    ));
                }
                Ok(())
            }
            (WorkflowRecord::Stopping { .. } | WorkflowRecord::Over { .. }, None) => Ok(()),
        }
    }

    /// Applies a record to the state.
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] if the record cannot follow the state, which is then unchanged.
    pub fn apply(&mut self, record: &WorkflowRecord) -> Result<(), InvalidRecord> {
        self.check_record(record)?;
        match record {
            WorkflowRecord::Opened { .. } => {}
            WorkflowRecord::Resumed { .. } => {
                (self.stop_requested_by, self.recorded_verdict) = (None, None)
            }
            WorkflowRecord::Began { at, step, attempt, task } => {
                let place = self.step_index(step)?;
                let track = &mut self.progress[place];
                track.attempts_started = *attempt;
                let (attempt, task) = (*attempt, *task);
                track.running = Some(RunningAttempt { attempt, task, is_started: false });
                (track.task, track.started_at, track.ended_at) = (task, Some(*at), None);
            }
            WorkflowRecord::Started { step, .. } => {
                let place = self.step_index(step)?;
                if let Some(running) = &mut self.progress[place].running {
                    running.is_started = true;
                }
            }
            WorkflowRecord::Ended { at, step, end, .. } => {
                let place = self.step_index(step)?;
                let track = &mut self.progress[place];
                track.running = None;
                track.failed_attempts += u32::from(matches!(end, StepEnd::Failed { .. }));
                (track.last_end, track.ended_at) = (Some(end.clone()), Some(*at));
            }
            WorkflowRecord::Stopping { by, .. } => self.stop_requested_by = Some(by.clone()),
            WorkflowRecord::Over { verdict, .. } => self.recorded_verdict = Some(*verdict),
        }
        Ok(())
    }

    /// Returns the name of the signal that asked the run to stop, if there was one.
    #[must_use]
    pub fn stop_requested_by(&self) -> Option<&str> {
        self.stop_requested_by.as_deref()
    }

    /// Returns the status of each step, in the order of the plan.
    #[must_use]
    pub fn step_statuses(&self) -> Vec<StepStatus> {
        self.survey_steps().0
    }

    /// Returns the steps to start and to stop now, and the verdict once every step has finished.
    #[must_use]
    pub fn next_actions(&self) -> NextActions {
        if self.recorded_verdict.is_some() {
            return NextActions { verdict: self.recorded_verdict, ..NextActions::default() };
        }
        let (states, ready) = self.survey_steps();
        let is_failing = self.is_failing();
        let running: Vec<usize> =
            (0..states.len()).filter(|at| states[*at] == StepStatus::Running).collect();
        let room = self.options.max_parallel.saturating_sub(running.len());
        let start = |step: &usize| StepStart {
            step: *step,
            attempt: self.progress[*step].attempts_started + 1,
        };
        NextActions {
            start: ready.iter().take(room).map(start).collect(),
            verdict: states
                .iter()
                .all(|state| state.is_finished())
                .then(|| self.compute_verdict(&states)),
            stop: running.into_iter().filter(|at| !self.may_run(*at, is_failing)).collect(),
        }
    }

    /// Returns the status of each step, and the indexes of the steps that are ready to start.
    fn survey_steps(&self) -> (Vec<StepStatus>, Vec<usize>) {
        let is_failing = self.is_failing();
        let mut states = vec![StepStatus::Waiting; self.progress.len()];
        let mut ready = Vec::new();
        for &at in self.plan.order() {
            let (track, step) = (&self.progress[at], &self.plan.steps()[at]);
            let may_run = self.may_run(at, is_failing);
            states[at] = match &track.last_end {
                _ if track.running.is_some() => StepStatus::Running,
                Some(StepEnd::Ok) => StepStatus::Ok,
                Some(StepEnd::Failed { .. }) if self.has_failed(at) || !may_run => {
                    StepStatus::Failed
                }
                Some(StepEnd::Stopped | StepEnd::Lost { .. }) if !may_run => StepStatus::Stopped,
                // The step has started before, so its needs are finished, and their results cannot
                // have changed.
                Some(_) => {
                    ready.push(at);
                    StepStatus::Waiting
                }
                None if !step.needs.iter().all(|need| states[*need].is_finished()) => {
                    StepStatus::Waiting
                }
                None if step.condition.is_met(&step.needs, &states) => {
                    if may_run {
                        ready.push(at);
                        StepStatus::Waiting
                    } else {
                        StepStatus::NotRun
                    }
                }
                None => {
                    let is_cut = |need: &usize| is_cut_short(states[*need]);
                    if step.needs.iter().any(is_cut) {
                        StepStatus::NotRun
                    } else {
                        StepStatus::Skipped
                    }
                }
            };
        }
        ready.sort_unstable();
        (states, ready)
    }

    /// Returns whether a step may start or keep running.
    fn may_run(&self, at: usize, is_failing: bool) -> bool {
        let is_for_failures = self.plan.steps()[at].condition.runs_after_failure();
        self.stop_requested_by.is_none() && (!is_failing || is_for_failures)
    }

    /// Returns whether a failed step prevents the other steps from running.
    fn is_failing(&self) -> bool {
        !self.options.keep_going && (0..self.progress.len()).any(|at| self.has_failed(at))
    }

    /// Returns whether a step has failed and will not be retried.
    fn has_failed(&self, at: usize) -> bool {
        let track = &self.progress[at];
        match track.last_end {
            Some(StepEnd::Failed { again, .. }) if track.running.is_none() => {
                !again || track.failed_attempts > self.plan.steps()[at].retries
            }
            Some(_) | None => false,
        }
    }

    fn compute_verdict(&self, states: &[StepStatus]) -> WorkflowVerdict {
        if self.stop_requested_by.is_some() && states.iter().copied().any(is_cut_short) {
            WorkflowVerdict::Stopped
        } else if states.contains(&StepStatus::Failed) {
            WorkflowVerdict::Failed
        } else {
            WorkflowVerdict::Ok
        }
    }

    fn step_index(&self, step: &str) -> Result<usize, InvalidRecord> {
        self.plan
            .step_index(step)
            .ok_or_else(|| InvalidRecord(format!("there is no step `{step}`")))
    }
}

/// Returns whether a step was stopped or did not start because the workflow was ending.
const fn is_cut_short(state: StepStatus) -> bool {
    matches!(state, StepStatus::Stopped | StepStatus::NotRun)
}
