//! The shim: the small process that keeps exactly one task.
//!
//! It starts the leader, is the only writer of the task's journal and output, holds the deadline
//! and the session's lease, answers whoever asks, ends the whole tree when its time is up, says
//! how it ended, and leaves. It has one thread and blocks in one place, `keeper`'s poll. It must
//! never wait for anybody: not for a caller that does not read, not for an end of file.

#![forbid(unsafe_code)]

mod callers;
mod ending;
mod keeper;
mod kin;
mod lease;
mod log;
mod meter;
mod pause;
mod pump;
mod rescue;
mod script;
mod stall;
mod start;

use std::process::ExitCode;

use siding_core::launch::RESCUE_ARGUMENT;

/// Runs this process as a shim. `arguments` are those after `__shim`: the task's id, and whether
/// this is a rescue.
#[must_use]
pub fn main(arguments: &[String]) -> ExitCode {
    let kept = match arguments {
        [id] => id.parse().map(start::run),
        [id, how] if how == RESCUE_ARGUMENT => id.parse().map(rescue::run),
        _ => return usage(),
    };
    match kept {
        Ok(Ok(())) => ExitCode::SUCCESS,
        // Whoever started this shim was told; its standard error is /dev/null.
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(_) => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("siding: `__shim` is started by siding itself; run `siding --help`");
    ExitCode::from(2)
}
