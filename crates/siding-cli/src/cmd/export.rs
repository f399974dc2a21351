//! `siding export`: sends ended tasks to other systems.

mod collector;
mod otlp;
mod program_name;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;

/// Sends ended tasks to a system that collects telemetry.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding export otlp --endpoint http://localhost:4318
  siding export otlp --endpoint http://localhost:4318 --follow

A task is sent as a span with its start, end, outcome and events, but without
its output; `siding help export otlp` has the details.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Otlp(otlp::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Otlp(args) => args.run(),
        }
    }
}
