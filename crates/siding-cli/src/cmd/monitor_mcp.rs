//! `siding monitor-mcp`: watches a resource or a tool of another MCP server.
//!
//! The command starts this program again in a background task with a monitor. The process in the
//! task is the server's client, so the watch can be stopped, has a deadline and gives notices like
//! any task.

use std::process::ExitCode;
use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Value};
use siding_core::task::launch::IdleShim;
use siding_core::task::run::request;
use siding_mcp::watch::{
    BearerToken, McpTarget, NOTICE_LINE_PATTERN, WatchSpec, WatchedServer, watch,
};
use siding_model::id::{TaskId, TaskKind};
use siding_model::monitor::Monitor;
use siding_model::text::one_line;

use super::{monitor, run};
use crate::context::{self, SHIM_PROGRAM};
use crate::exit;
use crate::failure::Failure;
use crate::stdout;

/// First argument with which this program runs inside the task and watches a server.
pub(crate) const WATCH_ARGUMENT: &str = siding_model::spec::self_command::WATCH_MCP_ARG;
/// Minimum pause between two requests for the same resource or tool.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Default maximum number of consecutive attempts to start or reach a server again. With the pauses
/// between them, these attempts take about half a minute.
const DEFAULT_MAX_RESTARTS: u32 = 5;
/// Maximum width in columns of the reason why the watch ended.
const REASON_COLUMNS: usize = 400;
/// Maximum width in columns of the default task name.
const TASK_NAME_COLUMNS: usize = 80;

/// Watches a resource or a tool of another MCP server and gives a notice for each change.
///
/// siding subscribes to a resource if the server supports that, and otherwise reads the resource at
/// the interval --every. A tool is called at this interval. Each change of the text gives a notice
/// that summarizes the difference in one line. The rate is limited: a burst of five notices, then
/// one a second. The first reading is only in the output. A server that ends is started again;
/// after --restarts consecutive attempts the task fails.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding monitor-mcp --resource file:///var/log/app.log -- logs-server
  siding monitor-mcp --tool alerts --every 30s -- 'npx -y some-server'
  siding monitor-mcp --tool ci --url https://ci.example/mcp --bearer-env TOKEN

The server's standard error is in the output, with the prefix `server:`.
A token is given by its variable; it is on no command line and not on disk.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: WatchTarget,
    /// Maximum duration of the task (default: 5m)
    #[arg(long, value_name = "D", conflicts_with = "persistent")]
    timeout: Option<String>,
    /// Set no timeout; only the cap on every task applies (max_elapsed_hard_cap)
    #[arg(long)]
    persistent: bool,
    /// Session that owns the task and receives the notices (default: $SIDING_SESSION)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Working directory of the server (default: the current one)
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
    /// Start even if the same resource or tool is already watched from the same directory
    #[arg(long)]
    allow_duplicate: bool,
    /// Name of the task, which commands accept in place of its id
    #[arg(long)]
    name: Option<String>,
    /// Print the task as JSON instead of its id
    #[arg(long)]
    json: bool,
    /// Id for the new task, which the caller has recorded
    #[arg(long, value_name = "ID", hide = true)]
    new_task_id: Option<TaskId>,
}

/// Arguments that describe the watch. `siding monitor-mcp` passes them on to the program in the
/// task.
#[derive(Debug, clap::Args)]
struct WatchTarget {
    /// URI of the resource to watch
    #[arg(long, value_name = "URI", required_unless_present = "tool", conflicts_with = "tool")]
    resource: Option<String>,
    /// Tool to call repeatedly; it must not change anything
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Arguments of the tool: a JSON object (default: none)
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    #[arg(requires = "tool", conflicts_with = "resource")]
    arguments: Option<Map<String, Value>>,
    /// Pause between two requests; at least 1s
    #[arg(long, value_name = "D", default_value = "10s", value_parser = parse_interval)]
    every: Duration,
    /// Give notices only for changes with a line that matches this regular expression
    #[arg(long = "match", value_name = "RE", value_parser = parse_pattern)]
    pattern: Option<Regex>,
    /// Maximum number of consecutive attempts to start or reach the server again
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_RESTARTS)]
    restarts: u32,
    /// Address of a server that uses Streamable HTTP
    #[arg(long, value_name = "URL", value_parser = parse_url, conflicts_with = "command")]
    url: Option<String>,
    /// Environment variable that holds the server's token
    #[arg(long, value_name = "VARIABLE", requires = "url", conflicts_with = "command")]
    bearer_env: Option<String>,
    /// Command that starts the server: one string for the shell, or a program and its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "url", value_name = "COMMAND")]
    command: Vec<String>,
}

