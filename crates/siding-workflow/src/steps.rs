//! Converts a step into a task, and the outcome of the task into the outcome of the step.

use std::path::Path;

use siding_core::processes::siding_process::SELF_EXE;
use siding_core::store::StateDir;
use siding_core::task::recover::{Recovery, RecoveryOutcome};
use siding_core::task::run::request::{TaskRequest, WorkingDirectory};
use siding_core::task::run::{ExecutorChoice, PreparedTask, RunError};
use siding_model::executor::{ArrayElement, SlurmOptions};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::journal::TaskState;
use siding_model::outcome::Outcome;
use siding_model::settings::Settings;
use siding_model::spec::{OnLeaderExit, TaskCommand};

use super::error::WorkflowError;
use super::plan::{StepAction, WorkflowStep};
use super::record::StepEnd;
use super::state::RunningAttempt;

/// The requester recorded when the workflow stops a step.
pub(super) const STOPPED_BY_WORKFLOW: &str = "workflow";
/// The requester recorded when the end of a session stops a task.
const STOPPED_BY_SESSION: &str = "session";
/// The environment variable with the id of the workflow.
const WORKFLOW_VARIABLE: &str = "SIDING_WORKFLOW";
/// The environment variable with the id of the step.
const STEP_VARIABLE: &str = "SIDING_STEP";

/// Checks whether a step can name this executor in `on`.
///
/// # Errors
///
/// The reason, with the known names.
pub fn check_executor(name: &str, settings: &Settings) -> Result<(), String> {
    ExecutorChoice::find(Some(name), settings).map(drop).map_err(|error| error.to_string())
}

/// Prepares the task for an attempt of a step. `program` is the path of siding,
/// which runs the prompt of a step. `array` is the job array to which the step's job belongs if the
/// executor is a cluster.
pub(super) fn prepare_task(
    root: &StateDir,
    settings: &Settings,
    (workflow, session): (TaskId, &SessionId),
    cwd: &str,
    program: &str,
    (step, array): (&WorkflowStep, Option<ArrayElement>),
) -> Result<PreparedTask, RunError> {
    let (kind, command) = match &step.action {
        StepAction::Command(text) => {
            let (text, shell) = (text.clone(), settings.shell.clone());
            (TaskKind::LocalBash, TaskCommand::Shell { text, shell })
        }
        StepAction::Prompt { text, model } => {
            let mut argv = vec![program.to_owned(), "agent".to_owned(), format!("--prompt={text}")];
            argv.extend(model.as_ref().map(|model| format!("--model={model}")));
            (TaskKind::LocalAgent, TaskCommand::Argv { argv })
        }
    };
    let executor = match &step.action {
        StepAction::Command(_) => {
            let options = SlurmOptions { array, ..SlurmOptions::default() };
            let choice = ExecutorChoice::find(step.on.as_deref(), settings)?;
            choice.map(|choice| choice.with_job_options(options)).transpose()?
        }
        StepAction::Prompt { .. } => None,
    };
    let base = Path::new(cwd);
    let directory = step.cwd.as_ref().map_or_else(|| base.to_owned(), |below| base.join(below));
    let cwd = WorkingDirectory::resolve(Some(&directory))?;
    TaskRequest::in_background(command, cwd, session.clone())
        .kind(kind)
        .name(step.id.clone())
        .timeout(step.timeout)
        .env(step.env.clone())
        .executor(executor)
        .label_env(labels(workflow, step))
        // The remaining processes of a step are terminated when its leader exits. They could hold a
        // port, for example, that the next step needs.
        .on_leader_exit(OnLeaderExit::Reap)
        .prepare(root, settings)
}

/// Returns the environment variables that identify the workflow and the step.
fn labels(workflow: TaskId, step: &WorkflowStep) -> Vec<(String, String)> {
    let labels = [(WORKFLOW_VARIABLE, workflow.to_string()), (STEP_VARIABLE, step.id.clone())];
    labels.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// Repairs the task of a recorded attempt. Returns how the attempt ended if it has no task.
pub(super) fn end_without_task(
    root: &StateDir,
    id: TaskId,
    live: RunningAttempt,
) -> Result<Option<StepEnd>, WorkflowError> {
    if let Some(task) = live.task {
        let io = |source| WorkflowError::Io { id, doing: "read the boot id", source };
        let recovery = Recovery::new(root, SELF_EXE).map_err(io)?;
        let found = recovery.recover_task(task).map_err(|error| RunError::Watch(error.into()))?;
        if !matches!(found, RecoveryOutcome::NeverRecorded) {
            return Ok(None);
        }
    }
    Ok(Some(if live.is_started {
        // The step may have succeeded, and a retry would run it a second time.
        let why = "its result is unknown, because its task was removed";
        StepEnd::Failed { why: why.to_owned(), again: false }
    } else {
        StepEnd::Lost { why: "its task was never started".to_owned() }
    }))
}

/// Returns the end of an attempt whose task cannot be started or watched.
pub(super) fn failed_watch(error: &RunError) -> StepEnd {
    if let RunError::NotStarted { doing } = error {
        return StepEnd::Failed { why: format!("its shim {doing}"), again: true };
    }
    // The task may still be running; a retry would then run the step twice concurrently.
    StepEnd::Failed { why: error.to_string(), again: false }
}

/// Returns how an attempt ended; `None` while its task is running. `is_resumed` is true if an
/// earlier runner started the attempt, so that the task may have ended while no runner existed.
pub(super) fn step_end(state: &TaskState, is_resumed: bool) -> Option<StepEnd> {
    let outcome = state.lifecycle.outcome()?;
    let why = outcome.to_string();
    Some(match outcome {
        Outcome::Exited { code: 0 } => StepEnd::Ok,
        Outcome::Stopped { by } if by == STOPPED_BY_WORKFLOW => StepEnd::Stopped,
        Outcome::Stopped { by } if by == STOPPED_BY_SESSION && is_resumed => StepEnd::Lost { why },
        Outcome::Lost { .. } if is_resumed => StepEnd::Lost { why },
        Outcome::Stopped { .. } => StepEnd::Failed { why, again: false },
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::Deadline { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart { .. }
        | Outcome::Lost { .. }
        | _ => StepEnd::Failed { why, again: true },
    })
}
