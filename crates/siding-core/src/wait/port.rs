//! Waiting for a port.

use siding_model::journal::TaskState;
use siding_model::task_view::WaitDetail;

use crate::store::Root;
use crate::sys::sockets;
use crate::tree;

/// The first and the longest pause between two looks, in milliseconds. The kernel has no event for
/// listen(2): sock_diag(7) announces only sockets that are destroyed.
pub(super) const PAUSE_MS: (u64, u64) = (5, 100);

/// Returns who of the task's own processes listens on a port. Another's server does not count.
pub(super) fn look(root: &Root, state: &TaskState, port: u16) -> Option<WaitDetail> {
    let pid = sockets::listener_of(&tree::members(root, state), port)?;
    Some(WaitDetail::Port { port, pid })
}
