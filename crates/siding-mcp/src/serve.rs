//! Starts the server, and ends it with its client or on a signal.

use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use siding_core::store::StateDir;
use siding_tools::ToolContext;

use crate::delivery::{AckingTransport, PendingAcks};
use crate::error::McpError;
use crate::handler::McpServer;
use crate::http::{self, HttpOptions};
use crate::server_session::open_session;

/// Options of the MCP server.
#[derive(Debug, Default)]
pub struct McpOptions {
    /// The session that owns the tasks. The default is the session of the environment if the client
    /// (over HTTP, the server) owns it; otherwise a session that ends with that process.
    pub session: Option<String>,
    /// Options for HTTP; `None` serves one client over standard input and output.
    pub http: Option<HttpOptions>,
}

/// Serves until the client disconnects; over HTTP until SIGTERM or SIGINT. `say` receives lines for
/// the user.
///
/// # Errors
///
/// [`McpError`] when the session cannot be opened, the server cannot start, or the handshake fails.
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
    // Calls that still wait are abandoned: their client has disconnected, or a signal ends the
    // server.
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
        // A client that disconnects before the handshake is not an error.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(McpError::Handshake { why: error.to_string() }),
    }
}
