//! `siding completions`: prints shell completion scripts.
//!
//! The scripts for bash, zsh and fish call this program at each completion, because only it knows
//! the present tasks and sessions. Those for other shells are static.

pub(crate) mod complete;
mod values;

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::stdout;

/// Prints a completion script for a shell.
///
/// In bash, zsh and fish it also completes the ids and names of tasks, sessions, settings and
/// executors.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding completions bash > ~/.local/share/bash-completion/completions/siding
  siding completions zsh > ~/.zfunc/_siding     (with ~/.zfunc in fpath)
  siding completions fish > ~/.config/fish/completions/siding.fish")]
pub(crate) struct Args {
    /// Shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        stdout::print_bytes(&completion_script(self.shell))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn completion_script(shell: Shell) -> Vec<u8> {
    match shell {
        Shell::Bash => include_bytes!("completions/siding.bash").to_vec(),
        Shell::Zsh => include_bytes!("completions/siding.zsh").to_vec(),
        Shell::Fish => include_bytes!("completions/siding.fish").to_vec(),
        // The enum may get more shells, which clap_complete would then support.
        Shell::Elvish | Shell::PowerShell | _ => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut super::Cli::command(), "siding", &mut script);
            script
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_static_script_lists_every_command() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(completion_script(*shell)).expect("text");
            if script.contains(complete::COMPLETE_ARGUMENT) {
                continue;
            }
            for command in super::super::Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
