//! Watching another MCP server: a resource, or what a tool answers, and a line for each change.
//!
//! What is said and when the server is asked, or started, again is decided in `decide`, which is
//! pure; `difference` puts a change in one line. Whoever runs this tells the lines that begin as
//! [`NEWS`] says, at a rate of its own.

mod connection;
mod decide;
mod difference;
mod reading;
mod server;
mod web;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Value};
use siding_core::sys::clock;
use tokio::runtime::Builder;

use connection::Connection;
use decide::{Event, Next, Terms, Watching};

/// What lines begin with that are to be told: a change, or trouble. All others are only kept.
pub const NEWS: &str = "^[*!]";

/// Which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// A program that speaks over its standard input and output, and its arguments.
    Program(Vec<String>),
    /// One that is reached over Streamable HTTP.
    Url {
        /// Where it is.
        url: String,
        /// The token that it wants.
        bearer: Option<Bearer>,
    },
}

/// A token, never written anywhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(pub String);

impl fmt::Debug for Bearer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Bearer(…)")
    }
}

/// What of it.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
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
pub struct Watch {
    /// The server.
    pub server: Server,
    /// What of it.
    pub what: What,
    /// How often it is asked, where it does not tell of changes itself.
    pub every: Duration,
    /// Only changes are told of which a line matches.
    pub pattern: Option<Regex>,
    /// How often it is started or reached again before it is given up.
    pub restarts: u32,
}

/// Who gets each line.
type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// Watches until the server is given up, and returns why. `say` gets each line.
///
/// # Errors
///
/// When the operating system refuses what this needs itself.
pub fn watch(
    watch: &Watch,
    say: impl Fn(&str) + Send + Sync + 'static,
) -> Result<String, std::io::Error> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let why = runtime.block_on(run(watch, Arc::new(say)));
    runtime.shutdown_background();
    Ok(why)
}

async fn run(watch: &Watch, say: Say) -> String {
    let every_ms = u64::try_from(watch.every.as_millis()).unwrap_or(u64::MAX);
    let terms = Terms { every_ms, restarts: watch.restarts, pattern: watch.pattern.clone() };
    let mut watching = Watching::new(terms);
    let mut next = Next::Connect { after_ms: 0 };
    let mut connection: Option<Connection> = None;
    loop {
        let event = match next {
            Next::Connect { after_ms } => {
                if let Some(before) = connection.take() {
                    before.end().await;
                }
                tokio::time::sleep(Duration::from_millis(after_ms)).await;
                match Connection::open(watch, &say).await {
                    Ok(opened) => {
                        let is_subscribed = opened.is_subscribed;
                        connection = Some(opened);
                        Event::Up { is_subscribed }
                    }
                    Err(fault) => fault.into(),
                }
            }
            Next::Ask { after_ms } => match &mut connection {
                Some(connection) => {
                    connection.ask(&watch.what, Duration::from_millis(after_ms)).await
                }
                None => Event::Gone("it is not there".to_owned()),
            },
            Next::End { why } => {
                if let Some(last) = connection.take() {
                    last.end().await;
                }
                return why;
            }
        };
        let (lines, then) = watching.step(event, clock::monotonic_now());
        lines.iter().for_each(|line| say(line));
        next = then;
    }
}
