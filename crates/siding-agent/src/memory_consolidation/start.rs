//! Starting a dream as a task, and ending one.

use std::path::PathBuf;
use std::time::Duration;

use siding_core::launch::IdleShim;
use siding_core::run::request;
use siding_core::run::{self, Duplicates, LaunchEnv, LaunchResult, RunError};
use siding_core::settings::{self, Environment, SettingsError};
use siding_core::stop::{self, StopOptions};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::net::NetPolicy;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::spec::StdinMode;
use siding_tools::tools::{TaskScope, tasks};
use siding_tools::{SHIM_PROGRAM, ToolContext};

use super::schedule::IdleTime;

/// The first argument of the program that dreams.
pub const DREAM_SUBCOMMAND: &str = siding_model::spec::self_command::DREAM_ARG;

/// What dream is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidationRequest {
    /// Whose transcript is read.
    pub session: SessionId,
    /// Whose notes are written; the conversation's own directory when none is given.
    pub cwd: Option<PathBuf>,
    /// Who is asked, as it is named.
    pub model: String,
    /// Tokens that the model may read and write in all.
    pub max_tokens: u64,
    /// Whether the notes stay as they are.
    pub dry_run: bool,
}

impl ConsolidationRequest {
    /// Returns the arguments of the program that dreams.
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

/// When an idle agent begins dreams that nobody has asked for, and what each may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleConsolidationConfig {
    /// When it is time.
    pub idle_time: IdleTime,
    /// Who is asked, as it is named.
    pub model: String,
    /// Tokens that the model may read and write in all.
    pub max_tokens: u64,
    /// How long it may live.
    pub deadline: Duration,
}

/// Why no dream was started.
#[derive(Debug, thiserror::Error)]
pub enum ConsolidationStartError {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The task.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Starts a dream in the background for an agent that is idle. Returns the task, or the one that dreams
/// already.
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
    // It asks the model as the agent does, whose commands alone the policy is for.
    spec.net = NetPolicy::Unrestricted;
    // A model that thinks is silent.
    spec.stall_after_ms = 0;
    let given = LaunchEnv { env: &[], env_clear: false, duplicates: Duplicates::Refused };
    match run::start_task(&host.root, &spec, &given, IdleShim::start(SHIM_PROGRAM))? {
        LaunchResult::Started(_) => Ok(spec.task_id),
        LaunchResult::Duplicate(first) => Ok(first),
    }
}

/// Ends the dreams of an agent's session, since a turn begins. One that is not ended in time ends
/// itself when it sees that.
pub fn interrupt(host: &ToolContext) {
    let Ok(views) = tasks(host, TaskScope::Session) else { return };
    let dreams = views.iter().filter(|view| view.kind == TaskKind::Dream && view.outcome.is_none());
    for view in dreams {
        let how = StopOptions { requested_by: "agent", grace: None, signal: None };
        let _best_effort = stop::stop(&host.root, SHIM_PROGRAM, view.task_id, how);
    }
}
