//! The program `siding`: commands, what they print, and their exit codes.
//!
//! One file per command in `cmd`. What a command finds out it gets from `siding-core`; what it
//! means is decided in `siding-model`; here it becomes text. Exactly one place, `failure`, turns
//! errors into a message, a hint and an exit code.

#![forbid(unsafe_code)]
#![deny(clippy::print_stderr, reason = "they end the program when nobody reads: use `errln!`")]

#[macro_use]
mod stderr;

mod activity;
mod cmd;
mod context;
mod exit;
mod failure;
mod guard_rules;
mod install;
mod render;
mod run_history;
mod stdout;

use std::process::ExitCode;

use siding_core::host::SUPERVISOR_ARGUMENT;
use siding_core::launch::IdleShim;
use siding_core::proxy::PROXY_ARGUMENT;
use siding_core::siding_process::SHIM_ARGUMENT;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let first = std::env::args_os().nth(1).unwrap_or_default();
    // Before anything else: a shim needs no argument parser, and pays for none.
    if first == SHIM_ARGUMENT {
        return ExitCode::from(siding_shim::main());
    }
    if first == SUPERVISOR_ARGUMENT {
        return ExitCode::from(siding_shim::supervise());
    }
    if first == PROXY_ARGUMENT {
        return ExitCode::from(siding_core::proxy::main());
    }
    // The programs of tasks, and no commands of anybody's.
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
    // Forked while there is next to nothing to copy, so that it becomes ready while the arguments
    // are still read. One that is not needed leaves with this process.
    let shim = (first == "run" || first == "adopt").then(|| IdleShim::fork(siding_shim::main));
    let outcome = match cmd::Cli::from_process() {
        Ok(cli) => cli.run(shim),
        Err(error) => return failure::report_clap_error(&error),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}
