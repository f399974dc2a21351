//! Checks whether a process of a task listens on a TCP port.

use siding_model::journal::TaskState;
use siding_model::wait::WaitDetail;

use crate::processes::tree;
use crate::store::StateDir;
use crate::sys::tcp_sockets;

/// First and longest pause between two checks, in milliseconds. The kernel has no event for
/// listen(2): sock_diag(7) reports only the destruction of sockets.
pub(crate) const CHECK_PAUSE_MS: (u64, u64) = (5, 100);

/// Returns the process of the task that listens on a port. Listeners outside the task are ignored.
pub(crate) fn check_port(root: &StateDir, state: &TaskState, port: u16) -> Option<WaitDetail> {
    let pid = tcp_sockets::find_listener(&tree::task_pids(root, state), port)?;
    Some(WaitDetail::Port { port, pid })
}
