//! Advice for a person whose program reads the terminal, but found an empty input, because siding
//! does not pass on the terminal.

use std::path::Path;

use siding_core::output;
use siding_model::outcome::Outcome;
use siding_model::shell;
use siding_model::spec::{StdinMode, TaskCommand};

use super::keyboard;
use super::plan::RunPlan;
use crate::context::Task;

/// Programs that do nothing except read their standard input if they are started without arguments.
const INPUT_READERS: [&str; 14] = [
    "bash", "bc", "cat", "dc", "fish", "irb", "node", "psql", "python", "python3", "sh", "sqlite3",
    "tee", "zsh",
];

/// The last line of a Python program that ends because `input()` has found the end of its input.
const PYTHON_END_OF_INPUT: &str = "EOFError: EOF when reading a line";

/// Returns the advice if the task's program has probably found an empty input instead of the
/// terminal.
pub(super) fn advice_for_person(plan: &RunPlan, task: &Task) -> Option<String> {
    let state = &task.state;
    let has_exited = matches!(state.lifecycle.outcome(), Some(Outcome::Exited { .. }));
    if !has_exited || state.spec.stdin != StdinMode::Null || !keyboard::is_used(plan) {
        return None;
    }
    let reader = find_reader(task)?;
    Some(format!(
        "`{reader}` found an empty input, because siding does not pass on the terminal; run an \
         interactive program with `--pty`, or with `--stdin pipe` and `siding input`"
    ))
}

/// Returns the name of the program or function that has read the empty input of a task.
fn find_reader(task: &Task) -> Option<&str> {
    let command = &task.state.spec.command;
    let program = program_without_arguments(command).filter(|name| INPUT_READERS.contains(name));
    if program.is_some() {
        return program;
    }
    if let TaskCommand::Shell { text, .. } = command
        && shell::calls_read(text)
    {
        return Some("read");
    }
    let last = output::last_line(&task.dir).ok()?;
    (last == PYTHON_END_OF_INPUT).then_some("input()")
}

/// Returns the name of the program of a command that has no arguments.
fn program_without_arguments(command: &TaskCommand) -> Option<&str> {
    let words: Vec<&str> = match command {
        TaskCommand::Argv { argv } => argv.iter().map(String::as_str).collect(),
        TaskCommand::Shell { text, .. } => shell::plain_program_words(text)?,
    };
    let [program] = words[..] else { return None };
    Path::new(program).file_name()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_without_arguments_is_named() {
        let named = |argv: &[&str]| {
            let argv = argv.iter().map(|word| (*word).to_owned()).collect();
            program_without_arguments(&TaskCommand::Argv { argv }).map(str::to_owned)
        };
        assert_eq!(named(&["/usr/bin/python3"]).as_deref(), Some("python3"));
        assert_eq!(named(&["cat", "file"]), None);
        assert_eq!(named(&[]), None);
        let text =
            |text: &str| TaskCommand::Shell { text: text.to_owned(), shell: "sh".to_owned() };
        assert_eq!(program_without_arguments(&text("cat")), Some("cat"));
        assert_eq!(program_without_arguments(&text("cat | wc")), None);
    }
}
