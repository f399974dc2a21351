//! The screen of a task, computed from its output.

use siding_core::processes::host_terminal;
use siding_core::store::{StateDir, TaskDir};
use siding_model::advice::{Dialect, host_terminal_advice, host_terminal_text};
use siding_model::id::TaskId;
use siding_terminal::{TerminalHistory, TerminalReplay};

use crate::context::Task;
use crate::failure::Failure;

/// Computes the screen of a task with a terminal after the output before `to`, or after the whole
/// output.
pub(crate) fn open(id: TaskId, dir: &TaskDir, to: Option<u64>) -> Result<TerminalReplay, Failure> {
    let state = dir.read().map_err(|error| Failure::new(format!("task {id}: {error}")))?.state;
    let Some(terminal) = &state.terminal else { return Err(missing_terminal(id)) };
    TerminalReplay::open(dir, &TerminalHistory::from(terminal), to, !state.is_live())
        .map_err(|error| Failure::new(format!("could not read the output of {id}: {error}")))
}

/// Returns the failure of a command about the terminal of a task for which siding has opened none.
pub(crate) fn no_terminal_failure(root: &StateDir, task: &Task) -> Failure {
    host_terminal_failure(root, task).unwrap_or_else(|| missing_terminal(task.dir.id()))
}

/// Returns the failure of a command about the terminal, or the input, of an adopted task that runs on
/// a terminal which siding has not opened; `None` for any other task.
pub(crate) fn host_terminal_failure(root: &StateDir, task: &Task) -> Option<Failure> {
    let path = host_terminal::find(root, &task.state)?;
    let id = task.dir.id();
    let failure = Failure::new(host_terminal_text(id, &path));
    Some(failure.with_hint(host_terminal_advice(id, Dialect::Commands)))
}

fn missing_terminal(id: TaskId) -> Failure {
    Failure::new(format!("{id} has no terminal")).with_hint(format!(
        "`siding output {id}` shows its output; `siding run --pty` starts a command with a terminal"
    ))
}
