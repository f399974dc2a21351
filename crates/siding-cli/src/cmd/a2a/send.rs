//! `siding a2a send`: sends a message to another agent's server, and supervises the agent's work as
//! a local task.

use std::path::PathBuf;
use std::process::ExitCode;

use siding_a2a::client::NOTICE_LINE_PATTERN;
use siding_core::task::launch::IdleShim;
use siding_model::id::{TaskId, TaskKind};
use siding_model::monitor::Monitor;
use siding_model::text::one_line;

use super::follow;
use crate::cmd::run;
use crate::context::SHIM_PROGRAM;
use crate::failure::Failure;
use crate::install::program::SidingProgram;

/// Maximum width in columns of the default task name, which consists of the URL and the message.
const TASK_NAME_COLUMNS: usize = 80;

/// Gives work to another agent and supervises it until it ends.
///
/// The work becomes a task on this machine like any other: it moves to the background after its
/// budget, appears in `siding ps`, can be stopped, and causes a notice when it ends. The task's
/// output is what the server sends. When the agent needs an answer or a permission, a notice
/// reports this immediately and says how to answer. If the task is stopped, the server is asked to
/// cancel the work. If the connection breaks, it is restored.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding a2a send http://127.0.0.1:7434 'what fails here?'
  siding a2a send https://build.example 'build it' --bearer-env BUILD_TOKEN
  siding a2a send http://127.0.0.1:7434 --task 4f2a 'the main branch'
  siding a2a send http://127.0.0.1:7434 --file log.txt --background 'explain'

Exit codes: 0 completed, 1 failed, rejected or refused, 3 canceled, 4 server
unreachable; 75, 79, 124 and 125 as for `siding run`.")]
pub(super) struct Args {
    /// URL of the agent's card, or the part of this URL before /.well-known/agent-card.json
    #[arg(value_name = "URL")]
    url: String,
    /// Text of the message
    #[arg(value_name = "TEXT")]
    text: String,
    /// File to send with the message; may be repeated
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Conversation that the message belongs to (an A2A contextId)
    #[arg(long, value_name = "ID")]
    context: Option<String>,
    /// Remote task that the message answers
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Environment variable that holds the server's token
    #[arg(long, value_name = "VAR")]
    bearer_env: Option<String>,
    /// How long to wait before the task moves to the background (`15s`, `2m`, `none`)
    #[arg(long, value_name = "D")]
    budget: Option<String>,
    /// Start in the background and return immediately
    #[arg(long)]
    background: bool,
    /// Maximum duration of the task (default: max_elapsed, 30m)
    #[arg(long, value_name = "D")]
    timeout: Option<String>,
    /// Session that owns the task (default: $SIDING_SESSION, otherwise the implicit one)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Send the message even if an identical one is already being processed
    #[arg(long)]
    allow_duplicate: bool,
    /// Name of the task, which commands accept in place of its id
    #[arg(long)]
    name: Option<String>,
    /// Print the task as JSON instead of its output
    #[arg(long)]
    json: bool,
    /// Id for the new task, which the caller has recorded
    #[arg(long, value_name = "ID", hide = true)]
    new_task_id: Option<TaskId>,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let follow = follow::Args {
            file: self.file,
            context: self.context,
            task: self.task,
            bearer_env: self.bearer_env,
            url: self.url,
            text: self.text,
        };
        let bearer = follow.read_bearer_token()?;
        let mut run = run::Args::default();
        // The token is passed only in the environment: every user of the machine can read a
        // process's arguments, and the journal records them.
        let variable = |(name, token): (String, String)| format!("{name}={token}");
        run.env = follow.bearer_env.clone().zip(bearer).map(variable).into_iter().collect();
        run.set_kind(TaskKind::RemoteAgent, self.new_task_id)?;
        run.monitor = Some(Monitor::new(Some(NOTICE_LINE_PATTERN.to_owned())));
        run.budget = self.budget;
        run.background = self.background;
        run.timeout = self.timeout;
        // No stall detection: an agent may send nothing for a long time while it thinks, and its
        // questions arrive as monitor notices.
        run.stall_after = Some("0s".to_owned());
        run.session = self.session;
        run.allow_duplicate = self.allow_duplicate;
        run.name = Some(self.name.unwrap_or_else(|| {
            one_line(&format!("{}: {}", follow.url, follow.text), TASK_NAME_COLUMNS)
        }));
        run.json = self.json;
        run.command = std::iter::once(SidingProgram::current()?.path)
            .chain(follow.to_argv())
            .map(Into::into)
            .collect();
        run.run(IdleShim::start(SHIM_PROGRAM))
    }
}
