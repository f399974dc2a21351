//! Waiting for a port.

use siding_model::journal::TaskState;
use siding_model::wait::WaitDetail;

use crate::store::StateDir;
use crate::sys::tcp_sockets;
use crate::tree;

/// The first and the longest pause between two looks, in milliseconds. The kernel has no event for
/// listen(2): sock_diag(7) announces only sockets that are destroyed.
pub(crate) const CHECK_PAUSE_MS: (u64, u64) = (5, 100);

/// Returns who of the task's own processes listens on a port. Another's server does not count.
pub(crate) fn check_port(root: &StateDir, state: &TaskState, port: u16) -> Option<WaitDetail> {
    let pid = tcp_sockets::find_listener(&tree::task_pids(root, state), port)?;
    Some(WaitDetail::Port { port, pid })
}
