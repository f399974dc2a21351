//! `siding a2a`: sends tasks to other agents, and serves siding's own agent to other programs.

mod follow;
mod send;
mod serve;

use std::process::ExitCode;

use crate::failure::Failure;

/// Exchanges tasks with other agents over A2A 1.0.
///
/// `send` gives work to another agent and supervises it as a task on this machine. `serve` offers
/// siding's own agent to other programs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding a2a send http://127.0.0.1:7434 'what fails here?'
  siding a2a send http://127.0.0.1:7434 'and now build it'

To offer siding's own agent: siding help a2a serve.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Send(Box<send::Args>),
    Serve(Box<serve::Args>),
    #[command(name = follow::FOLLOW_COMMAND, hide = true)]
    Follow(Box<follow::Args>),
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Send(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Follow(args) => args.run(),
        }
    }
}
