//! Advice for a person whose command was not found because only a shell can run it.

use siding_model::journal::TaskState;
use siding_model::outcome::Outcome;
use siding_model::shell;
use siding_model::spec::TaskCommand;

use crate::caller;
use crate::context;
use crate::exit;
use crate::install::program::find_in_path;

/// Returns advice for a person if the task's program was not found, and a shell could have run it.
pub(super) fn advice_for_person(state: &TaskState) -> Option<String> {
    let command = &state.spec.command;
    let is_not_found = match command {
        TaskCommand::Shell { .. } => {
            state.lifecycle.outcome() == Some(&Outcome::Exited { code: exit::NOT_FOUND })
        }
        TaskCommand::Argv { .. } => {
            exit::code_for_spawn_errno(state.spawn_errno) == exit::NOT_FOUND
        }
    };
    if !is_not_found || !caller::is_person(context::load_valid_settings().assistant_mode) {
        return None;
    }
    let login_shell = std::env::var("SHELL").unwrap_or_default();
    shell::not_found_advice(command, &login_shell, |name| find_in_path(name).is_some())
}
