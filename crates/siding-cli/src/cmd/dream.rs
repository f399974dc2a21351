//! `siding dream`: lets a model update the notes on a project from a conversation.
//!
//! The command starts this program again in a task. The task reads the transcript and queries the
//! model. It has a deadline and can be stopped; a stop leaves the notes unchanged.

use std::path::PathBuf;
use std::process::ExitCode;

use siding_agent::memory_consolidation::{
    self, ConsolidationLimits, ConsolidationOutcome, ConsolidationRequest, IdleConsolidationConfig,
    IdleTime,
};
use siding_agent::message::Usage;
use siding_agent::provider::{self, Model};
use siding_agent::transcript::{Transcript, TranscriptError};
use siding_core::session;
use siding_core::task::launch::IdleShim;
use siding_core::task::run::request;
use siding_model::id::{SessionId, TaskKind};
use siding_model::text::{make_visible, one_line};

use super::agent::SMALL_MODEL_VARIABLE;
use super::run;
use crate::context::{self, SHIM_PROGRAM};
use crate::exit;
use crate::failure::Failure;
use crate::stdout;

/// Default maximum number of tokens that the model reads and writes in total. It suffices for notes
/// of the maximum size as input and as output, and for a conversation of three times that size.
const MAX_TOKENS: u64 = 48_000;
/// Default deadline of the task: enough for one answer of the model with a few retries.
const DEFAULT_TIMEOUT: &str = "5m";
/// Maximum width in columns of the model's answer if it changes nothing. An error message may be
/// twice as wide.
const ANSWER_COLUMNS: usize = 400;

/// Lets a model read a conversation and update the notes on the conversation's project.
///
/// The notes are in `.siding/memory.md` in the directory of the conversation. siding's agent reads
/// the notes at the start of every conversation there. Changes are shown as a diff. Nothing is
/// changed while a turn of the conversation is in progress, and a new turn cancels the update. Text
/// that looks like a password, a token or a key is never written.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding dream --session agent-4711-99 --model anthropic:NAME
  siding dream --session agent-4711-99 --dry-run
  siding dream --background

Default of --model: $SIDING_SMALL_MODEL, otherwise $SIDING_MODEL.
Exit codes: 0 if the notes are up to date, 1 if they could not be updated.")]
pub(crate) struct Args {
    /// Conversation to read (default: $SIDING_SESSION)
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// Model: PROVIDER:NAME (default: see below)
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Project whose notes are updated (default: that of the conversation)
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Maximum number of tokens that the model may read and write in total
    #[arg(long, value_name = "N", default_value_t = MAX_TOKENS)]
    max_tokens: u64,
    /// Maximum duration of the run
    #[arg(long, value_name = "D", default_value = DEFAULT_TIMEOUT)]
    timeout: String,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the task's id and return immediately
    #[arg(long)]
    background: bool,
    /// Print the task as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let session = self.session.clone().or_else(session_from_env).ok_or_else(|| {
            Failure::new("no conversation given: use --session ID, or set SIDING_SESSION")
                .with_hint("`siding session list` lists conversations")
        })?;
        let (opened, _entries) = Transcript::read_snapshot(&root, &session)?;
        let model = choose_model(self.model.as_deref())?;
        // The provider is opened here only so that a missing API key is reported before the task
        // starts.
        let _best_effort = provider::open(&model, &read_variable).map_err(Failure::new)?;
        let cwd = self.cwd.unwrap_or_else(|| PathBuf::from(opened.cwd));
        let cwd = std::path::absolute(&cwd)
            .map_err(|error| Failure::new(format!("--cwd `{}`: {error}", cwd.display())))?;
        let request = ConsolidationRequest {
            session: session.clone(),
            cwd: Some(cwd.clone()),
            model: model.to_string(),
            max_tokens: self.max_tokens,
            dry_run: self.dry_run,
        };
        let mut run = run::Args::default();
        run.kind = TaskKind::Dream;
        run.background = self.background;
        // In the foreground the command has no budget, because the caller waits until the task
        // ends.
        run.budget = (!self.background).then(|| "none".to_owned());
        run.timeout = Some(self.timeout);
        // No stall detection: the task prints nothing while the model thinks.
        run.stall_after = Some("0s".to_owned());
        // The task queries the model over the network, as the agent does; the policy restricts only
        // the agent's commands.
        run.net = Some("host".to_owned());
        // An ended session cannot own tasks, although its conversation can still be read.
        let owner = [Some(session), session_from_env()]
            .into_iter()
            .flatten()
            .find(|session| session::require_live(&root, session).is_ok());
        run.session = Some(owner.unwrap_or_else(SessionId::implicit).to_string());
        run.cwd = Some(cwd);
        run.json = self.json;
        let program = std::iter::once(request::self_program_path());
        run.command = program.chain(request.command_args()).map(Into::into).collect();
        run.run(IdleShim::start(SHIM_PROGRAM))
    }
}

