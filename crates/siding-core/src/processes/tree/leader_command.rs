//! The command line of a task's leader, in words for a person.

use siding_model::id::TaskKind;
use siding_model::journal::TaskState;
use siding_model::spec::TaskCommand;
use siding_model::text::one_line;

use super::{MAX_COMMAND_COLUMNS, command_for_report, is_task_shell};
use crate::sys::procfs;

/// Number of bytes that are read of a command line in addition to the requested one: siding's text
/// for a shell, or the interpreter that the kernel puts in front of a script.
const ADDITIONAL_BYTES: usize = 1024;

/// Returns the command line of a task's live leader for a report, shortened to one line: the
/// requested command, or the present one once the leader has replaced itself with another program.
/// A shell does so with `exec`, and often with the last command of its text.
#[must_use]
pub fn leader_command_for_report(pid: i32, state: &TaskState) -> String {
    let spec = &state.spec;
    // A host puts text of its own around an adopted command, and siding's own programs have
    // internal arguments, so neither command line can be compared with the recorded command.
    let is_comparable = state.adopted.is_none() && spec.task_id.kind() == TaskKind::LocalBash;
    if is_comparable && has_replaced_itself(pid, &spec.command) {
        command_for_report(pid)
    } else {
        one_line(&spec.command_text(), MAX_COMMAND_COLUMNS)
    }
}

fn has_replaced_itself(pid: i32, requested: &TaskCommand) -> bool {
    let requested = match requested {
        TaskCommand::Shell { text, .. } => text.clone(),
        TaskCommand::Argv { argv } => argv.join(" "),
    };
    procfs::command_line(pid, requested.len() + ADDITIONAL_BYTES)
        .is_some_and(|present| is_other_command(requested.trim_end(), &present))
}

/// Returns whether a leader's command line `present` is not that of the requested command.
fn is_other_command(requested: &str, present: &str) -> bool {
    // A process that has exited has only a name, in brackets.
    let has_ended = present.starts_with('[') && present.ends_with(']');
    !(has_ended || is_task_shell(present) || present.ends_with(requested))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_program_is_another_command() {
        for (requested, present) in [
            ("sleep 300", "sleep 300"),
            ("a | b", "/bin/bash -c trap 'x' EXIT; eval \"$(</proc/self/fd/9)\""),
            ("a | b", "nu -c a | b"),
            ("./build all", "/bin/sh ./build all"),
            ("sleep 300", "[sleep]"),
        ] {
            assert!(!is_other_command(requested, present), "{requested}: {present}");
        }
        for (requested, present) in [
            ("bash -c read x; exec sleep 300", "sleep 300"),
            ("exec sleep 300", "sleep 300"),
            ("env A=1 python3 -i", "python3 -i"),
        ] {
            assert!(is_other_command(requested, present), "{requested}: {present}");
        }
    }
}
