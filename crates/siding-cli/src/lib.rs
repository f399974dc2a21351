//! The program `siding`: its commands, their output and exit codes.
//!
//! Each command has a file in `cmd`. `siding-core` gathers the data, `siding-model` makes the
//! decisions, and this crate formats the result. An error of siding itself is converted to a
//! `failure::Failure`, which has a message and perhaps a hint, and whose exit code is always 125.

#![forbid(unsafe_code)]
#![deny(clippy::print_stderr, reason = "they panic if standard error is closed: use `errln!`")]

#[macro_use]
mod stderr;

mod activity;
mod attachment;
mod caller;
mod cmd;
mod command_output;
mod context;
mod exit;
mod failure;
mod guard_rules;
mod host_sandbox;
mod hyperlink;
mod install;
mod key_reader;
mod notify_method;
mod pager;
mod render;
mod run_history;
mod shell_init;
mod stdout;
mod task_progress;
mod terminal;
mod terminal_replay;

use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;

use siding_core::host::SUPERVISOR_ARGUMENT;
use siding_core::net::proxy::PROXY_ARGUMENT;
use siding_core::processes::siding_process::SHIM_ARGUMENT;
use siding_core::remote::JOB_ARGUMENT;
use siding_core::remote::ssh::SERVE_ARGUMENT;
use siding_core::task::launch::IdleShim;

/// Runs the program and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let first = std::env::args_os().nth(1).unwrap_or_default();
    // This check is first, because a shim must not spend time or memory on a parser of arguments.
    if first == SHIM_ARGUMENT {
        return ExitCode::from(siding_shim::main());
    }
    // The shim is forked now, while this process has little memory to copy. It becomes ready while
    // this process parses the arguments or receives the request of a mirror. If the command needs
    // no shim, the fork ends with this process.
    let may_start_task = first == "run" || first == "adopt" || first == SERVE_ARGUMENT;
    let mut shim = may_start_task.then(|| IdleShim::fork(siding_shim::main));
    run_internal_program(&first, &mut shim).unwrap_or_else(|| run_command(shim))
}

/// Runs the internal program, such as a proxy, that this first argument selects. Returns `None` if
/// the argument selects no internal program, as in every user command. The program takes the
/// prepared shim if it can start a task.
#[inline(never)]
fn run_internal_program(
    first: &OsStr,
    shim: &mut Option<io::Result<IdleShim>>,
) -> Option<ExitCode> {
    let outcome = match first.to_str()? {
        SUPERVISOR_ARGUMENT => return Some(ExitCode::from(siding_shim::supervise())),
        PROXY_ARGUMENT => return Some(ExitCode::from(siding_core::net::proxy::main())),
        siding_workflow::task::WORKFLOW_SUBCOMMAND => return Some(cmd::workflow::exec::main()),
        cmd::monitor_mcp::WATCH_ARGUMENT => cmd::monitor_mcp::main(),
        siding_agent::memory_consolidation::DREAM_SUBCOMMAND => cmd::dream::main(),
        cmd::completions::complete::COMPLETE_ARGUMENT => cmd::completions::complete::main(),
        SERVE_ARGUMENT => cmd::serve::main(shim.take().and_then(Result::ok)),
        JOB_ARGUMENT => cmd::serve::run_job(),
        _ => return None,
    };
    Some(outcome.unwrap_or_else(|failure| failure.report()))
}

/// Runs the command that the arguments select. This function and [`run_internal_program`] are not
/// inlined into `main`, because that would enlarge the stack frame of `main`, which every forked
/// shim copies.
#[inline(never)]
fn run_command(shim: Option<io::Result<IdleShim>>) -> ExitCode {
    stdout::measure_terminal();
    match cmd::Cli::from_process() {
        Ok(cli) => cli.run(shim).unwrap_or_else(|failure| failure.report()),
        Err(error) => failure::report_clap_error(&error),
    }
}
