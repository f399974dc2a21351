//! Waiting for the shims of sessions that are over.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use siding_model::id::TaskId;

use super::{Step, outcome_of};
use crate::store::Root;
use crate::sys::{clock, poll};
use crate::watch::{Watch, WatchError};

/// Longest wait for all of them together. A longer grace is kept, and not waited for.
const MOST_MS: u64 = 30_000;
/// What a stop may take beyond the two graces.
const BEYOND_MS: u64 = 2_000;

/// Waits until the tasks that [`act`](super::act) found leaving have ended, and notes how.
///
/// Each shim first gives a resumed session its grace and then its task another. This waits for
/// both, at most 30 s in all; what takes longer goes on by itself and is left as it is.
pub fn await_leaving(root: &Root, program: &CStr, steps: &mut [Step]) {
    let most = clock::mono().plus_ms(MOST_MS);
    for step in steps {
        let Step::Leaving { task_id, outcome, .. } = step else { continue };
        // One that cannot be watched now is looked at by the next command.
        let _unknown = wait(root, program, *task_id, most.ms_since(clock::mono()));
        *outcome = outcome_of(root, *task_id);
    }
}

fn wait(root: &Root, program: &CStr, id: TaskId, most_ms: u64) -> Result<(), WatchError> {
    let mut watch = Watch::open(root, program, id)?;
    if watch.is_over() {
        return Ok(());
    }
    let (_, state) = watch.state()?;
    let graces = state.spec.session_grace_ms.saturating_add(state.spec.grace_ms);
    let until = clock::mono().plus_ms(graces.saturating_add(BEYOND_MS).min(most_ms));
    loop {
        let left = until.ms_since(clock::mono());
        let Some(source) = watch.source().filter(|_| left > 0) else { return Ok(()) };
        let ready = ready(source, left);
        while ready && watch.take()?.is_some() {}
    }
}

fn ready(source: BorrowedFd<'_>, timeout_ms: u64) -> bool {
    // It can only fail for want of kernel memory; then it is simply looked at.
    poll::wait(&[source], Some(timeout_ms)).map_or(true, |ready| ready == [true])
}
