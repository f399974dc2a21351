//! The program `siding`: its commands, their output and exit codes.
//!
//! Each command has a file in `cmd`. `siding-core` gathers the data, `siding-model` makes the
//! decisions, and this crate formats the result. Only `failure` converts errors to a message, a
//! hint and an exit code.

#![forbid(unsafe_code)]
#![deny(clippy::print_stderr, reason = "they panic if standard error is closed: use `errln!`")]

#[macro_use]
mod stderr;

mod activity;
mod cmd;
mod context;
mod exit;
mod failure;
mod guard_rules;
mod install;
mod notify_way;
mod render;
mod run_history;
mod shell_init;
mod stdout;

use std::process::ExitCode;

use siding_core::host::SUPERVISOR_ARGUMENT;
use siding_core::net::proxy::PROXY_ARGUMENT;
use siding_core::processes::siding_process::SHIM_ARGUMENT;
use siding_core::task::launch::IdleShim;

/// Runs the program and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let first = std::env::args_os().nth(1).unwrap_or_default();
    // Checked first: a shim parses no arguments and must not spend time or memory on a parser.
    if first == SHIM_ARGUMENT {
        return ExitCode::from(siding_shim::main());
    }
    if first == SUPERVISOR_ARGUMENT {
        return ExitCode::from(siding_shim::supervise());
    }
    if first == PROXY_ARGUMENT {
        return ExitCode::from(siding_core::net::proxy::main());
    }
    // Programs that siding starts in tasks. They are not commands for users.
    if first == siding_workflow::task::WORKFLOW_SUBCOMMAND {
        return cmd::workflow::exec::main();
    }
    if first == cmd::monitor_mcp::WATCH_ARGUMENT {
        return cmd::monitor_mcp::main().unwrap_or_else(|failure| failure.report());
    }
    if first == siding_agent::memory_consolidation::DREAM_SUBCOMMAND {
        return cmd::dream::main().unwrap_or_else(|failure| failure.report());
    }
    if let Some(adopt) = cmd::adopt::FastAdopt::from_process() {
        let outcome = adopt.run(|| IdleShim::fork(siding_shim::main));
        return outcome.unwrap_or_else(|failure| failure.report());
    }
    // Forked now, while this process has little memory to copy: the shim becomes ready while the
    // arguments are parsed. If the command needs no shim, the fork ends with this process.
    let shim = (first == "run" || first == "adopt").then(|| IdleShim::fork(siding_shim::main));
    let outcome = match cmd::Cli::from_process() {
        Ok(cli) => cli.run(shim),
        Err(error) => return failure::report_clap_error(&error),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}
