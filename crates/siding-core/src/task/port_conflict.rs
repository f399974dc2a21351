//! Finds the holder of a port on which a failed command could not listen. The answer is determined
//! for each reader and never stored, because the holder may have ended in the meantime.

use siding_model::advice::{self, Dialect, PortHolder};
use siding_model::id::{Birthmark, TaskKind};
use siding_model::journal::TaskState;
use siding_model::net::NetPolicy;
use siding_model::outcome::Outcome;

use crate::output;
use crate::processes::tree;
use crate::store::{StateDir, TaskDir};
use crate::sys::{process, procfs, tcp_sockets};

/// Maximum bytes of the task's output that are searched for the error: a summary, which contains
/// the lines that look like errors and the last lines.
const MAX_SUMMARY_BYTES: usize = 4 << 10;

/// Returns advice about the port on which an ended task could not listen. `None` if the task has
/// not failed, or if its output reports no port that is in use.
#[must_use]
pub fn port_conflict_advice(
    root: &StateDir,
    dir: &TaskDir,
    state: &TaskState,
    dialect: Dialect,
) -> Option<String> {
    if !may_be_conflict(state) {
        return None;
    }
    let summary = output::task_summary(dir, &state.spec, MAX_SUMMARY_BYTES).ok()?;
    advise_from_summary(root, state, &summary, dialect)
}

/// Like [`port_conflict_advice`], for a summary of the output that was already read.
pub(crate) fn advise_from_summary(
    root: &StateDir,
    state: &TaskState,
    summary: &str,
    dialect: Dialect,
) -> Option<String> {
    if !may_be_conflict(state) {
        return None;
    }
    let port = advice::find_conflicting_port(summary)?;
    Some(advice::port_holder_advice(port, &find_holder(root, port), dialect))
}

/// Returns whether a task has failed and could have been refused a port of this machine.
fn may_be_conflict(state: &TaskState) -> bool {
    state.lifecycle.outcome().is_some_and(is_failure) && shares_network(state)
}

const fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exited { code: 1.. } | Outcome::Signaled { .. })
}

/// Returns whether a task was a command in the network namespace of its caller. The ports of
/// another namespace cannot be read.
fn shares_network(state: &TaskState) -> bool {
    let spec = &state.spec;
    let is_sandboxed = state.adopted.as_ref().is_some_and(|adopted| adopted.sandbox.is_some());
    spec.task_id.kind() == TaskKind::LocalBash
        && spec.net == NetPolicy::Unrestricted
        && !is_sandboxed
}

fn find_holder(root: &StateDir, port: u16) -> PortHolder {
    let sockets = tcp_sockets::listeners_on(port);
    let Some(socket) = sockets.first() else { return PortHolder::Nobody };
    // The descriptors of another user's process cannot be read, except by root.
    let own_uid = process::effective_uid();
    // If the processes cannot be listed, the holder is unknown.
    let mut pids = procfs::all_pids().unwrap_or_default();
    pids.retain(|pid| procfs::uid(*pid) == Some(own_uid));
    match tcp_sockets::find_socket_holder(&pids, &sockets) {
        Some(pid) => describe_process(root, pid),
        None if socket.uid != own_uid => PortHolder::OtherUser { uid: socket.uid },
        None => PortHolder::Hidden,
    }
}

/// Returns the live task of a process with a birthmark, otherwise the process itself.
fn describe_process(root: &StateDir, pid: i32) -> PortHolder {
    let marked = procfs::birthmark(pid).and_then(Birthmark::task_id);
    let task = marked.filter(|id| root.is_marked_live(*id)).and_then(|id| {
        let spec = root.task_dir(id).ok()?.read().ok()?.state.spec;
        let command = spec.name.clone().unwrap_or_else(|| spec.command_text());
        Some(PortHolder::Task { id, command })
    });
    task.unwrap_or_else(|| PortHolder::Process { pid, command: tree::command_for_report(pid) })
}
