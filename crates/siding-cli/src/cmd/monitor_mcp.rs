//! `siding monitor-mcp`: watches a resource or a tool of another MCP server.
//!
//! It is a run in the background, with a monitor, of this very program, which is the client of that
//! server. So it is stopped, bounded and told like any task.

use std::process::ExitCode;
use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Value};
use siding_core::launch::IdleShim;
use siding_core::run::request;
use siding_mcp::watch::{
    BearerToken, McpTarget, NOTICE_LINE_PATTERN, WatchSpec, WatchedServer, watch,
};
use siding_model::id::TaskKind;
use siding_model::monitor::Monitor;
use siding_model::text::one_line;

use super::{monitor, run};
use crate::context::{self, PROGRAM};
use crate::exit;
use crate::failure::Failure;
use crate::print;

/// The first argument of the program that watches.
pub(crate) const ARGUMENT: &str = siding_model::spec::self_command::WATCH_MCP_ARG;
/// The least time between two looks.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// How a server is started or reached again in a row before it is given up: with the pauses between,
/// half a minute.
const RESTARTS: u32 = 5;
/// Columns of why it was given up.
const COLUMNS: usize = 400;
/// Columns of the name that it gets when nobody names it.
const NAME: usize = 80;

/// Watches a resource or a tool of another MCP server and tells its changes.
///
/// The resource is subscribed to where the server can tell of changes, and read every --every
/// elsewhere; a tool is called every --every. Each change of the text becomes a notice that says in
/// one line what is different: five at once, then one a second. The first reading is in the output
/// and is not told. A server that is gone is started again, and given up after --restarts tries:
/// then the task fails.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding monitor-mcp --resource file:///var/log/app.log -- logs-server
  siding monitor-mcp --tool alerts --every 30s -- 'npx -y some-server'
  siding monitor-mcp --tool ci --url https://ci.example/mcp --bearer-env TOKEN

The server's own words on standard error are in the output, behind `server:`.
A token is named by its variable, and is on no command line and no disk.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// How long it may live (default: 5m)
    #[arg(long, value_name = "D", conflicts_with = "persistent")]
    timeout: Option<String>,
    /// No timeout but the cap on every task (max_elapsed_hard_cap)
    #[arg(long)]
    persistent: bool,
    /// Session that is told and owns the task (default: $SIDING_SESSION)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Directory to run the server in
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
    /// Start even though the same is watched already from the same directory
    #[arg(long)]
    allow_duplicate: bool,
    /// A name for people
    #[arg(long)]
    name: Option<String>,
    /// Print the task as JSON instead of its id
    #[arg(long)]
    json: bool,
}

/// What is watched, as it is given on both command lines.
#[derive(Debug, clap::Args)]
struct Target {
    /// The resource to watch
    #[arg(long, value_name = "URI", required_unless_present = "tool", conflicts_with = "tool")]
    resource: Option<String>,
    /// The tool to call again and again: one that changes nothing
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// What the tool is called with: a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    #[arg(requires = "tool", conflicts_with = "resource")]
    arguments: Option<Map<String, Value>>,
    /// How often to look; at least 1s
    #[arg(long, value_name = "D", default_value = "10s", value_parser = every)]
    every: Duration,
    /// Only tell changes with a line that matches this regular expression
    #[arg(long = "match", value_name = "RE", value_parser = pattern)]
    pattern: Option<Regex>,
    /// How often in a row the server is started or reached again
    #[arg(long, value_name = "N", default_value_t = RESTARTS)]
    restarts: u32,
    /// The address of a server that speaks Streamable HTTP
    #[arg(long, value_name = "URL", value_parser = url, conflicts_with = "command")]
    url: Option<String>,
    /// The variable that holds the token the server wants
    #[arg(long, value_name = "VARIABLE", requires = "url", conflicts_with = "command")]
    bearer_env: Option<String>,
    /// The server: one text for the shell, or a program and its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "url", value_name = "COMMAND")]
    command: Vec<String>,
}

/// Checks a pattern, so that a mistake is told before anything runs.
fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("write a JSON object: {error}"))
}

fn every(text: &str) -> Result<Duration, String> {
    let every = super::span(text)?;
    if every < EVERY_MIN {
        return Err("a server is asked once a second at most; write `1s` or more".to_owned());
    }
    Ok(every)
}

/// Checks an address: it is on record and on a command line, so that no secret may be in it.
fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        None | Some("") => Err("write http://HOST:PORT/PATH or https://…".to_owned()),
        Some(host) if host.contains('@') => {
            Err("an address is no place for a password; name a variable with --bearer-env"
                .to_owned())
        }
        Some(_) => Ok(text.to_owned()),
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut run = run::Args::default();
        run.kind = TaskKind::MonitorMcp;
        run.timeout = Some(monitor::life(self.timeout.as_deref(), self.persistent)?);
        run.background = true;
        // Silence is what it is for, and trouble it tells itself.
        run.stall_after = Some("0s".to_owned());
        // The server is part of it.
        run.on_leader_exit = Some("reap".to_owned());
        // What a task is not given by itself, such as the token of siding's own server.
        run.env = self.target.token()?.into_iter().collect();
        run.session = self.session;
        run.cwd = self.cwd;
        run.allow_duplicate = self.allow_duplicate;
        run.name = Some(self.name.unwrap_or_else(|| self.target.name()));
        run.json = self.json;
        let words = self.target.words(&context::settings()?.shell);
        let own = [request::self_program_path(), ARGUMENT.to_owned()];
        run.command = own.into_iter().chain(words).map(Into::into).collect();
        run.monitor = Some(Monitor::new(Some(NOTICE_LINE_PATTERN.to_owned())));
        run.run(IdleShim::start(PROGRAM))
    }
}

