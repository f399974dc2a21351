//! Starting a consolidation as a task, and interrupting it.

use std::path::PathBuf;
use std::time::Duration;

use siding_core::settings::{self, Environment, SettingsError};
use siding_core::task::launch::IdleShim;
use siding_core::task::run::request::{self, TaskRequest, WorkingDirectory};
use siding_core::task::run::{LaunchResult, RunError};
use siding_core::task::stop::{self, StopOptions};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_tools::tools::{TaskScope, tasks};
use siding_tools::{SHIM_PROGRAM, ToolContext};

use super::schedule::IdleTime;

/// The subcommand that runs a consolidation.
pub const DREAM_SUBCOMMAND: &str = siding_model::spec::self_command::DREAM_ARG;

/// Parameters of a consolidation, which become the arguments of `siding dream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidationRequest {
    /// The session whose transcript is read.
    pub session: SessionId,
    /// The directory whose notes are written; `None` means the working directory of the
    /// conversation.
    pub cwd: Option<PathBuf>,
    /// The model's name, as given by the user.
    pub model: String,
    /// Tokens that the model may read and write in total.
    pub max_tokens: u64,
    /// Whether to leave the notes unchanged and only print the diff.
    pub dry_run: bool,
}

impl ConsolidationRequest {
    /// Returns the arguments of the `siding` command line.
    #[must_use]
    pub fn command_args(&self) -> Vec<String> {
        let mut words = vec![
            DREAM_SUBCOMMAND.to_owned(),
            format!("--session={}", self.session),
            format!("--model={}", self.model),
            format!("--max-tokens={}", self.max_tokens),
        ];
        words.extend(self.cwd.as_ref().map(|cwd| format!("--cwd={}", cwd.display())));
        words.extend(self.dry_run.then(|| "--dry-run".to_owned()));
        words
    }
}

/// When an idle agent consolidates its notes, and the limits of each run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleConsolidationConfig {
    /// Idle time after which a run is due.
    pub idle_time: IdleTime,
    /// The model's name, as given by the user.
    pub model: String,
    /// Tokens that the model may read and write in total.
    pub max_tokens: u64,
    /// Time after which the task of a run is stopped.
    pub deadline: Duration,
}

/// Why a consolidation was not started.
#[derive(Debug, thiserror::Error)]
pub enum ConsolidationStartError {
    /// The settings cannot be read.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The task cannot be started.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Starts a consolidation in the background. Returns its task, or the task of an identical
/// consolidation that is already running.
///
/// # Errors
///
/// [`ConsolidationStartError`] if the settings cannot be read or the task cannot be started.
pub fn start(
    host: &ToolContext,
    dream: &ConsolidationRequest,
    life: Duration,
) -> Result<TaskId, ConsolidationStartError> {
    let settings = settings::load(&Environment::from_process())?;
    let command = request::self_command(dream.command_args());
    let cwd = WorkingDirectory::resolve(dream.cwd.as_deref())?;
    let session_id = host.live_session().map_err(RunError::from)?;
    let task = TaskRequest::in_background(command, cwd, session_id)
        .kind(TaskKind::Dream)
        .timeout(Some(life))
        // The task sends requests to a model, as the agent does; a network policy could block them.
        .without_net_policy()
        .without_stalls()
        .prepare(&host.root, &settings)?;
    match task.start_unless_duplicate(&host.root, IdleShim::start(SHIM_PROGRAM))? {
        LaunchResult::Started(_) => Ok(task.id()),
        LaunchResult::Duplicate(first) => Ok(first),
    }
}

/// Stops the consolidations of an agent's session at the start of a turn. A consolidation that
/// cannot be stopped in time ends by itself when it detects the turn.
pub fn interrupt(host: &ToolContext) {
    let Ok(views) = tasks(host, TaskScope::Session) else { return };
    let dreams = views.iter().filter(|view| view.kind == TaskKind::Dream && view.outcome.is_none());
    for view in dreams {
        let how = StopOptions { requested_by: "agent", grace: None, signal: None };
        let _best_effort = stop::stop(&host.root, SHIM_PROGRAM, view.task_id, how);
    }
}