/// Returns the configuration for the updates that an idle agent starts, or `None` if the user has
/// not enabled them.
pub(super) fn idle_dreams(model: &Model) -> Result<Option<IdleConsolidationConfig>, Failure> {
    let idle = IdleTime::read(read_variable(memory_consolidation::IDLE_TIME_VARIABLE).as_deref())
        .map_err(Failure::new)?;
    let Some(idle) = idle else { return Ok(None) };
    let life = super::parse_duration(DEFAULT_TIMEOUT).map_err(Failure::new)?;
    Ok(Some(IdleConsolidationConfig {
        idle_time: idle,
        model: model.to_string(),
        max_tokens: MAX_TOKENS,
        deadline: life,
    }))
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn session_from_env() -> Option<SessionId> {
    read_variable("SIDING_SESSION")?.parse().ok()
}

/// Chooses the model: `named`, otherwise the small model of the environment, otherwise the default
/// model. A script's path is made absolute, because the task may run in another directory.
fn choose_model(named: Option<&str>) -> Result<Model, Failure> {
    let is_set = |text: &String| !text.trim().is_empty();
    let default = read_variable(SMALL_MODEL_VARIABLE)
        .filter(is_set)
        .or_else(|| read_variable(provider::MODEL_VARIABLE));
    let model = Model::choose(named, default.as_deref()).map_err(Failure::new)?;
    Ok(match model {
        Model::Script(path) => Model::Script(std::path::absolute(&path).unwrap_or(path)),
        model @ (Model::Anthropic(_) | Model::OpenAi(_)) => model,
    })
}

/// Arguments of `siding __dream`, the command that runs in the task.
#[derive(Debug, clap::Parser)]
#[command(name = "siding __dream", disable_help_flag = true)]
struct DreamTaskArgs {
    #[arg(long)]
    session: SessionId,
    #[arg(long)]
    model: Model,
    #[arg(long)]
    max_tokens: u64,
    #[arg(long)]
    cwd: Option<PathBuf>,
    #[arg(long)]
    dry_run: bool,
}

/// Runs `siding __dream`: queries the model, updates the notes, and prints the changes.
pub(crate) fn main() -> Result<ExitCode, Failure> {
    let words = std::env::args_os().skip(1);
    let inner = <DreamTaskArgs as clap::Parser>::try_parse_from(words).map_err(Failure::new)?;
    let root = context::open_state_dir()?;
    let asked = provider::open(&inner.model, &read_variable).map_err(Failure::new)?;
    let terms = ConsolidationLimits { max_tokens: inner.max_tokens, dry_run: inner.dry_run };
    let dreamt =
        match memory_consolidation::consolidate(&root, &inner.session, inner.cwd, &*asked, terms) {
            Ok(dreamt) => dreamt,
            Err(error) => {
                errln!("siding: {}", one_line(&error.to_string(), ANSWER_COLUMNS * 2));
                return Ok(ExitCode::from(exit::INCOMPLETE));
            }
        };
    let (text, usage) = match dreamt {
        ConsolidationOutcome::Changed { diff, usage } => {
            let what = if inner.dry_run { "would change" } else { "changed" };
            (format!("{what} `.siding/memory.md`\n{}", make_visible(&diff)), usage)
        }
        ConsolidationOutcome::Unchanged { response, usage } => {
            let response = one_line(response.trim(), ANSWER_COLUMNS);
            (format!("nothing to change: {response}\n"), usage)
        }
    };
    stdout::print_text(&format!("{text}{}\n", format_usage(usage)))?;
    Ok(ExitCode::SUCCESS)
}

fn format_usage(usage: Usage) -> String {
    format!("{} tokens read, {} written", usage.context_tokens() - usage.output, usage.output)
}

impl From<TranscriptError> for Failure {
    fn from(error: TranscriptError) -> Self {
        Self::new(error)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn task_arguments_reproduce_the_request() {
        let request = ConsolidationRequest {
            session: "talk".parse().expect("a name"),
            cwd: Some(PathBuf::from("/a b")),
            model: "script:/x y.toml".to_owned(),
            max_tokens: 7,
            dry_run: true,
        };
        let inner = DreamTaskArgs::try_parse_from(request.command_args()).expect("is understood");
        assert_eq!((inner.session, inner.cwd), (request.session, request.cwd));
        assert_eq!(
            (inner.model.to_string(), inner.max_tokens),
            (request.model, request.max_tokens)
        );
        assert!(inner.dry_run);
    }
}
