//! Watches another MCP server, either a resource or a tool's answer, and prints a line for each
//! change.
//!
//! `state` decides what to print and when to poll or restart the server, without I/O; `diff`
//! formats a change in one line. The monitor of the task in which the watch runs reports the lines
//! that match [`NOTICE_LINE_PATTERN`], at a limited rate.

mod connection;
mod diff;
mod http_transport;
mod request;
mod server_process;
mod state;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Value};
use siding_core::sys::clock;
use tokio::runtime::Builder;

use connection::Connection;
use state::{WatchAction, WatchConfig, WatchEvent, WatchState};

/// Matches the lines that become notices: a change (`*`) or a problem (`!`). All other lines are
/// only written to the output.
pub const NOTICE_LINE_PATTERN: &str = "^[*!]";

/// The command that starts the watched server, or its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchedServer {
    /// Program and arguments of a server that communicates over its standard input and output.
    Program(Vec<String>),
    /// A server that is reached over Streamable HTTP.
    Url {
        /// URL of the server's MCP endpoint.
        url: String,
        /// Bearer token to send with each request, if any.
        bearer: Option<BearerToken>,
    },
}

/// A bearer token, which is never logged or printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(pub String);

impl fmt::Debug for BearerToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Bearer(…)")
    }
}

/// The watched part of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum McpTarget {
    /// The content of the resource with this URI.
    Resource(String),
    /// The answer of a tool, which each poll calls again.
    Tool {
        /// The tool's name.
        name: String,
        /// The arguments, the same for each call.
        arguments: Map<String, Value>,
    },
}

/// The watched resource or tool, the interval, and the changes to report.
#[derive(Debug, Clone)]
pub struct WatchSpec {
    /// The server to start or to connect to.
    pub server: WatchedServer,
    /// The resource to read, or the tool to call.
    pub target: McpTarget,
    /// The polling interval, which is also the pause before the renewal of an ended subscription. A
    /// server that notifies of changes is polled at most every five minutes.
    pub interval: Duration,
    /// Only changes with a line that matches this pattern are reported; `None` reports all.
    pub pattern: Option<Regex>,
    /// Maximum number of consecutive restarts or reconnects of the server before the watch gives
    /// up.
    pub restarts: u32,
}

/// Called with each line of the output.
type LineOutput = Arc<dyn Fn(&str) + Send + Sync>;

/// Watches until the watch gives up, and returns the reason. `say` receives each line.
///
/// # Errors
///
/// The I/O error when the runtime cannot be created.
pub fn watch(
    watch: &WatchSpec,
    say: impl Fn(&str) + Send + Sync + 'static,
) -> Result<String, std::io::Error> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let why = runtime.block_on(run(watch, Arc::new(say)));
    runtime.shutdown_background();
    Ok(why)
}

async fn run(watch: &WatchSpec, say: LineOutput) -> String {
    let interval_ms = u64::try_from(watch.interval.as_millis()).unwrap_or(u64::MAX);
    let config =
        WatchConfig { interval_ms, restarts: watch.restarts, pattern: watch.pattern.clone() };
    let mut state = WatchState::new(config);
    let mut action = WatchAction::Connect { after_ms: 0 };
    let mut connection: Option<Connection> = None;
    loop {
        let event = match action {
            WatchAction::Connect { after_ms } => {
                if let Some(before) = connection.take() {
                    before.shutdown().await;
                }
                tokio::time::sleep(Duration::from_millis(after_ms)).await;
                match Connection::open(watch, &say).await {
                    Ok(opened) => {
                        let is_subscribed = opened.is_subscribed;
                        connection = Some(opened);
                        WatchEvent::Connected { is_subscribed }
                    }
                    Err(fault) => fault.into(),
                }
            }
            WatchAction::Poll { after_ms } => match &mut connection {
                Some(connection) => {
                    connection.wait_and_read(&watch.target, Duration::from_millis(after_ms)).await
                }
                None => WatchEvent::Disconnected("it does not exist".to_owned()),
            },
            WatchAction::GiveUp { why } => {
                if let Some(last) = connection.take() {
                    last.shutdown().await;
                }
                return why;
            }
        };
        let (lines, then) = state.step(event, clock::monotonic_now());
        lines.iter().for_each(|line| say(line));
        action = then;
    }
}
