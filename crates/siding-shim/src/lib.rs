//! The shim: the small process that keeps one task, or several that are about to be stopped.
//!
//! It starts the leader, is the only writer of the task's journal and output, holds the deadline
//! and the session's lease, answers whoever asks, ends the whole tree when its time is up, says
//! how it ended, and leaves. It has one thread and blocks in one place, the poll of `rounds`; a second
//! one asks an address that the task is waited for with. It must
//! never wait for anybody: not for a caller that does not read, not for an end of file.
//!
//! Beside it stands the supervisor of a host (`supervisor`), which keeps no task.

#![forbid(unsafe_code)]

mod adopt;
mod callers;
mod deadline;
mod direct;
mod egress;
mod ending;
mod fifo;
mod flood;
mod hosted;
mod keeper;
mod kin;
mod lease;
mod log;
mod meter;
mod monitor;
mod pause;
mod pump;
mod ready;
mod requests;
mod rescue;
mod rounds;
mod sandboxed;
mod script;
mod spare;
mod stall;
mod start;
mod supervisor;
mod unrecorded;

use std::os::fd::OwnedFd;

use siding_core::launch::{self, ShimCommand, ShimFds};
use siding_core::sys::descriptor;

use crate::rounds::Kept;

pub use supervisor::main as supervise;

/// Exit code of a shim that was not started by siding.
const USAGE: u8 = 2;

/// Runs this process as a shim: waits for its errand and carries it out. Returns the exit code of
/// the process.
#[must_use]
pub fn main() -> u8 {
    let Ok(starter) = descriptor::take_inherited(launch::STARTER_FD) else {
        eprintln!("siding: `__shim` is started by siding itself; run `siding --help`");
        return USAGE;
    };
    match take_up(starter) {
        Ok(Some(kept)) => rounds::keep(kept),
        Ok(None) => {}
        Err(code) => return code,
    }
    0
}

/// Waits for the errand and does what it begins with. `None` when there is nothing to keep; else the
/// exit code.
///
/// It takes 24 KiB of stack, which are free again while the task is kept: that may be for hours.
#[inline(never)]
fn take_up(starter: OwnedFd) -> Result<Option<Kept>, u8> {
    let ready = start::Ready::make();
    let (errand, handed) = match ShimFds::receive(&starter) {
        Ok(Some(errand)) => errand,
        Ok(None) => return Ok(None),
        Err(_) => return Err(USAGE),
    };
    let kept = match errand {
        ShimCommand::Start(id) | ShimCommand::StartBehind(id) => {
            start::run(id, ready, handed, starter).map(Some)
        }
        ShimCommand::Rescue(id) => rescue::run(id, ready, handed, starter).map(Some),
        ShimCommand::RescueAmong(id) => rescue::run_several(id, ready, handed, starter).map(Some),
        ShimCommand::Adopt(id) => adopt::run(id, ready, handed, starter),
    };
    // Whoever started this shim was told; its standard error is /dev/null.
    kept.map_err(|_| 1)
}
