//! siding's own agent as an A2A server.
//!
//! Each A2A task is a task of siding of the kind `local_agent`: a `siding agent -p` under a shim.
//! The state of a task is in the task's journal, where a restarted server finds it. The server
//! itself has no state except its connections.

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

/// The environment variable that may hold the server's token.
pub const TOKEN_VARIABLE: &str = "SIDING_A2A_TOKEN";
/// The prefix of the token file's name, and the variable that may hold the token.
const TOKEN_KIND: ServerKind =
    ServerKind { token_file_prefix: "a2a", token_variable: TOKEN_VARIABLE };
/// The prefix of a server's session name. The server's port follows, so that the next server at
/// that port finds the tasks again.
const SESSION_NAME_PREFIX: &str = "a2a-";

/// Options of the A2A server.
#[derive(Debug)]
pub struct ServeOptions {
    /// The address to listen on.
    pub address: SocketAddr,
    /// Whether the address may be reachable from other machines.
    pub remote: bool,
    /// Host names, in addition to the loopback names, under which clients may reach the server.
    pub hosts: Vec<String>,
    /// The session that owns the tasks; `None` for one named after the port.
    pub session: Option<SessionId>,
    /// How the agent of each task is started.
    pub agent: AgentProgram,
    /// The settings for the server's tasks.
    pub settings: Settings,
    /// Maximum number of tasks that may run concurrently.
    pub max_running: usize,
}

/// The command line and directory with which an agent is started for each task.
#[derive(Debug, Clone)]
pub struct AgentProgram {
    /// Path of the siding program, whose subcommand `agent` is run.
    pub program: String,
    /// The arguments after `agent`, without the prompt. They name at least the model.
    pub args: Vec<String>,
    /// The agent's working directory, an absolute path.
    pub cwd: String,
}

/// Why the server failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The HTTP server could not start.
    #[error(transparent)]
    Door(#[from] ServerError),
    /// The session cannot be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A system call failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// The operation that failed, as an infinitive.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Serves until SIGTERM or SIGINT. `say` receives lines for the user.
///
/// # Errors
///
/// [`ServeError`] when the runtime or the HTTP server cannot start, or when the session cannot be
/// opened.
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
            owner.ok_or_else(|| io("identify this process")(io::ErrorKind::NotFound.into()))?;
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
    // Streams to clients are not awaited: a client can subscribe again at the next server.
    runtime.shutdown_background();
    result
}
