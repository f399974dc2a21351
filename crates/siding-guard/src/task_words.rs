//! Parses the command of a task into simple commands.

use siding_model::history::SimpleCommand;
use siding_model::spec::TaskCommand;

use crate::simple_commands;

/// Shells whose texts are parsed as bash texts, because commands have the same syntax in these
/// shells.
const BASH_LIKE_SHELLS: [&str; 5] = ["bash", "sh", "dash", "ksh", "zsh"];

/// Returns the simple commands of a task's command. The list is empty if the text cannot be parsed,
/// or if the syntax of the shell is not that of bash.
#[must_use]
pub fn parse_task_command(command: &TaskCommand) -> Vec<SimpleCommand> {
    match command {
        TaskCommand::Argv { argv } => {
            vec![SimpleCommand { words: argv.iter().cloned().map(Some).collect() }]
        }
        TaskCommand::Shell { text, shell } => {
            let name = shell.rsplit('/').next().unwrap_or(shell);
            let commands = BASH_LIKE_SHELLS.contains(&name).then(|| simple_commands(text));
            commands.flatten().unwrap_or_default()
        }
    }
}
