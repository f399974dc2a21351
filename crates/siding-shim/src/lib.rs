//! The shim: the small process that keeps one task, or several that are about to be stopped.
//!
//! It starts the leader, is the only writer of the task's journal and output, holds the deadline
//! and the session's lease, answers whoever asks, ends the whole tree when its time is up, says
//! how it ended, and leaves. It has one thread and blocks in one place, the poll of `rounds`; a second
//! one asks an address that the task is waited for with. It must
//! never wait for anybody: not for a caller that does not read, not for an end of file.

#![forbid(unsafe_code)]

mod adopt;
mod callers;
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
mod rescue;
mod rounds;
mod script;
mod stall;
mod start;

use siding_core::launch::{self, Errand, Handed};
use siding_core::sys::descriptor;

/// Runs this process as a shim: waits for its errand and carries it out. Returns the exit code of
/// the process.
#[must_use]
pub fn main() -> u8 {
    const USAGE: u8 = 2;
    let Ok(starter) = descriptor::inherited(launch::STARTER) else {
        eprintln!("siding: `__shim` is started by siding itself; run `siding --help`");
        return USAGE;
    };
    let ready = start::Ready::make();
    let kept = match Handed::receive(&starter) {
        Ok(Some((Errand::Start(id) | Errand::StartBehind(id), handed))) => {
            start::run(id, ready, handed, starter)
        }
        Ok(Some((Errand::Rescue(id), handed))) => rescue::run(id, ready, handed, starter),
        Ok(Some((Errand::RescueAmong(id), handed))) => {
            rescue::run_several(id, ready, handed, starter)
        }
        Ok(Some((Errand::Adopt(id), handed))) => adopt::run(id, ready, handed, starter),
        Ok(None) => return 0,
        Err(_) => return USAGE,
    };
    // Whoever started this shim was told; its standard error is /dev/null.
    u8::from(kept.is_err())
}
