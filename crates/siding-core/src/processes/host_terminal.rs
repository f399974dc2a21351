//! The terminal of an adopted task. The host, or a person, has opened it, and only the process with
//! its master side can read the screen and type (pty(7)).

use siding_model::journal::TaskState;

use super::tree;
use crate::store::StateDir;
use crate::sys::inspect_process::{self, FdTarget};

/// Returns the path of the terminal on which a running adopted task works, as [`find_among`] does.
#[must_use]
pub fn find(root: &StateDir, state: &TaskState) -> Option<String> {
    // The processes of other tasks need not be listed.
    state.adopted.as_ref()?;
    find_among(state, &tree::task_pids(root, state))
}

/// Returns the path of the terminal that is the standard input, output or error of one of these
/// processes of an adopted task. `None` if there is none, and for a task that siding has started:
/// such a task has the terminal of `--pty`, or pipes. The path is untrusted text.
#[must_use]
pub fn find_among(state: &TaskState, pids: &[i32]) -> Option<String> {
    state.adopted.as_ref()?;
    pids.iter().find_map(|pid| standard_terminal(*pid))
}

/// Returns the path of the terminal that is a standard stream of a process.
fn standard_terminal(pid: i32) -> Option<String> {
    let is_terminal =
        |fd: &i32| inspect_process::fd_target(pid, *fd).is_some_and(FdTarget::is_terminal);
    let fd = (0..=2).find(is_terminal)?;
    inspect_process::fd_path(pid, fd)
}
