//! Starting a consolidation as a task, and interrupting it.

use std::path::PathBuf;
use std::time::Duration;

use siding_core::settings::{self, Environment, SettingsError};
use siding_core::task::launch::IdleShim;
use siding_core::task::run::request;
use siding_core::task::run::{self, Duplicates, LaunchEnv, LaunchResult, RunError};
use siding_core::task::stop::{self, StopOptions};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::net::NetPolicy;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::spec::StdinMode;
use siding_tools::tools::{TaskScope, tasks};
use siding_tools::{SHIM_PROGRAM, ToolContext};

use super::schedule::IdleTime;

/// The subcommand that runs a consolidation.
pub const DREAM_SUBCOMMAND: &str = siding_model::spec::self_command::DREAM_ARG;

/// A consolidation to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidationRequest {
    /// The session whose transcript is read.
    pub session: SessionId,
    /// The directory whose notes are written; `None` is the working directory of the conversation.
    pub cwd: Option<PathBuf>,
    /// The model's name, as given by the user.
    pub model: String,
    /// Tokens that the model may read and write in total.
    pub max_tokens: u64,
    /// Whether to leave the notes unchanged.
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
    /// When a run is due.
    pub idle_time: IdleTime,
    /// The model's name, as given by the user.
    pub model: String,
    /// Tokens that the model may read and write in total.
    pub max_tokens: u64,
    /// The deadline of the task.
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

/// Starts a consolidation in the background. Returns its task, or the task of the consolidation
/// that is already running.
///
/// # Errors
///
/// [`ConsolidationStartError`].
pub fn start(
    host: &ToolContext,
    dream: &ConsolidationRequest,
    life: Duration,
) -> Result<TaskId, ConsolidationStartError> {
    let settings = settings::load(&Environment::from_process())?;
    let order = request::TaskRequest {
        kind: TaskKind::Dream,
        command: request::self_command(dream.command_args()),
        cwd: request::resolve_directory(dream.cwd.as_deref())?,
        session_id: host.live_session().map_err(RunError::from)?,
        name: None,
        stdin: StdinMode::Null,
        placement: Placement::Background { why: BackgroundReason::Asked },
        deadline: life.min(settings.max_elapsed_hard_cap),
        keep: false,
        monitor: None,
        wait_for: Vec::new(),
    };
    let mut spec = request::task_spec(&host.root, &settings, order)?;
    // The network policy is for the agent's commands; this task talks to the model, as the agent
    // itself does.
    spec.net = NetPolicy::Unrestricted;
    // Silence while the model answers is no stall.
    spec.stall_after_ms = 0;
    let given = LaunchEnv { env: &[], env_clear: false, duplicates: Duplicates::Refused };
    match run::start_task(&host.root, &spec, &given, IdleShim::start(SHIM_PROGRAM))? {
        LaunchResult::Started(_) => Ok(spec.task_id),
        LaunchResult::Duplicate(first) => Ok(first),
    }
}

/// Stops the consolidations of an agent's session because a turn starts. A consolidation that
/// cannot be stopped in time ends by itself when it detects the turn.
pub fn interrupt(host: &ToolContext) {
    let Ok(views) = tasks(host, TaskScope::Session) else { return };
    let dreams = views.iter().filter(|view| view.kind == TaskKind::Dream && view.outcome.is_none());
    for view in dreams {
        let how = StopOptions { requested_by: "agent", grace: None, signal: None };
        let _best_effort = stop::stop(&host.root, SHIM_PROGRAM, view.task_id, how);
    }
}
