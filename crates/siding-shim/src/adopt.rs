//! Adopts a process that siding did not start.
//!
//! At first the shim creates no file for the process: most commands end within milliseconds, and
//! must not leave a record. A command is recorded if it runs longer than
//! [`keep_after_ms`](siding_core::task::launch::Adoption::keep_after_ms) or until its deadline,
//! leaves processes behind, or loses its host, or if the shim receives a signal. From then on the
//! command is supervised like a task after a takeover: its processes are found by their birthmark.

use std::os::fd::OwnedFd;

use siding_core::task::launch::ShimFds;
use siding_model::id::TaskId;
use siding_model::protocol::ShimMessage;

use crate::clients::Client;
use crate::event_loop::TaskSet;
use crate::failpoints;
use crate::lease::Lease;
use crate::pending_adoption::PendingAdoption;
use crate::start::{PreparedShim, StartError};
use crate::unrecorded_adoption;

/// Adopts a process. Returns `None` if the process ended before it was recorded, and no other
/// process of the command is left.
pub(crate) fn run(
    id: TaskId,
    prepared: PreparedShim,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<Option<TaskSet>, StartError> {
    let mut starter = Client::starter(starter);
    let pending = match PendingAdoption::receive(id, prepared, handed) {
        Ok(pending) => pending,
        Err(error) => {
            starter.send_message(&error.to_message());
            return Err(error);
        }
    };
    starter.send_message(&ShimMessage::Done);
    drop(starter);
    failpoints::arm_from_own_environment();
    failpoints::pause_at(failpoints::ADOPTED);
    let mut lease = Lease::acquire(&pending.root, &pending.adoption.spec);
    if !pending.wait_needs_record(&lease) {
        return Ok(None);
    }
    let recorded = loop {
        match pending.record() {
            Ok(recorded) => break recorded,
            // For example, the disk is full. No other process supervises the command, so this shim
            // supervises it without a record until there is space.
            Err(_) if unrecorded_adoption::supervise_until_retry(&pending, &mut lease) => {}
            Err(_) => return Ok(None),
        }
    };
    let (supervisor, shim) = pending.into_supervisor(recorded, lease);
    Ok(Some(TaskSet::new(vec![supervisor], shim.signals).release_memory_first()))
}
