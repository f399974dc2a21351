//! `siding monitor`: runs a command in the background and turns its output lines into notices. At
//! the terminal of a person, it runs the command in the foreground and prints the lines.

use std::process::ExitCode;
use std::time::Duration;

use siding_core::task::launch::IdleShim;
use siding_model::monitor::Monitor;
use siding_model::terminal::TerminalSize;

use super::run;
use crate::caller;
use crate::context::{self, SHIM_PROGRAM};
use crate::failure::Failure;
use crate::render;

/// Default lifetime of a monitor. It is short, so that a forgotten monitor does little harm.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Runs a command in the background and gives a notice for each line of its output.
///
/// At the terminal of a person, the command runs in the foreground: the lines are printed as they
/// come, Ctrl-C stops the command, and --timeout has the default of `siding run`.
///
/// Lines of standard output and standard error give notices; with --match only matching ones. The
/// rate is limited: a burst of five notices, then one a second. Further lines are combined into one
/// notice with their count and the text of the last line. The task's output contains all lines. The
/// end of the command gives a notice, as for every task.
///
/// With --pty, the lines are those that the programs write to the terminal, without colors and
/// cursor movements, and with the keys that the terminal echoes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding monitor -- 'tail -F server.log | grep --line-buffered ERROR'
  siding monitor --match 'FAIL|panicked' --timeout 30m -- cargo watch -x test
  siding monitor --persistent --name deploy -- ./watch-deploy.sh
  siding monitor --pty --match 'error|ready' -- npm run dev

A program that buffers its output without a terminal causes late notices; see
--pty, grep --line-buffered, stdbuf -oL, python -u.")]
pub(crate) struct Args {
    /// Give notices only for lines that match this regular expression
    #[arg(long = "match", value_name = "RE", value_parser = check_pattern)]
    pattern: Option<String>,
    /// Maximum duration of the task (default: 5m; in the foreground max_elapsed, 30m)
    #[arg(long, value_name = "D", conflicts_with = "persistent")]
    timeout: Option<String>,
    /// Set no timeout; only the cap on every task applies (max_elapsed_hard_cap)
    #[arg(long)]
    persistent: bool,
    /// Silence after which a stall is recorded; `0s` turns the check off (default: stall_after,
    /// 45s)
    #[arg(long, value_name = "D")]
    stall_after: Option<String>,
    /// Session that owns the task and receives the notices (default: $SIDING_SESSION)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Working directory of the command (default: the current one)
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
    /// Variable to set for the command; may be repeated
    #[arg(long, value_name = "K=V")]
    env: Vec<String>,
    /// Give the command a terminal of its own, as `siding run --pty` does: for programs that write
    /// each line immediately only to a terminal, or that need one. `siding keys` types into it
    #[arg(long)]
    pty: bool,
    /// Size of the terminal with --pty, as COLUMNSxROWS (default: 80x24; at a terminal its size)
    #[arg(long, value_name = "SIZE", requires = "pty")]
    size: Option<TerminalSize>,
    /// Network access of the command: see `siding run --help` (default: net, host)
    #[arg(long, value_name = "POLICY")]
    net: Option<String>,
    /// Start even if the same command already runs in the same directory
    #[arg(long)]
    allow_duplicate: bool,
    /// Name of the task, which commands accept in place of its id
    #[arg(long)]
    name: Option<String>,
    /// Shell that runs a single argument (default: shell, bash)
    #[arg(long, value_name = "SHELL")]
    shell: Option<String>,
    /// Print the task as JSON instead of its id
    #[arg(long)]
    json: bool,
    /// Command: one string for the shell, or a program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

/// Returns the pattern unchanged. An invalid regular expression is an error, so that it is reported
/// before a task is started.
fn check_pattern(text: &str) -> Result<String, String> {
    regex::Regex::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut run = run::Args::default();
        let is_foreground = !self.json && caller::is_person_at_stdout();
        run.timeout = match &self.timeout {
            // A monitor that a person watches cannot be forgotten.
            None if is_foreground && !self.persistent => None,
            timeout => Some(resolve_deadline(timeout.as_deref(), self.persistent)?),
        };
        run.background = !is_foreground;
        run.budget = is_foreground.then(|| "none".to_owned());
        run.prints_matches = is_foreground;
        if is_foreground {
            let which = if self.pattern.is_some() { "matching lines" } else { "lines" };
            render::print_note(&format!("printing {which}; Ctrl-C stops the command"));
        }
        run.stall_after = self.stall_after;
        run.session = self.session;
        run.cwd = self.cwd;
        run.env = self.env;
        run.pty = self.pty;
        run.size = self.size;
        run.net = self.net;
        run.allow_duplicate = self.allow_duplicate;
        run.name = self.name;
        run.shell = self.shell;
        run.json = self.json;
        run.command = self.command;
        run.monitor = Some(Monitor::new(self.pattern));
        run.run(IdleShim::start(SHIM_PROGRAM))
    }
}

/// Returns a monitor's deadline in the format of `siding run --timeout`: `timeout`, or the cap for
/// a persistent monitor, or the default lifetime.
pub(super) fn resolve_deadline(
    timeout: Option<&str>,
    is_persistent: bool,
) -> Result<String, Failure> {
    if let Some(timeout) = timeout {
        return Ok(timeout.to_owned());
    }
    let life = if is_persistent {
        context::load_settings()?.max_elapsed_hard_cap
    } else {
        DEFAULT_TIMEOUT
    };
    Ok(format!("{}ms", life.as_millis()))
}
