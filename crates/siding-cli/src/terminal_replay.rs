//! The screen of a task, computed from its output.

use siding_core::store::TaskDir;
use siding_model::id::TaskId;
use siding_terminal::{TerminalHistory, TerminalReplay};

use crate::failure::Failure;

/// Computes the screen of a task with a terminal, after the output before `to` or after all of it.
pub(crate) fn open(id: TaskId, dir: &TaskDir, to: Option<u64>) -> Result<TerminalReplay, Failure> {
    let state = dir.read().map_err(|error| Failure::new(format!("task {id}: {error}")))?.state;
    let Some(terminal) = &state.terminal else { return Err(no_terminal_failure(id)) };
    TerminalReplay::open(dir, &TerminalHistory::from(terminal), to, !state.is_live())
        .map_err(|error| Failure::new(format!("could not read the output of {id}: {error}")))
}

/// Returns the failure of a command about the terminal of a task that has none.
pub(crate) fn no_terminal_failure(id: TaskId) -> Failure {
    Failure::new(format!("{id} has no terminal")).with_hint(format!(
        "`siding output {id}` shows its output; `siding run --pty` starts a command with a terminal"
    ))
}
