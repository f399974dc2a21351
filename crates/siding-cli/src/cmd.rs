//! The commands. Each command has a file with its arguments, help and implementation.

mod a2a;
pub(crate) mod adopt;
mod agent;
mod answer;
mod attach;
pub(crate) mod completions;
mod config;
mod doctor;
#[cfg(test)]
mod documented_commands;
pub(crate) mod dream;
mod executors;
mod export;
mod extend;
mod guard;
mod history;
mod hook;
mod input;
mod install;
mod keys;
mod man;
mod mcp;
mod metrics;
mod monitor;
pub(crate) mod monitor_mcp;
mod notices;
mod output;
mod ps;
mod reap;
mod record;
mod release;
mod remote_call;
pub(crate) mod report;
mod rm;
mod run;
mod schema;
mod screen;
pub(crate) mod serve;
mod session;
mod shell_init;
mod show;
mod stats;
mod statusline;
mod stop;
mod suggestion;
mod timeline;
mod top;
mod uninstall;
mod wait;
mod web;
mod why;
pub(crate) mod workflow;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use siding_core::store::StateDir;
use siding_core::task::launch::IdleShim;
use siding_core::task::view::ViewDetail;

use crate::context::{SHIM_PROGRAM, Task};
use crate::failure::Failure;
use crate::{render, stdout};

/// The file name that stands for standard output.
const STDOUT_PATH: &str = "-";

/// Runs slow commands outside an agent's main loop: moves them to the background without a restart,
/// watches them, stops them with everything that they started, and reports how they ended.
#[derive(Debug, Parser)]
#[command(name = "siding", version, max_term_width = 80, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  siding run --budget 15s -- 'npm test'        in the background after 15 s
  siding ps                                    list tasks
  siding wait b-4k7q; siding output b-4k7q     wait, then show output
  siding stop --all                            stop all tasks
  siding run --on build -- make                on the executor `build`, over ssh

A command refers to a task by its id, a unique prefix of the id, or its name;
`@` is the task that was started last.
State is in $SIDING_STATE_DIR, otherwise in $XDG_STATE_HOME/siding.";

// The order of the commands is that of the help: by use, because the parser shows no headings. A
// documentation comment would replace the text of `siding --help`.
#[derive(Debug, Subcommand)]
enum Command {
    // Run and watch.
    Run(Box<run::Args>),
    #[command(visible_aliases = ["ls", "list"])]
    Ps(ps::Args),
    Top(top::Args),
    Show(show::Args),
    #[command(visible_alias = "logs")]
    Output(output::Args),
    Wait(wait::Args),
    Monitor(Box<monitor::Args>),
    MonitorMcp(Box<monitor_mcp::Args>),
    Why(why::Args),
    Notices(notices::Args),
    Input(input::Args),
    Screen(screen::Args),
    Record(record::Args),
    Keys(keys::Args),
    Attach(attach::Args),
    Answer(answer::Args),
    Web(web::Args),
    // Stop and remove.
    #[command(visible_alias = "kill")]
    Stop(stop::Args),
    Extend(extend::Args),
    Rm(rm::Args),
    Reap(reap::Args),
    // Earlier runs.
    History(history::Args),
    Stats(stats::Args),
    Report(report::Args),
    Timeline(timeline::Args),
    // Sessions and agents.
    Session(session::Args),
    Guard(guard::Args),
    Adopt(adopt::Args),
    Release(release::Args),
    Agent(Box<agent::Args>),
    A2a(a2a::Args),
    Workflow(workflow::Args),
    Dream(dream::Args),
    Mcp(mcp::Args),
    // Set-up.
    Install(install::Args),
    Uninstall(uninstall::Args),
    Config(config::Args),
    Executors(executors::Args),
    Doctor(doctor::Args),
    ShellInit(shell_init::Args),
    Completions(completions::Args),
    Man(man::Args),
    // For machines.
    Hook(hook::Args),
    Statusline(statusline::Args),
    Metrics(metrics::Args),
    Export(export::Args),
    Schema(schema::Args),
}

impl Cli {
    /// Parses this process's arguments.
    pub(crate) fn from_process() -> Result<Self, clap::Error> {
        let mut words = std::env::args_os().skip(1);
        let first = words.next().unwrap_or_default();
        // Other programs accept these words for `--version`.
        if (first == "version" || first == "-v") && words.next().is_none() {
            return Self::try_parse_from(["siding", "--version"]);
        }
        let command = match first.to_str() {
            Some("run") => parse_alone("run").map(Command::Run),
            Some("wait") => parse_alone("wait").map(Command::Wait),
            Some("adopt") => parse_alone("adopt").map(Command::Adopt),
            Some("hook") => parse_alone("hook").map(Command::Hook),
            _ => None,
        };
        command.map_or_else(
            || Self::try_parse().map_err(suggestion::add_suggestions),
            |command| Ok(Self { command }),
        )
    }

