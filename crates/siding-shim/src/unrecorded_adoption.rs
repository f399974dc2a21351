//! Supervises an adopted process that cannot be recorded, for example because the disk is full.
//!
//! No other process supervises the adopted process, so this shim enforces the deadline and the
//! lease although there is no record. The intent to stop the process cannot be recorded before the
//! first signal: a line in the host's output file, if there is such a file, is the only trace.

use std::os::fd::AsFd as _;
use std::time::Duration;

use siding_core::sys::{clock, poll};
use siding_model::duration;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TreeLiveness;
use siding_model::process::MonotonicMs;

use crate::adopted_output::AdoptedOutput;
use crate::lease::Lease;
use crate::pending_adoption::PendingAdoption;
use crate::process_tree::{LeaderHandle, ProcessTree};
use crate::tree_kill::TreeKill;

/// Time between two attempts to record a process, in milliseconds. A full disk usually stays full
/// for minutes.
const RECORD_RETRY_MS: u64 = 2_000;

/// Waits for the next attempt to record the process, or for an earlier event: the end of the leader
/// or the owner, the deadline, or the end of the lease. Stops the tree at the deadline or the end
/// of the lease. Returns whether any process is left, or may be left.
pub(crate) fn supervise_until_retry(pending: &PendingAdoption, lease: &mut Lease) -> bool {
    let spec = &pending.adoption.spec;
    let deadline = pending.adoption.at.plus_ms(spec.deadline_ms);
    let due =
        [Some(clock::monotonic_now().plus_ms(RECORD_RETRY_MS)), Some(deadline), lease.wake_at()];
    let until = due.into_iter().flatten().min().unwrap_or(deadline);
    let leader = (!pending.leader.is_dead()).then(|| pending.leader.as_fd());
    let owner = lease.source();
    let fds: Vec<_> = leader.into_iter().chain(owner).collect();
    let left = until.ms_since(clock::monotonic_now());
    let ready = poll::wait_readable_or_pause(&fds, Some(left)).unwrap_or_default();
    let owner_ended = owner.is_some() && ready.last() == Some(&true);
    if owner_ended {
        lease.on_owner_ended(&pending.root, spec);
    }
    let now = clock::monotonic_now();
    if now >= deadline {
        let limit = duration::format_duration(Duration::from_millis(spec.deadline_ms));
        stop_tree(pending, &format!("stopped at its deadline of {limit}"));
    } else if lease.has_expired(&pending.root, spec, now) {
        stop_tree(pending, "stopped by session");
    }
    !pending.leader.is_dead() || pending.has_other_processes()
}

/// Stops the tree, first with the polite signal. Appends a line about the stop to the host's output
/// file if there is such a file.
fn stop_tree(pending: &PendingAdoption, cause: &str) {
    let spec = &pending.adoption.spec;
    let state = TaskState::new(pending.accepted_record());
    let mut tree =
        ProcessTree::discovered(&pending.root, &state, LeaderHandle::Finished, &[], None);
    let mut tree_kill = TreeKill::default();
    tree_kill.signal(&tree, &pending.root, &state, spec.signal);
    let until = clock::monotonic_now().plus_ms(spec.grace_ms);
    if !wait_empty_until(until, &mut tree, pending, &state) {
        tree_kill.kill(&mut tree, &pending.root, &state);
    }
    let count = tree_kill.report().map_or(0, |report| report.ended_total);
    let noun = if count == 1 { "process" } else { "processes" };
    let text =
        format!("{cause}; ended {count} {noun}; could not record this in the state directory");
    if let Some(mut output) = pending.host_output.as_ref().and_then(AdoptedOutput::from_host_file) {
        output.append_siding_line(&text);
    }
}

/// Waits until the tree is empty, at most until `until`. Returns whether the tree is empty.
fn wait_empty_until(
    until: MonotonicMs,
    tree: &mut ProcessTree,
    pending: &PendingAdoption,
    state: &TaskState,
) -> bool {
    loop {
        if tree.check_now(&pending.root, state).tree == TreeLiveness::Empty {
            return true;
        }
        let left = until.ms_since(clock::monotonic_now());
        if left == 0 {
            return false;
        }
        let _best_effort = poll::wait_readable_or_pause(&tree.sources(), Some(left));
    }
}
