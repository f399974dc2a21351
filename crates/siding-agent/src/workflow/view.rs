//! How a workflow stands, as JSON.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use siding_model::id::TaskId;
use siding_model::process::UnixMs;

use super::load::LoadedWorkflow;
use super::plan::{Plan, Step};
use super::record::{StepEnd, WorkflowVerdict};
use super::state::{StepProgress, StepStatus};
use super::text::ms_between;

/// How a workflow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It is a file, and has not begun.
    Planned,
    /// It is carried out.
    Running,
    /// Nobody carries it out any more, and it is not over: it can go on.
    Interrupted,
    /// No step has failed.
    Ok,
    /// A step has failed.
    Failed,
    /// It was stopped before all was done. It can go on.
    Stopped,
}

impl RunState {
    /// Returns its word, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// A workflow and its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkflowView {
    /// Its name: the id of the task that began it. None of a file that was not begun.
    pub workflow_id: Option<TaskId>,
    /// Its name for people.
    pub name: Option<String>,
    /// Its file.
    pub file: String,
    /// How it stands.
    pub state: RunState,
    /// The tasks that have carried it out, the newest last.
    pub tasks: Vec<TaskId>,
    /// When it began, in RFC 3339.
    pub began_at: Option<String>,
    /// Milliseconds from its beginning to its end, or until now.
    pub elapsed_ms: Option<u64>,
    /// Its steps, in the order of the file.
    pub steps: Vec<StepView>,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepView {
    /// Its id, with the values of its matrix.
    pub id: String,
    /// How it stands.
    pub state: StepStatus,
    /// The steps that must be over before.
    pub needs: Vec<String>,
    /// When it runs, once they are.
    pub condition: String,
    /// How many steps are before it on the longest way to it.
    pub layer: usize,
    /// Attempts that were begun.
    pub attempt: u32,
    /// Attempts that may be.
    pub attempts: u32,
    /// The task of the last attempt.
    pub task_id: Option<TaskId>,
    /// Milliseconds from the beginning of the last attempt to its end, or until now.
    pub elapsed_ms: Option<u64>,
    /// Why it did not go well.
    pub why: Option<String>,
}

impl WorkflowView {
    /// Shows a file that was not begun.
    #[must_use]
    pub fn from_plan(file: &Path, plan: &Plan) -> Self {
        let track = StepProgress::default();
        let steps = plan.steps();
        let steps =
            steps.iter().map(|step| step_view(plan, step, StepStatus::Waiting, &track, None));
        Self {
            workflow_id: None,
            name: plan.name.clone(),
            file: file.display().to_string(),
            state: RunState::Planned,
            tasks: Vec::new(),
            began_at: None,
            elapsed_ms: None,
            steps: steps.collect(),
        }
    }

    /// Shows one that has begun. `is_carried_out` says whether its newest task runs.
    #[must_use]
    pub fn from_workflow(workflow: &LoadedWorkflow, is_carried_out: bool, now: UnixMs) -> Self {
        let (course, plan) = (&workflow.state, workflow.state.plan());
        let state = match course.recorded_verdict() {
            Some(WorkflowVerdict::Ok) => RunState::Ok,
            Some(WorkflowVerdict::Failed) => RunState::Failed,
            Some(WorkflowVerdict::Stopped) => RunState::Stopped,
            None if is_carried_out => RunState::Running,
            None => RunState::Interrupted,
        };
        let until = if state == RunState::Running { now } else { workflow.last_recorded_at };
        let states = course.step_statuses();
        let steps = plan.steps().iter().zip(states).zip(course.step_progress());
        let steps =
            steps.map(|((step, state), track)| step_view(plan, step, state, track, Some(now)));
        Self {
            workflow_id: workflow.tasks.first().copied(),
            name: plan.name.clone(),
            file: workflow.header.file.clone(),
            state,
            tasks: workflow.tasks.clone(),
            began_at: Some(workflow.started_at.rfc3339()),
            elapsed_ms: Some(ms_between(workflow.started_at, until)),
            steps: steps.collect(),
        }
    }
}

fn step_view(
    plan: &Plan,
    step: &Step,
    state: StepStatus,
    track: &StepProgress,
    until: Option<UnixMs>,
) -> StepView {
    let needs = step.needs.iter().map(|need| plan.steps()[*need].id.clone());
    let elapsed = track.started_at.zip(track.ended_at.or(until));
    StepView {
        id: step.id.clone(),
        state,
        needs: needs.collect(),
        condition: step.condition.to_string(),
        layer: step.layer,
        attempt: track.attempts_started,
        attempts: step.retries + 1,
        task_id: track.task,
        elapsed_ms: elapsed.map(|(began, until)| ms_between(began, until)),
        why: match &track.last_end {
            Some(StepEnd::Failed { why, .. } | StepEnd::Lost { why }) => Some(why.clone()),
            Some(StepEnd::Ok | StepEnd::Stopped) | None => None,
        },
    }
}
