//! The name of the program that a task's command runs.

use siding_model::id::TaskKind;
use siding_model::spec::TaskCommand;

/// Commands of a shell that prepare the command that follows them.
const PREPARING_COMMANDS: [&str; 14] = [
    ".", ":", "cd", "declare", "export", "pushd", "set", "shopt", "source", "trap", "true",
    "ulimit", "umask", "unset",
];

/// Returns the name of the program that a command runs, without its directory, such as `make` for
/// `cd src && make -j8`. This is the first command that is not one of `PREPARING_COMMANDS`,
/// otherwise the first command, otherwise the shell. Tasks of other kinds than
/// [`TaskKind::LocalBash`] run `siding`.
pub(super) fn program_name(kind: TaskKind, command: &TaskCommand) -> String {
    if kind != TaskKind::LocalBash {
        return "siding".to_owned();
    }
    let commands = siding_guard::parse_task_command(command);
    let programs = commands.iter().filter_map(|command| command.words.first()?.as_deref());
    let mut names = programs.map(base_name).filter(|name| !name.is_empty());
    let first = names.clone().next();
    let name = names.find(|name| !PREPARING_COMMANDS.contains(name)).or(first);
    name.map_or_else(|| shell_name(command), str::to_owned)
}

fn shell_name(command: &TaskCommand) -> String {
    match command {
        TaskCommand::Shell { shell, .. } => base_name(shell).to_owned(),
        TaskCommand::Argv { argv } => argv.first().map_or("", |word| base_name(word)).to_owned(),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_program_names_a_command() {
        for (text, name) in [
            ("make -j8", "make"),
            ("cd src && A=1 /usr/bin/cargo test | tail", "cargo"),
            ("cd src", "cd"),
            ("set -e\nexport X=1\n./run.sh", "run.sh"),
            ("$CC a.c", "bash"),
            ("if", "bash"),
            ("", "bash"),
        ] {
            let shell = "/bin/bash".to_owned();
            let command = TaskCommand::Shell { text: text.to_owned(), shell };
            assert_eq!(program_name(TaskKind::LocalBash, &command), name, "{text}");
        }
    }
}
