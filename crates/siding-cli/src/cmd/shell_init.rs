//! `siding shell-init`: prints the script by which each shell of an agent is adopted.

use std::process::ExitCode;

use clap::ValueEnum;
use siding_model::id::SessionId;

use crate::failure::Failure;
use crate::shell_init::init_script;
use crate::stdout;

/// Prints a script by which each shell of an agent is adopted when it starts.
///
/// The agent's shells read the script from BASH_ENV (bash) or from ZDOTDIR (zsh). Set that variable
/// for the agent alone: every script that inherits it gets a deadline.
///
/// The shell and everything it starts then have a deadline and belong to the agent's session, whose
/// id is in SIDING_SESSION. The shell waits for siding for a tenth of a second at most, prints
/// nothing if siding is missing or broken, and keeps its options, traps, arguments and `$?`. A
/// person's shells and shells inside an adopted one are not adopted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding shell-init bash > ~/.config/siding/bash-env
  siding shell-init zsh > ~/.config/siding/zsh/.zshenv
  siding shell-init bash --session chat-7 >> $CLAUDE_ENV_FILE

The directory of the file must exist (`mkdir -p ~/.config/siding/zsh`).
Then start the agent as `BASH_ENV=~/.config/siding/bash-env codex`, or with
`ZDOTDIR=~/.config/siding/zsh`. In a file of your own, use eval
\"$(siding shell-init bash)\", which starts siding twice for each shell.")]
pub(crate) struct Args {
    /// Shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
    /// Session that owns the adopted shells (default: $SIDING_SESSION of the shell, otherwise that
    /// of the program above it)
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
}

/// A shell that reads a file, named by a variable, before it runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// Reads the file in BASH_ENV; version 4.4 or later
    Bash,
    /// Reads .zshenv in ZDOTDIR
    Zsh,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("could not find siding's own path: {error}")))?;
        let text = match self.shell {
            Shell::Bash | Shell::Zsh => init_script(&program, self.session.as_ref())?,
        };
        stdout::print_text(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