/// Parses a regular expression, so that an invalid one is reported before a task is started.
fn parse_pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}

fn parse_object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let every = super::parse_duration(text)?;
    if every < MIN_POLL_INTERVAL {
        return Err("a server is queried once a second at most; use `1s` or more".to_owned());
    }
    Ok(every)
}

/// Returns the address of a server unchanged, or an error. The address must not contain a password,
/// because the address is recorded in the journal and visible on a command line.
fn parse_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        None | Some("") => {
            Err("not an HTTP address; use http://HOST:PORT/PATH or https://HOST/PATH".to_owned())
        }
        Some(host) if host.contains('@') => Err(
            "the address must not contain a password; give a token in a variable with --bearer-env"
                .to_owned(),
        ),
        Some(_) => Ok(text.to_owned()),
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut run = run::Args::default();
        run.set_kind(TaskKind::MonitorMcp, self.new_task_id)?;
        run.timeout = Some(monitor::resolve_deadline(self.timeout.as_deref(), self.persistent)?);
        run.background = true;
        // Silence is normal for a watch, and the watch itself reports failures of its connection.
        run.stall_after = Some("0s".to_owned());
        // The server must end with the watch that started it.
        run.on_leader_exit = Some("reap".to_owned());
        // The token is passed explicitly, because a task does not inherit every variable: the token
        // of siding's own server, for example, is removed.
        run.env = self.target.token_variable()?.into_iter().collect();
        run.session = self.session;
        run.cwd = self.cwd;
        run.allow_duplicate = self.allow_duplicate;
        run.name = Some(self.name.unwrap_or_else(|| self.target.default_name()));
        run.json = self.json;
        let words = self.target.to_argv(&context::load_settings()?.shell);
        let own = [request::self_program_path(), WATCH_ARGUMENT.to_owned()];
        run.command = own.into_iter().chain(words).map(Into::into).collect();
        run.monitor = Some(Monitor::new(Some(NOTICE_LINE_PATTERN.to_owned())));
        run.run(IdleShim::start(SHIM_PROGRAM))
    }
}

impl WatchTarget {
    /// Returns the variable that holds the token as `NAME=TOKEN`, or `None` without `--bearer-env`.
    fn token_variable(&self) -> Result<Option<String>, Failure> {
        let Some(name) = &self.bearer_env else { return Ok(None) };
        let token = read_bearer_token(name)?;
        Ok(Some(format!("{name}={}", token.0)))
    }

    /// Returns the default task name, which consists of the resource or tool and the server's URL
    /// or command.
    fn default_name(&self) -> String {
        let watched = self.resource.as_ref().or(self.tool.as_ref());
        let server = self.url.clone().unwrap_or_else(|| self.command.join(" "));
        one_line(&format!("{} of {server}", watched.map_or("", String::as_str)), TASK_NAME_COLUMNS)
    }

    /// Returns the arguments of the program in the task. A server command of one word is run by
    /// `shell`.
    fn to_argv(&self, shell: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut push_flag = |flag: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{flag}={value}")));
        };
        push_flag("resource", self.resource.clone());
        push_flag("tool", self.tool.clone());
        push_flag(
            "arguments",
            self.arguments.clone().map(|given| Value::Object(given).to_string()),
        );
        push_flag("every", Some(format!("{}ms", self.every.as_millis())));
        push_flag("match", self.pattern.as_ref().map(ToString::to_string));
        push_flag("restarts", Some(self.restarts.to_string()));
        push_flag("url", self.url.clone());
        push_flag("bearer-env", self.bearer_env.clone());
        match self.command.as_slice() {
            [] => {}
            [text] => words.extend(["--", shell, "-c", text].map(str::to_owned)),
            argv => words.extend(std::iter::once("--".to_owned()).chain(argv.iter().cloned())),
        }
        words
    }

    fn into_watch(self) -> Result<WatchSpec, Failure> {
        let bearer = self.bearer_env.as_deref().map(read_bearer_token).transpose()?;
        let target = match (self.resource, self.tool) {
            (Some(uri), _) => McpTarget::Resource(uri),
            (None, Some(name)) => {
                McpTarget::Tool { name, arguments: self.arguments.unwrap_or_default() }
            }
            (None, None) => return Err(Failure::new("give a --resource or a --tool")),
        };
        let server = match self.url {
            Some(url) => WatchedServer::Url { url, bearer },
            None => WatchedServer::Program(self.command),
        };
        let (every, pattern, restarts) = (self.every, self.pattern, self.restarts);
        Ok(WatchSpec { server, target, interval: every, pattern, restarts })
    }
}

