//! siding's own agent as an A2A server.
//!
//! Each A2A task is a task of siding of the kind `local_agent`: a `siding agent -p` under a shim. What is
//! known of it is what is on record, so a server that is started anew knows it too. Nothing is kept
//! here but who listens.

mod card;
mod convert;
mod list;
mod prompt;
mod rpc;
mod stream;
mod tasks;
mod transcript;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use siding_core::run::RunError;
use siding_core::session::{self, SessionError};
use siding_core::store::StateDir;
use siding_core::sys::procfs;
use siding_http::{HttpServer, ServerError, ServerKind, ServerOptions};
use siding_model::advice::Dialect;
use siding_model::id::SessionId;
use siding_model::settings::Settings;
use siding_tools::ToolContext;

use rpc::A2aServer;
use tasks::TaskStore;

/// The variable that may hold the token.
pub const TOKEN_VARIABLE: &str = "SIDING_A2A_TOKEN";
/// Its token's file, and where the token may come from.
const TOKEN_KIND: ServerKind =
    ServerKind { token_file_prefix: "a2a", token_variable: TOKEN_VARIABLE };
/// What the name of a server's session begins with; its port follows, so that the next server there
/// knows its tasks.
const SESSION_NAME_PREFIX: &str = "a2a-";

/// How to serve.
#[derive(Debug)]
pub struct ServeOptions {
    /// Where to listen.
    pub address: SocketAddr,
    /// Whether others than this machine may be let in.
    pub remote: bool,
    /// Names beside those of loopback under which clients may reach it.
    pub hosts: Vec<String>,
    /// The session that its tasks belong to, if not one named after the port.
    pub session: Option<SessionId>,
    /// How the agent is run.
    pub agent: AgentProgram,
    /// Settings in force for its tasks.
    pub settings: Settings,
    /// Tasks that may run at once.
    pub max_running: usize,
}

/// How the agent is run.
#[derive(Debug, Clone)]
pub struct AgentProgram {
    /// siding, by its path.
    pub program: String,
    /// What follows `agent`, without the prompt: its model at least.
    pub args: Vec<String>,
    /// Where it works, absolute.
    pub cwd: String,
}

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nobody can be let in.
    #[error(transparent)]
    Door(#[from] ServerError),
    /// No session can be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The agent's directory cannot be used.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The operating system refused.
    #[error("could not {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Serves until SIGTERM or SIGINT. `say` gets what a person should read, line by line.
///
/// # Errors
///
/// [`ServeError`].
pub fn serve(root: StateDir, options: ServeOptions, say: impl Fn(&str)) -> Result<(), ServeError> {
    let io = |doing| move |source| ServeError::Io { doing, source };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(io("start"))?;
    let result = runtime.block_on(async {
        let door = HttpServer::bind(&ServerOptions {
            kind: TOKEN_KIND,
            address: options.address,
            allow_remote: options.remote,
            allowed_hosts: options.hosts,
        })
        .await?;
        let address = door.address();
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let owner = procfs::identify(own);
        let owner =
            owner.ok_or_else(|| io("look at this process")(io::ErrorKind::NotFound.into()))?;
        let named = || format!("{SESSION_NAME_PREFIX}{}", address.port()).parse().ok();
        let session = options.session.or_else(named).unwrap_or_else(SessionId::implicit);
        session::open(&root, &session, owner.pid)?;
        let tool_context = ToolContext::new(root, session, Some(owner), Dialect::Commands);
        say(&format!("A2A at http://{address}, session {}", tool_context.session));
        say(&door.token_line());
        let tasks =
            TaskStore::new(tool_context, options.agent, options.settings, options.max_running);
        let server = Arc::new(A2aServer { tasks: Arc::new(tasks), lock: door.policy() });
        let answer = move |request| Arc::clone(&server).handle(request);
        Ok(door.serve(answer).await?)
    });
    // Whoever still listens asks the next server.
    runtime.shutdown_background();
    result
}
