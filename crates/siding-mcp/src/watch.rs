//! Watching another MCP server: a resource, or what a tool answers, and a line for each change.
//!
//! What is said and when the server is asked, or started, again is decided in `decide`, which is
//! pure; `difference` puts a change in one line. Whoever runs this tells the lines that begin as
//! [`NOTICE_LINE_PATTERN`] says, at a rate of its own.

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

/// What lines begin with that are to be told: a change, or trouble. All others are only kept.
pub const NOTICE_LINE_PATTERN: &str = "^[*!]";

/// Which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchedServer {
    /// A program that speaks over its standard input and output, and its arguments.
    Program(Vec<String>),
    /// One that is reached over Streamable HTTP.
    Url {
        /// Where it is.
        url: String,
        /// The token that it wants.
        bearer: Option<BearerToken>,
    },
}

/// A token, never written anywhere.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(pub String);

impl fmt::Debug for BearerToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Bearer(…)")
    }
}

/// What of it.
#[derive(Debug, Clone, PartialEq)]
pub enum McpTarget {
    /// The content of a resource.
    Resource(String),
    /// What a tool answers.
    Tool {
        /// Its name.
        name: String,
        /// What it is called with.
        arguments: Map<String, Value>,
    },
}

/// What to watch, and how.
#[derive(Debug, Clone)]
pub struct WatchSpec {
    /// The server.
    pub server: WatchedServer,
    /// What of it.
    pub target: McpTarget,
    /// How often it is asked, where it does not tell of changes itself.
    pub interval: Duration,
    /// Only changes are told of which a line matches.
    pub pattern: Option<Regex>,
    /// How often it is started or reached again before it is given up.
    pub restarts: u32,
}

/// Who gets each line.
type LineOutput = Arc<dyn Fn(&str) + Send + Sync>;

/// Watches until the server is given up, and returns why. `say` gets each line.
///
/// # Errors
///
/// When the operating system refuses what this needs itself.
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
                None => WatchEvent::Disconnected("it is not there".to_owned()),
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
