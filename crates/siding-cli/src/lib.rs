//! The program `siding`: commands, what they print, and their exit codes.
//!
//! One file per command in `cmd`. What a command finds out it gets from `siding-core`; what it
//! means is decided in `siding-model`; here it becomes text. Exactly one place, `failure`, turns
//! errors into a message, a hint and an exit code.

#![forbid(unsafe_code)]

mod cmd;
mod context;
mod exit;
mod failure;
mod past;
mod print;
mod render;

use std::process::ExitCode;

use siding_core::launch::SHIM_ARGUMENT;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // Before anything else: a shim needs no argument parser, and pays for none.
    if arguments.next().is_some_and(|first| first == SHIM_ARGUMENT) {
        let rest: Vec<String> =
            arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
        return siding_shim::main(&rest);
    }
    let outcome = match cmd::Cli::from_process() {
        Ok(cli) => cli.run(),
        Err(error) => return failure::usage(&error),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}
