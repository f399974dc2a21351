//! Taking on a process that somebody else has started.

use std::os::fd::OwnedFd;

use siding_core::launch::ShimFds;
use siding_model::id::TaskId;
use siding_model::protocol::ShimMessage;

use crate::clients::Client;
use crate::event_loop::TaskSet;
use crate::failpoints;
use crate::lease::Lease;
use crate::pending_adoption::PendingAdoption;
use crate::start::{PreparedShim, StartError};
use crate::unrecorded_adoption;

/// Takes a process on. `None` when it has ended and has left nothing.
pub(crate) fn run(
    id: TaskId,
    prepared: PreparedShim,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<Option<TaskSet>, StartError> {
    let mut starter = Client::starter(starter);
    let pending = match PendingAdoption::receive(id, prepared, handed) {
        Ok(held) => held,
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
            // A full disk, say. Nobody else keeps it: it stays in memory until there is room.
            Err(_) if unrecorded_adoption::supervise_until_retry(&pending, &mut lease) => {}
            Err(_) => return Ok(None),
        }
    };
    let (supervisor, shim) = pending.into_supervisor(recorded, lease);
    Ok(Some(TaskSet::new(vec![supervisor], shim.signals).release_memory_first()))
}
