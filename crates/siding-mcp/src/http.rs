//! MCP over Streamable HTTP. [`HttpServer`] checks the peer, [`AccessPolicy`] checks the token, and
//! the SDK checks `Host` and `Origin`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use siding_http::{
    AccessPolicy, HttpServer, LOOPBACK_NAMES, ResponseBody, ServerKind, ServerOptions,
    text_response,
};
use siding_tools::ToolContext;

use crate::error::McpError;
use crate::handler::McpServer;

/// The only path that is served.
const MCP_PATH: &str = "/mcp";
/// The prefix of the token file, and the variable that may hold the token.
const TOKEN_KIND: ServerKind =
    ServerKind { token_file_prefix: "mcp", token_variable: "SIDING_MCP_TOKEN" };

/// Silence after which the connection of a client of the older handshake is dropped. The timeout is
/// long, because an agent may think for hours. A dropped client loses no task, and needs a new
/// handshake.
const IDLE_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Options of the server for MCP over HTTP.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The address to listen on; port 0 selects a free port.
    pub address: SocketAddr,
    /// Whether the address may be reachable from other machines.
    pub remote: bool,
    /// Host names, in addition to the loopback names, under which clients may reach the server.
    pub hosts: Vec<String>,
}

type McpService = StreamableHttpService<McpServer, LocalSessionManager>;

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn serve(
    tool_context: ToolContext,
    options: HttpOptions,
    say: impl Fn(&str),
) -> Result<(), McpError> {
    let door = ServerOptions {
        kind: TOKEN_KIND,
        address: options.address,
        allow_remote: options.remote,
        allowed_hosts: options.hosts.clone(),
    };
    let door = HttpServer::bind(&door).await?;
    let address = door.address();
    say(&format!("MCP at http://{address}{MCP_PATH}"));
    say(&door.token_line());
    let (service, lock) = (Arc::new(build_service(tool_context, &options, address)), door.policy());
    let answer = move |request| {
        let (service, lock) = (Arc::clone(&service), Arc::clone(&lock));
        async move { handle_request(&service, &lock, request).await }
    };
    Ok(door.serve(answer).await?)
}

async fn handle_request(
    service: &McpService,
    lock: &AccessPolicy,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    if request.uri().path() != MCP_PATH {
        return text_response(StatusCode::NOT_FOUND, "MCP is at /mcp");
    }
    match lock.token_rejection(request.headers()) {
        Some(refused) => refused,
        None => service.handle(request).await,
    }
}

fn build_service(
    tool_context: ToolContext,
    options: &HttpOptions,
    address: SocketAddr,
) -> McpService {
    let mut names: Vec<String> = LOOPBACK_NAMES.map(str::to_owned).into();
    // The SDK compares an IPv6 address without its brackets, so this form is added.
    names.push("::1".to_owned());
    names.extend(options.hosts.iter().cloned());
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    let origins = LOOPBACK_NAMES.iter().map(|name| format!("http://{name}:*"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(names)
        .with_allowed_origins(origins)
        .enforce_origin_validation();
    // The SDK calls this once for each MCP session, and once for each request of the stateless
    // revision, whose requests do not tell which client sends them.
    let server = move || Ok(McpServer::new(Arc::new(tool_context.for_other_caller()), None));
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE_TIMEOUT);
    StreamableHttpService::new(server, Arc::new(sessions), config)
}