impl Target {
    /// Returns the variable that holds the token, with its value.
    fn token(&self) -> Result<Option<String>, Failure> {
        let Some(name) = &self.bearer_env else { return Ok(None) };
        let token = bearer(name)?;
        Ok(Some(format!("{name}={}", token.0)))
    }

    /// Returns what people call it: what is watched, and where.
    fn name(&self) -> String {
        let what = self.resource.as_ref().or(self.tool.as_ref());
        let server = self.url.clone().unwrap_or_else(|| self.command.join(" "));
        one_line(&format!("{} of {server}", what.map_or("", String::as_str)), NAME)
    }

    /// Returns the arguments of the program that watches.
    fn words(&self, shell: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut say = |flag: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{flag}={value}")));
        };
        say("resource", self.resource.clone());
        say("tool", self.tool.clone());
        say("arguments", self.arguments.clone().map(|given| Value::Object(given).to_string()));
        say("every", Some(format!("{}ms", self.every.as_millis())));
        say("match", self.pattern.as_ref().map(ToString::to_string));
        say("restarts", Some(self.restarts.to_string()));
        say("url", self.url.clone());
        say("bearer-env", self.bearer_env.clone());
        match self.command.as_slice() {
            [] => {}
            [text] => words.extend(["--", shell, "-c", text].map(str::to_owned)),
            argv => words.extend(std::iter::once("--".to_owned()).chain(argv.iter().cloned())),
        }
        words
    }

    fn watch(self) -> Result<WatchSpec, Failure> {
        let bearer = self.bearer_env.as_deref().map(bearer).transpose()?;
        let what = match (self.resource, self.tool) {
            (Some(uri), _) => McpTarget::Resource(uri),
            (None, Some(name)) => {
                McpTarget::Tool { name, arguments: self.arguments.unwrap_or_default() }
            }
            (None, None) => return Err(Failure::new("name a --resource or a --tool")),
        };
        let server = match self.url {
            Some(url) => WatchedServer::Url { url, bearer },
            None => WatchedServer::Program(self.command),
        };
        let (every, pattern, restarts) = (self.every, self.pattern, self.restarts);
        Ok(WatchSpec { server, target: what, interval: every, pattern, restarts })
    }
}

/// Reads a token.
fn bearer(name: &str) -> Result<BearerToken, Failure> {
    let token = std::env::var(name).ok().filter(|token| !token.is_empty());
    token.map(BearerToken).ok_or_else(|| {
        Failure::new(format!("--bearer-env {name}: there is no such variable, or nothing in it"))
            .with_hint("give the name of the variable, not the token")
    })
}

/// The program that watches.
#[derive(Debug, clap::Parser)]
#[command(name = "siding __watch-mcp", disable_help_flag = true)]
struct Inner {
    #[command(flatten)]
    target: Target,
}

/// Watches, in the task.
pub(crate) fn main() -> Result<ExitCode, Failure> {
    let words = std::env::args_os().skip(1);
    let inner = <Inner as clap::Parser>::try_parse_from(words).map_err(Failure::new)?;
    let watched = inner.target.watch()?;
    let say = |line: &str| {
        // Nobody need read it.
        let _unread = print::text(&format!("{line}\n"));
    };
    let why = watch(&watched, say)
        .map_err(|error| Failure::new(format!("could not begin to watch: {error}")))?;
    say(&format!("! {}", one_line(&why, COLUMNS)));
    Ok(ExitCode::from(exit::NOT_DONE))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn inner(words: &[&str]) -> Result<Target, clap::Error> {
        let words = [&["siding"], words].concat();
        Inner::try_parse_from(words).map(|inner| inner.target)
    }

    /// What the task's program is told is what the caller said.
    #[test]
    fn both_command_lines_say_the_same() {
        for words in [
            &["--resource", "file:///a b", "--every", "90s", "--", "server", "--flag", "x y"][..],
            &["--tool=-x", "--arguments", "{\"a\":[1]}", "--match", "^a|b$", "--", "s", "1"],
            &["--tool", "t", "--url", "https://a.example/mcp?x=1", "--bearer-env", "T"],
        ] {
            let given = inner(words).expect("is understood");
            let told = given.words("bash");
            let told: Vec<&str> = told.iter().map(String::as_str).collect();
            let again = inner(&told).expect("is understood");
            assert_eq!(format!("{given:?}"), format!("{again:?}"));
        }
        let text = inner(&["--resource", "x", "--", "a | b"]).expect("is understood");
        assert!(text.words("zsh").ends_with(&["--", "zsh", "-c", "a | b"].map(str::to_owned)));
    }

    #[test]
    fn mistakes_are_told() {
        for (words, said) in [
            (&["--", "server"][..], "--resource"),
            (&["--resource", "x"], "COMMAND"),
            (&["--resource", "x", "--tool", "y", "--", "s"], "cannot be used with"),
            (&["--resource", "x", "--every", "0.5s", "--", "s"], "once a second"),
            (&["--resource", "x", "--match", "(", "--", "s"], "unclosed group"),
            (&["--tool", "x", "--arguments", "[]", "--", "s"], "JSON object"),
            (&["--resource", "x", "--url", "ftp://x"], "http://HOST:PORT"),
            (&["--resource", "x", "--url", "https://me:secret@x/"], "no place for a password"),
            (&["--resource", "x", "--url", "https://x/", "--", "s"], "cannot be used with"),
            (&["--resource", "x", "--bearer-env", "T", "--", "s"], "cannot be used with"),
            (&["--resource", "x", "--bearer-env", "T"], "--url"),
            (&["--resource", "x", "--arguments", "{}", "--", "s"], "cannot be used with"),
        ] {
            let error = inner(words).expect_err("is wrong").to_string();
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }
}