/// Reads a token from an environment variable, which must be set and not empty.
fn read_bearer_token(name: &str) -> Result<BearerToken, Failure> {
    let token = std::env::var(name).ok().filter(|token| !token.is_empty());
    token.map(BearerToken).ok_or_else(|| {
        Failure::new(format!("--bearer-env {name}: the variable is unset or empty"))
            .with_hint("give the name of the variable, not the token")
    })
}

/// Arguments of `siding __watch-mcp`, the program that runs in the task.
#[derive(Debug, clap::Parser)]
#[command(name = "siding __watch-mcp", disable_help_flag = true)]
struct WatchTaskArgs {
    #[command(flatten)]
    target: WatchTarget,
}

/// Runs `siding __watch-mcp`: watches the server and prints each change, until the watch fails.
pub(crate) fn main() -> Result<ExitCode, Failure> {
    let words = std::env::args_os().skip(1);
    let inner = <WatchTaskArgs as clap::Parser>::try_parse_from(words).map_err(Failure::new)?;
    let watched = inner.target.into_watch()?;
    let print_line = |line: &str| {
        // If standard output is closed, the watch continues.
        let _peer_gone = stdout::print_text(&format!("{line}\n"));
    };
    let why = watch(&watched, print_line)
        .map_err(|error| Failure::new(format!("could not start watching: {error}")))?;
    print_line(&format!("! {}", one_line(&why, REASON_COLUMNS)));
    Ok(ExitCode::from(exit::INCOMPLETE))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn parse_task_args(words: &[&str]) -> Result<WatchTarget, clap::Error> {
        let words = [&["siding"], words].concat();
        WatchTaskArgs::try_parse_from(words).map(|inner| inner.target)
    }

    #[test]
    fn task_arguments_reproduce_the_request() {
        for words in [
            &["--resource", "file:///a b", "--every", "90s", "--", "server", "--flag", "x y"][..],
            &["--tool=-x", "--arguments", "{\"a\":[1]}", "--match", "^a|b$", "--", "s", "1"],
            &["--tool", "t", "--url", "https://a.example/mcp?x=1", "--bearer-env", "T"],
        ] {
            let target = parse_task_args(words).expect("is understood");
            let argv = target.to_argv("bash");
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            let again = parse_task_args(&argv).expect("is understood");
            assert_eq!(format!("{target:?}"), format!("{again:?}"));
        }
        let text = parse_task_args(&["--resource", "x", "--", "a | b"]).expect("is understood");
        assert!(text.to_argv("zsh").ends_with(&["--", "zsh", "-c", "a | b"].map(str::to_owned)));
    }

    #[test]
    fn invalid_arguments_are_rejected_with_a_reason() {
        for (words, expected) in [
            (&["--", "server"][..], "--resource"),
            (&["--resource", "x"], "COMMAND"),
            (&["--resource", "x", "--tool", "y", "--", "s"], "cannot be used with"),
            (&["--resource", "x", "--every", "0.5s", "--", "s"], "once a second"),
            (&["--resource", "x", "--match", "(", "--", "s"], "unclosed group"),
            (&["--tool", "x", "--arguments", "[]", "--", "s"], "JSON object"),
            (&["--resource", "x", "--url", "ftp://x"], "http://HOST:PORT"),
            (&["--resource", "x", "--url", "https://me:secret@x/"], "must not contain a password"),
            (&["--resource", "x", "--url", "https://x/", "--", "s"], "cannot be used with"),
            (&["--resource", "x", "--bearer-env", "T", "--", "s"], "cannot be used with"),
            (&["--resource", "x", "--bearer-env", "T"], "--url"),
            (&["--resource", "x", "--arguments", "{}", "--", "s"], "cannot be used with"),
        ] {
            let error = parse_task_args(words).expect_err("is wrong").to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }
}
