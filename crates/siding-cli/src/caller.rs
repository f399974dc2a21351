//! Distinguishes a person at a terminal from an agent. A person gets short texts, and nothing that a
//! shell would run is refused or changed.

use std::io::{self, IsTerminal as _};

use siding_core::sys::birthmark;
use siding_model::id::{Birthmark, TaskId};
use siding_model::settings::AssistantMode;
use siding_model::terminal::TerminalUser;

use crate::context;
use crate::failure::Failure;

/// Variables whose presence means that an agent runs this command: siding's own session, the
/// convention `AI_AGENT`, and the ones that Claude Code, Codex, Cursor, Gemini CLI and opencode set
/// for the commands of their models.
const AGENT_VARIABLES: [&str; 9] = [
    "SIDING_SESSION",
    "AI_AGENT",
    "CLAUDECODE",
    "CODEX_CI",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "CURSOR_AGENT",
    "GEMINI_CLI",
    "OPENCODE",
];

/// Returns whether a person at a terminal runs this command: a standard stream is a terminal, no
/// agent has set a variable of [`AGENT_VARIABLES`], and `assistant_mode` is not `on`. In a pipeline
/// of a person (`siding run -- make | less`), at least standard error is a terminal.
pub(crate) fn is_person(mode: AssistantMode) -> bool {
    is_person_with(mode, has_terminal(), |name| {
        std::env::var_os(name).is_some_and(|value| !value.is_empty())
    })
}

/// Returns [`is_person`] for the setting in force. Without a terminal the settings are not read.
pub(crate) fn is_person_by_settings() -> bool {
    has_terminal() && is_person(context::load_valid_settings().assistant_mode)
}

/// Returns whether a person runs this command outside of any task. Only such a caller may type a
/// secret, or type while another person has the terminal. An agent can give a command a terminal
/// with `--pty` and remove the variables by which an agent is recognized, but its commands carry
/// the birthmark of their task.
pub(crate) fn is_person_outside_tasks() -> bool {
    enclosing_task().is_none() && is_person_by_settings()
}

/// Returns the task inside which this command runs, if it runs inside one.
pub(crate) fn enclosing_task() -> Option<TaskId> {
    birthmark::own_birthmark().and_then(Birthmark::task_id)
}

/// Rejects every caller except those of [`is_person_outside_tasks`]. `rule` is the message about
/// them. A caller inside a task, who may be a person, receives the reason and the hint to run
/// `command` elsewhere; another caller receives `agent_hint`.
pub(crate) fn require_person_outside_tasks(
    rule: &str,
    command: &str,
    agent_hint: &str,
) -> Result<(), Failure> {
    if let Some(task) = enclosing_task() {
        return Err(Failure::new(format!(
            "{rule}, and this command runs inside task {task}, where siding cannot tell a person \
             from an agent"
        ))
        .with_hint(format!("a person runs `{command}` in a terminal outside of the task")));
    }
    if is_person_by_settings() {
        return Ok(());
    }
    Err(Failure::new(rule).with_hint(agent_hint))
}

/// Returns whether a person outside of any task reads standard output at a terminal. Otherwise a
/// secret on standard output, such as a sign-in link, may be in a file that an agent reads.
pub(crate) fn is_person_outside_tasks_at_stdout() -> bool {
    io::stdout().is_terminal() && is_person_outside_tasks()
}

/// Returns the relation of this command's caller to the lease of a task's terminal.
pub(crate) fn terminal_user() -> TerminalUser {
    if is_person_outside_tasks() { TerminalUser::Person } else { TerminalUser::Agent }
}

/// Returns whether a person reads standard output at a terminal. In a pipeline of a person, a
/// program may read it.
pub(crate) fn is_person_at_stdout() -> bool {
    io::stdout().is_terminal() && is_person_by_settings()
}

fn has_terminal() -> bool {
    io::stdout().is_terminal() || io::stderr().is_terminal() || io::stdin().is_terminal()
}

fn is_person_with(mode: AssistantMode, has_terminal: bool, is_set: impl Fn(&str) -> bool) -> bool {
    has_terminal && mode != AssistantMode::On && !AGENT_VARIABLES.into_iter().any(is_set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_has_a_terminal_and_no_agent() {
        let nothing_set = |_: &str| false;
        assert!(is_person_with(AssistantMode::Auto, true, nothing_set));
        assert!(is_person_with(AssistantMode::Off, true, nothing_set));
        assert!(!is_person_with(AssistantMode::Auto, false, nothing_set));
        assert!(!is_person_with(AssistantMode::On, true, nothing_set));
        for variable in AGENT_VARIABLES {
            assert!(!is_person_with(AssistantMode::Auto, true, |name| name == variable));
        }
    }
}