    /// Runs the requested command. `shim` was started before the arguments were parsed; it is
    /// present only for `run` and `adopt`.
    pub(crate) fn run(self, shim: Option<io::Result<IdleShim>>) -> Result<ExitCode, Failure> {
        match (self.command, shim) {
            (Command::Run(args), Some(shim)) => args.run(shim),
            (Command::Adopt(args), Some(shim)) => args.run(shim),
            (command, _) => command.run(),
        }
    }
}

impl Command {
    /// Runs a command for which no shim has been started. This function is not inlined into
    /// [`Cli::run`]: its stack frame has room for the arguments of every command, and the page
    /// faults on this memory would delay `run` and `adopt`.
    #[inline(never)]
    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Run(args) => args.run(IdleShim::start(SHIM_PROGRAM)),
            Self::Adopt(args) => args.run(IdleShim::start(SHIM_PROGRAM)),
            Self::Ps(args) => args.run(),
            Self::Top(args) => args.run(),
            Self::Show(args) => args.run(),
            Self::Output(args) => args.run(),
            Self::Wait(args) => args.run(),
            Self::Monitor(args) => args.run(),
            Self::MonitorMcp(args) => args.run(),
            Self::Why(args) => args.run(),
            Self::Notices(args) => args.run(),
            Self::Input(args) => args.run(),
            Self::Screen(args) => args.run(),
            Self::Record(args) => args.run(),
            Self::Keys(args) => args.run(),
            Self::Attach(args) => args.run(),
            Self::Answer(args) => args.run(),
            Self::Stop(args) => args.run(),
            Self::Extend(args) => args.run(),
            Self::Rm(args) => args.run(),
            Self::History(args) => args.run(),
            Self::Stats(args) => args.run(),
            Self::Report(args) => args.run(),
            Self::Metrics(args) => args.run(),
            Self::Export(args) => args.run(),
            Self::Timeline(args) => args.run(),
            Self::Reap(args) => args.run(),
            Self::Session(args) => args.run(),
            Self::Guard(args) => args.run(),
            Self::Agent(args) => args.run(),
            Self::Web(args) => args.run(),
            Self::A2a(args) => args.run(),
            Self::Workflow(args) => args.run(),
            Self::Dream(args) => args.run(),
            Self::Mcp(args) => args.run(),
            Self::Release(args) => args.run(),
            Self::Install(args) => args.run(),
            Self::Uninstall(args) => args.run(),
            Self::ShellInit(args) => args.run(),
            Self::Hook(args) => args.run(),
            Self::Statusline(args) => args.run(),
            Self::Config(args) => args.run(),
            Self::Executors(args) => args.run(),
            Self::Schema(args) => args.run(),
            Self::Doctor(args) => args.run(),
            Self::Completions(args) => args.run(),
            Self::Man(args) => args.run(),
        }
    }
}

/// Parses the arguments of one command with a parser for this command alone. The commands that
/// agents call most often use this function, because building the parser of all commands takes
/// longer than recording a task. Returns `None` if the arguments ask for help or contain a mistake.
/// The complete parser handles these cases, because the messages refer to other commands.
fn parse_alone<A: Args>(name: &'static str) -> Option<A> {
    let words = std::env::args_os().skip(1);
    let parser = A::augment_args(clap::Command::new(name));
    let mut matches = parser.try_get_matches_from(words).ok()?;
    A::from_arg_matches_mut(&mut matches).ok()
}

/// Prints the result of a request to a task's shim: the message, or with `--json` the task with the
/// message.
fn print_request_result(
    root: &StateDir,
    task: &Task,
    message: String,
    is_json: bool,
) -> Result<(), Failure> {
    if is_json {
        let mut view = task.view(root, ViewDetail::Full);
        view.message = Some(message);
        return render::json::print(&view);
    }
    let text = stdout::wrap_indented(&message, 0, stdout::text_columns());
    stdout::print_text(&format!("{text}\n"))
}

/// Parses a duration argument such as `1h30m`.
fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    siding_model::duration::parse(text).map_err(|error| error.to_string())
}

/// Parses the address of a server. The standard library's error does not show the form.
fn parse_listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let example = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(7500)));
        format!("not an IP address with a port; write it as in `{example}`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_address_is_answered_with_its_form() {
        for (text, form) in [
            ("8099", "`127.0.0.1:8099`"),
            (":8099", "`127.0.0.1:8099`"),
            ("localhost:8099", "`127.0.0.1:8099`"),
            ("127.0.0.1", "`127.0.0.1:7500`"),
        ] {
            let error = parse_listen_address(text).expect_err("no address");
            assert!(error.contains(form), "{text}: {error}");
        }
        assert!(parse_listen_address("[::1]:0").is_ok());
    }
}
