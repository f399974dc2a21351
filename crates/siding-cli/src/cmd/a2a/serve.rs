//! `siding a2a serve`: runs an A2A server that offers siding's own agent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use siding_a2a::serve::{self, AgentProgram, ServeError, ServeOptions};
use siding_agent::provider::{self, Model};
use siding_core::settings::Environment;
use siding_core::task::run::request::WorkingDirectory;
use siding_model::id::SessionId;
use siding_model::settings::{Key, RawValue};

use crate::cmd::reap;
use crate::context;
use crate::failure::Failure;
use crate::install::program::SidingProgram;
use crate::stdout;

/// Default maximum number of concurrent tasks. The limit is low, because each task runs an agent,
/// and the agent starts commands as well.
const DEFAULT_MAX_TASKS: usize = 8;

/// Offers siding's own agent as an A2A 1.0 server.
///
/// For each task that it receives, the server starts a siding task that runs `siding agent`.
/// `siding ps` lists this task, `siding stop` stops it, and a server that is restarted on the same
/// port finds it again. Every request needs a token: the one in $SIDING_A2A_TOKEN, otherwise the
/// one that the server prints at its start. Anyone who holds the token can run commands as you.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding a2a serve --addr 127.0.0.1:7434 --model anthropic:NAME
  siding a2a serve --addr 127.0.0.1:0 --model script:demo.toml --cwd work
  siding a2a serve --addr 10.0.0.5:7434 --allow-remote --allow-host b.example

A client reads the card at /.well-known/agent-card.json without a token, and
sends requests to POST /a2a with `Authorization: Bearer TOKEN`. There is no TLS:
put a TLS proxy in front of the server before other machines can reach it.")]
pub(super) struct Args {
    /// Address to listen on; port 0 chooses a free port
    #[arg(long, value_name = "ADDR", value_parser = crate::cmd::parse_listen_address)]
    addr: SocketAddr,
    /// Accept connections from other machines; ADDR need not be a loopback address
    #[arg(long)]
    allow_remote: bool,
    /// Host name that clients may use for the server, in addition to the loopback names; may be
    /// repeated
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// Model: PROVIDER:NAME (default: $SIDING_MODEL)
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Working directory of the tasks (default: the current one)
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Maximum duration of a task (default: max_elapsed, 30m)
    #[arg(long, value_name = "D")]
    timeout: Option<String>,
    /// Maximum number of requests to the model for one message
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// Maximum number of concurrent tasks
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_TASKS)]
    max_tasks: usize,
    /// Run commands for which the guard would ask a person
    #[arg(long, value_name = "ask", value_parser = ["ask"])]
    yes_to: Option<String>,
    /// Session that owns the tasks (default: one named after the port)
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let timeout = self.timeout.clone().map(RawValue::Text);
        let sources = Environment::from_process();
        let sources = match timeout {
            Some(timeout) => sources.with_call(Key::MaxElapsed, "--timeout", timeout),
            None => sources,
        };
        let settings = context::load_settings_from(&sources)?;
        // As before every start of a session, the reaper removes what earlier sessions left.
        reap::run_quietly(&root, &settings)?;
        let named = std::env::var(provider::MODEL_VARIABLE).ok();
        let model = Model::choose(self.model.as_deref(), named.as_deref()).map_err(Failure::new)?;
        let cwd = String::from(WorkingDirectory::resolve(self.cwd.as_deref())?);
        let options = ServeOptions {
            address: self.addr,
            remote: self.allow_remote,
            hosts: self.allow_host.clone(),
            session: self.session.clone(),
            agent: AgentProgram {
                program: SidingProgram::current()?.path,
                args: self.agent_args(&with_absolute_script_path(model)?),
                cwd,
            },
            settings,
            max_running: self.max_tasks.max(1),
        };
        serve::serve(root, options, |line| {
            // The server prints nothing else to standard output, and continues if standard output
            // is closed.
            let _peer_gone = stdout::print_text(&format!("{line}\n"));
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn agent_args(&self, model: &Model) -> Vec<String> {
        let mut args = vec![format!("--model={model}")];
        args.extend(self.max_turns.map(|max_turns| format!("--max-turns={max_turns}")));
        args.extend(self.yes_to.as_ref().map(|what| format!("--yes-to={what}")));
        args
    }
}

/// Makes a script's path absolute, because the agent may work in another directory.
fn with_absolute_script_path(model: Model) -> Result<Model, Failure> {
    match model {
        Model::Script(path) => match std::path::absolute(&path) {
            Ok(path) => Ok(Model::Script(path)),
            Err(error) => Err(Failure::new(format!("--model: `{}`: {error}", path.display()))),
        },
        other @ (Model::Anthropic(_) | Model::OpenAi(_)) => Ok(other),
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Session(error) => error.into(),
            error @ (ServeError::Door(_) | ServeError::Io { .. }) => Self::new(error),
        }
    }
}
