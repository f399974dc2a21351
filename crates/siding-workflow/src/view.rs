//! The JSON view of a workflow.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::store::StateDir;
use siding_model::id::TaskId;
use siding_model::process::UnixMs;
use siding_model::task_view::QueuedView;

use super::load::LoadedWorkflow;
use super::plan::{Plan, WorkflowStep};
use super::record::{StepEnd, WorkflowVerdict};
use super::state::StepProgress;
use super::step_status::StepStatus;
use super::text::ms_between;

/// Whether a workflow is planned or running, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The file has not been run.
    Planned,
    /// A task runs the workflow.
    Running,
    /// No process runs the workflow, although it has not ended. The workflow can be resumed.
    Interrupted,
    /// The workflow has ended, and no step failed.
    Ok,
    /// The workflow has ended, and a step failed.
    Failed,
    /// The workflow was stopped before all steps were finished; it can be resumed.
    Stopped,
}

impl RunState {
    /// Returns the value used in JSON.
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

/// A workflow and its steps, as shown by `siding workflow show --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "workflow")]
pub struct WorkflowView {
    /// The workflow's id, which is the id of its first task; null for a file that has not been run.
    pub workflow_id: Option<TaskId>,
    /// The `name` in the file; null if the file has none.
    pub name: Option<String>,
    /// The path of the workflow's file.
    pub file: String,
    /// Whether the workflow runs or how it ended.
    pub state: RunState,
    /// The tasks that have run the workflow, the newest last.
    pub tasks: Vec<TaskId>,
    /// The time of the start, in RFC 3339; null for a file that has not been run.
    pub started_at: Option<String>,
    /// Milliseconds from the start to the last record, or until now while the workflow runs.
    pub elapsed_ms: Option<u64>,
    /// The steps, in the order of the file.
    pub steps: Vec<StepView>,
}

/// A step of the file, or one combination of values of a step's matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepView {
    /// The step's id, with the values of its matrix.
    pub id: String,
    /// Whether the step runs or how it ended.
    pub state: StepStatus,
    /// The ids of the steps that must finish before this one.
    pub needs: Vec<String>,
    /// The condition under which the step runs once its needs are finished.
    pub condition: String,
    /// Number of steps in the longest chain of needs before this step.
    pub layer: usize,
    /// Number of attempts that have started.
    pub attempt: u32,
    /// Maximum number of failed attempts; stopped and lost attempts are not counted.
    pub attempts: u32,
    /// The task of the last attempt.
    pub task_id: Option<TaskId>,
    /// Milliseconds from the start of the last attempt to its end, or until now.
    pub elapsed_ms: Option<u64>,
    /// The status of the last attempt's job that waits in the queue of a cluster; null outside of a
    /// queue. The state is then `running`.
    pub queued: Option<QueuedView>,
    /// Why the last attempt failed or was lost.
    pub why: Option<String>,
}

impl WorkflowView {
    /// Returns the view of a file that has not been run.
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
            started_at: None,
            elapsed_ms: None,
            steps: steps.collect(),
        }
    }

    /// Returns the view of a workflow that has started. `is_carried_out` is true if the workflow's
    /// newest task is running.
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
            started_at: Some(workflow.started_at.rfc3339()),
            elapsed_ms: Some(ms_between(workflow.started_at, until)),
            steps: steps.collect(),
        }
    }

    /// Adds the status of the jobs that wait in the queue of a cluster, from the tasks of the
    /// steps.
    pub fn add_queued_steps(&mut self, root: &StateDir) {
        for step in self.steps.iter_mut().filter(|step| step.state == StepStatus::Running) {
            // A step that has just begun may have no task yet.
            let read = step.task_id.and_then(|id| root.task_dir(id).ok()?.read().ok());
            step.queued = read.and_then(|read| QueuedView::from_state(&read.state));
        }
    }
}

impl StepView {
    /// Returns the state in words for a person: `queued` for a step whose job waits in the queue of
    /// a cluster.
    #[must_use]
    pub fn state_text(&self) -> String {
        if self.queued.is_some() {
            "queued".to_owned()
        } else {
            self.state.as_str().replace('_', " ")
        }
    }
}

fn step_view(
    plan: &Plan,
    step: &WorkflowStep,
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
        queued: None,
        why: match &track.last_end {
            Some(StepEnd::Failed { why, .. } | StepEnd::Lost { why }) => Some(why.clone()),
            Some(StepEnd::Ok | StepEnd::Stopped) | None => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::render_svg;
    use super::*;

    #[test]
    fn a_step_whose_job_waits_is_shown_as_queued() {
        let file = Path::new("flow.toml");
        let plan = Plan::parse(file, "[[step]]\nid = \"job\"\nrun = \"true\"\n").expect("valid");
        let mut view = WorkflowView::from_plan(file, &plan);
        view.steps[0].state = StepStatus::Running;
        assert_eq!(view.steps[0].state_text(), "running");
        view.steps[0].queued = Some(QueuedView {
            job_id: Some("7".to_owned()),
            state: "PENDING".to_owned(),
            reason: None,
            expected_start: None,
        });
        assert_eq!(view.steps[0].state_text(), "queued");
        assert!(render_svg(&view).contains(">queued</text>"), "{}", render_svg(&view));
        view.steps[0].queued = None;
        view.steps[0].state = StepStatus::NotRun;
        assert_eq!(view.steps[0].state_text(), "not run");
    }
}
