//! The development tasks of the workspace: `cargo xtask COMMAND`.
//!
//! Each command has a module. To add a command, add a module with a constant `COMMAND`, and add the
//! constant to [`COMMANDS`].

#![forbid(unsafe_code)]

mod bench;
mod check;
mod demo;
mod duration;
mod metadata;
mod picture;
mod prose;
mod sandbox;
mod steps;
mod test;
mod workspace;

use std::process::ExitCode;

/// A `cargo xtask` command.
struct XtaskCommand {
    /// The name that selects the command.
    name: &'static str,
    /// The purpose of the command, in one line, for the list of commands.
    about: &'static str,
    /// The text for `--help`.
    usage: &'static str,
    /// Runs the command with the arguments after its name. If it returns an error, xtask
    /// prints the error and exits with code 1.
    run: fn(&[String]) -> anyhow::Result<ExitCode>,
}

/// All commands, in the order of the help text.
const COMMANDS: &[XtaskCommand] = &[
    demo::COMMAND,
    test::COMMAND,
    check::COMMAND,
    bench::COMMAND,
    prose::COMMAND,
    picture::COMMAND,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        eprint!("{}", help_text());
        return ExitCode::from(2);
    };
    if is_help(name) {
        print!("{}", help_text());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprint!("no command `{name}`\n\n{}", help_text());
        return ExitCode::from(2);
    };
    if rest.iter().any(|argument| is_help(argument)) {
        print!("{}", command.usage);
        return ExitCode::SUCCESS;
    }
    (command.run)(rest).unwrap_or_else(|error| {
        eprintln!("cargo xtask {name}: {error:#}");
        ExitCode::FAILURE
    })
}

fn is_help(argument: &str) -> bool {
    matches!(argument, "help" | "--help" | "-h")
}

fn help_text() -> String {
    let mut text = String::from("Usage: cargo xtask COMMAND [ARGUMENTS]\n\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<8}{}\n", command.name, command.about));
    }
    text.push_str("\nSee `cargo xtask COMMAND --help` for details.\n");
    text
}
