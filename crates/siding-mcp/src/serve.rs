//! The server from its beginning to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use siding_core::run::RunError;
use siding_core::session::SessionError;
use siding_core::store::StateDir;
use siding_http::ServerError;
use siding_tools::ToolContext;

use crate::delivery::{AckingTransport, PendingAcks};
use crate::handler::McpServer;
use crate::http;
use crate::server_session::open_session;

/// How to serve.
#[derive(Debug, Default)]
pub struct McpOptions {
    /// Session that tasks belong to. Without one, that of the environment if the client owns it,
    /// else one that ends with the client.
    pub session: Option<String>,
    /// Over HTTP, instead of standard input and output.
    pub http: Option<HttpOptions>,
}

/// How to serve over HTTP.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Where to listen.
    pub address: SocketAddr,
    /// Whether others than this machine may be let in.
    pub remote: bool,
    /// Names beside those of loopback under which clients may reach it.
    pub hosts: Vec<String>,
}

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// No session can be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The session that was named cannot be joined.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The process that is to own the session has gone.
    #[error("process {pid}, which is to own the session, does not run")]
    NoOwner {
        /// The process.
        pid: i32,
    },
    /// Nobody can be let in over HTTP.
    #[error(transparent)]
    Door(#[from] ServerError),
    /// The client said something else than MCP at first.
    #[error("the client did not begin as MCP does: {why}")]
    Handshake {
        /// What is wrong.
        why: String,
    },
    /// The operating system refused.
    #[error("could not {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

impl McpError {
    pub(crate) const fn io_error(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// Serves until the client has gone, over HTTP until it is told to end. `say` gets what a person
/// should read, line by line.
///
/// # Errors
///
/// [`McpError`].
pub fn serve(root: StateDir, options: McpOptions, say: impl Fn(&str)) -> Result<(), McpError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(McpError::io_error("start"))?;
    let named = options.session.as_deref();
    let result = runtime.block_on(async {
        match options.http {
            None => {
                let parent = i32::try_from(std::os::unix::process::parent_id()).unwrap_or(0);
                serve_stdio(open_session(root, named, parent)?).await
            }
            Some(options) => {
                let own = i32::try_from(std::process::id()).unwrap_or(0);
                http::serve(open_session(root, named, own)?, options, say).await
            }
        }
    });
    // What still waits is nobody's any more.
    runtime.shutdown_background();
    result
}

async fn serve_stdio(tool_context: ToolContext) -> Result<(), McpError> {
    let (stdin, stdout) = stdio_pipes();
    let tool_context = Arc::new(tool_context.with_notices_in_answers());
    let pending_acks = PendingAcks::default();
    let connection = AckingTransport {
        connection: AsyncRwTransport::new_server(stdin, stdout),
        tool_context: Arc::clone(&tool_context),
        pending_acks: pending_acks.clone(),
    };
    match McpServer::new(tool_context, Some(pending_acks)).serve(connection).await {
        Ok(service) => {
            let _best_effort = service.waiting().await;
            Ok(())
        }
        // A client that leaves before it has said anything is no failure.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(McpError::Handshake { why: error.to_string() }),
    }
}
