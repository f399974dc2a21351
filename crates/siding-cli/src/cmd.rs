//! The commands, each in a file with its arguments, help and implementation.

mod a2a;
pub(crate) mod adopt;
mod agent;
mod completions;
mod config;
mod doctor;
#[cfg(test)]
mod documented_commands;
pub(crate) mod dream;
mod extend;
mod guard;
mod history;
mod hook;
mod input;
mod install;
mod man;
mod mcp;
mod monitor;
pub(crate) mod monitor_mcp;
mod notices;
mod output;
mod ps;
mod reap;
mod release;
pub(crate) mod report;
mod run;
mod session;
mod shell_init;
mod show;
mod stats;
mod statusline;
mod stop;
mod uninstall;
mod wait;
mod why;
pub(crate) mod workflow;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use siding_core::task::launch::IdleShim;

use crate::context::SHIM_PROGRAM;
use crate::failure::Failure;

/// Runs slow commands outside an agent's main loop: moves them to the background in place, watches
/// them, stops them with everything they started, and reports how they ended.
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
  siding wait b-4k7q && siding output b-4k7q   wait, then show output
  siding stop --all                            stop all tasks

A task is named by its id or a unique prefix of it.
State is in $SIDING_STATE_DIR, otherwise in $XDG_STATE_HOME/siding.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Ps(ps::Args),
    Show(show::Args),
    Output(output::Args),
    Wait(wait::Args),
    Monitor(Box<monitor::Args>),
    MonitorMcp(Box<monitor_mcp::Args>),
    Why(why::Args),
    Notices(notices::Args),
    Input(input::Args),
    Stop(stop::Args),
    Extend(extend::Args),
    History(history::Args),
    Stats(stats::Args),
    Report(report::Args),
    Reap(reap::Args),
    Session(session::Args),
    Guard(guard::Args),
    Agent(Box<agent::Args>),
    A2a(a2a::Args),
    Workflow(workflow::Args),
    Dream(dream::Args),
    Mcp(mcp::Args),
    Install(install::Args),
    Uninstall(uninstall::Args),
    Adopt(adopt::Args),
    Release(release::Args),
    ShellInit(shell_init::Args),
    Hook(hook::Args),
    Statusline(statusline::Args),
    Config(config::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// A parser for `siding run` alone. Building the parser of all commands takes longer than recording
/// a task, and agents call `run` most often.
#[derive(Debug, Parser)]
#[command(name = "siding", disable_help_subcommand = true)]
struct RunOnly {
    #[command(subcommand)]
    command: RunCommand,
}

#[derive(Debug, Subcommand)]
enum RunCommand {
    Run(Box<run::Args>),
}

/// A parser for `siding adopt` alone, because a shell waits for this command before it runs any
/// other.
#[derive(Debug, Parser)]
#[command(name = "siding", disable_help_subcommand = true)]
struct AdoptOnly {
    #[command(subcommand)]
    command: AdoptCommand,
}

#[derive(Debug, Subcommand)]
enum AdoptCommand {
    Adopt(adopt::Args),
}

/// A parser for `siding hook` alone, because an agent waits for this command at each event.
#[derive(Debug, Parser)]
#[command(name = "siding", disable_help_subcommand = true)]
struct HookOnly {
    #[command(subcommand)]
    command: HookCommand,
}

#[derive(Debug, Subcommand)]
enum HookCommand {
    Hook(hook::Args),
}

/// A parser for `siding statusline` alone, because the host runs this command at every update.
#[derive(Debug, Parser)]
#[command(name = "siding", disable_help_subcommand = true)]
struct StatuslineOnly {
    #[command(subcommand)]
    command: StatuslineCommand,
}

#[derive(Debug, Subcommand)]
enum StatuslineCommand {
    Statusline(statusline::Args),
}

impl Cli {
    /// Parses this process's arguments.
    pub(crate) fn from_process() -> Result<Self, clap::Error> {
        let first = std::env::args_os().nth(1).unwrap_or_default();
        // Help and mistakes are left to the complete parser, because their texts refer to other
        // commands.
        if first == "run"
            && let Ok(RunOnly { command: RunCommand::Run(args) }) = RunOnly::try_parse()
        {
            return Ok(Self { command: Command::Run(args) });
        }
        if first == "adopt"
            && let Ok(AdoptOnly { command: AdoptCommand::Adopt(args) }) = AdoptOnly::try_parse()
        {
            return Ok(Self { command: Command::Adopt(args) });
        }
        if first == "hook"
            && let Ok(HookOnly { command: HookCommand::Hook(args) }) = HookOnly::try_parse()
        {
            return Ok(Self { command: Command::Hook(args) });
        }
        if first == "statusline"
            && let Ok(StatuslineOnly { command: StatuslineCommand::Statusline(args) }) =
                StatuslineOnly::try_parse()
        {
            return Ok(Self { command: Command::Statusline(args) });
        }
        Self::try_parse()
    }

    /// Runs the requested command. `shim` is the shim that was started before parsing, for a
    /// command that needs one.
    pub(crate) fn run(self, shim: Option<io::Result<IdleShim>>) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Run(args) => args.run(shim.unwrap_or_else(|| IdleShim::start(SHIM_PROGRAM))),
            Command::Ps(args) => args.run(),
            Command::Show(args) => args.run(),
            Command::Output(args) => args.run(),
            Command::Wait(args) => args.run(),
            Command::Monitor(args) => args.run(),
            Command::MonitorMcp(args) => args.run(),
            Command::Why(args) => args.run(),
            Command::Notices(args) => args.run(),
            Command::Input(args) => args.run(),
            Command::Stop(args) => args.run(),
            Command::Extend(args) => args.run(),
            Command::History(args) => args.run(),
            Command::Stats(args) => args.run(),
            Command::Report(args) => args.run(),
            Command::Reap(args) => args.run(),
            Command::Session(args) => args.run(),
            Command::Guard(args) => args.run(),
            Command::Agent(args) => args.run(),
            Command::A2a(args) => args.run(),
            Command::Workflow(args) => args.run(),
            Command::Dream(args) => args.run(),
            Command::Mcp(args) => args.run(),
            Command::Adopt(args) => args.run(shim.unwrap_or_else(|| IdleShim::start(SHIM_PROGRAM))),
            Command::Release(args) => args.run(),
            Command::Install(args) => args.run(),
            Command::Uninstall(args) => args.run(),
            Command::ShellInit(args) => args.run(),
            Command::Hook(args) => args.run(),
            Command::Statusline(args) => args.run(),
            Command::Config(args) => args.run(),
            Command::Doctor(args) => args.run(),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
        }
    }
}

/// Parses a duration argument such as `1h30m`.
fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    siding_model::duration::parse(text).map_err(|error| error.to_string())
}
