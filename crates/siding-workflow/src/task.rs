//! The task that runs a workflow: its command line and its specification.

use std::path::Path;
use std::time::Duration;

use siding_core::processes::siding_process::SELF_EXE;
use siding_core::store::StateDir;
use siding_core::task::launch::IdleShim;
use siding_core::task::run::request::{TaskRequest, WorkingDirectory};
use siding_core::task::run::{self, RunError};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::record::checksum;
use siding_model::settings::Settings;
use siding_model::signal::Signal;
use siding_model::spec::{TaskCommand, self_command};

use super::plan::Plan;

/// The subcommand that runs a workflow.
pub const WORKFLOW_SUBCOMMAND: &str = self_command::WORKFLOW_ARG;
/// The flag for the path of the file.
pub const FILE_FLAG: &str = self_command::WORKFLOW_FILE_FLAG;
/// The flag for the checksum of the file's content when it was reviewed.
pub const CHECKSUM_FLAG: &str = self_command::WORKFLOW_CHECKSUM_FLAG;
/// The flag that lets independent steps continue after a failure.
pub const KEEP_GOING_FLAG: &str = "--keep-going";
/// The flag for the number of concurrent steps.
pub const MAX_PARALLEL_FLAG: &str = "--max-parallel";
/// The flag for the id of the workflow to resume.
pub const RESUME_FLAG: &str = self_command::WORKFLOW_RESUME_FLAG;

/// The signal that asks the runner to stop.
pub const STOP_SIGNAL: Signal = Signal::TERM;
/// Time added to the grace of the steps, so that the runner can record the ends of the steps.
const EXTRA_GRACE: Duration = Duration::from_secs(15);
/// Time added to the grace of the steps. When both have passed, the runner stops waiting for the
/// ends of the steps. The time is shorter than `EXTRA_GRACE`, so that the runner can print which
/// steps still run.
const EXTRA_WAIT: Duration = Duration::from_secs(10);

/// Returns the checksum of a file's content. The runner refuses a file whose checksum differs from
/// that of the reviewed content.
#[must_use]
pub fn content_checksum(text: &str) -> u32 {
    checksum(text.as_bytes())
}

/// Returns the time between the stop signal to the runner and SIGKILL.
#[must_use]
pub fn stop_grace(settings: &Settings) -> Duration {
    settings.kill_grace.saturating_add(EXTRA_GRACE)
}

/// Returns the time for which a runner that was asked to stop waits for the ends of its steps.
#[must_use]
pub(super) fn stop_limit(settings: &Settings) -> Duration {
    settings.kill_grace.saturating_add(EXTRA_WAIT)
}

/// Returns the name of a workflow: the `name` in its file, otherwise the file's own name.
#[must_use]
pub fn workflow_name(plan: &Plan, file: &Path) -> String {
    let file = || file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    plan.name.clone().unwrap_or_else(file)
}

/// Starts a workflow in the background. `text` is the content of the file when it was reviewed.
///
/// # Errors
///
/// [`RunError`] if the task cannot be prepared or started.
pub fn start(
    root: &StateDir,
    settings: &Settings,
    session_id: SessionId,
    cwd: &Path,
    (file, text, plan): (&str, &str, &Plan),
) -> Result<TaskId, RunError> {
    let program = std::env::current_exe().map_err(RunError::Shim)?.to_string_lossy().into_owned();
    let number = content_checksum(text).to_string();
    let argv =
        [program.as_str(), WORKFLOW_SUBCOMMAND, FILE_FLAG, file, CHECKSUM_FLAG, number.as_str()]
            .map(str::to_owned)
            .to_vec();
    let cap = settings.max_elapsed_hard_cap;
    let command = TaskCommand::Argv { argv };
    let cwd = WorkingDirectory::resolve(Some(cwd))?;
    let task = TaskRequest::in_background(command, cwd, session_id)
        .kind(TaskKind::LocalWorkflow)
        .name(workflow_name(plan, Path::new(file)))
        .timeout(Some(plan.timeout.unwrap_or(cap)))
        .stop_with(STOP_SIGNAL, stop_grace(settings))
        // The runner prints nothing between the starts and ends of steps, and each step has its own
        // stall detection.
        .without_stalls()
        .prepare(root, settings)?;
    let link = task.start(root, IdleShim::start(SELF_EXE))?;
    run::wait_until_started(root, SELF_EXE, &task, link)?;
    Ok(task.id())
}
