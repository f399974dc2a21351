//! Waits until the shims of ended sessions have stopped their tasks.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use siding_model::id::TaskId;

use super::{ReapStep, task_outcome};
use crate::store::StateDir;
use crate::sys::{clock, poll};
use crate::task::watch::{TaskWatch, WatchError};

/// The longest wait for all shims together, in milliseconds. A longer grace still applies, but the
/// wait ends before the grace does.
const MAX_WAIT_MS: u64 = 30_000;
/// The time that a stop may take in addition to the two graces, in milliseconds.
const STOP_OVERHEAD_MS: u64 = 2_000;

/// Waits until the tasks of all [`ReapStep::Leaving`] steps have ended, and stores their outcomes
/// in the steps.
///
/// Each shim first waits for `session_grace`, in which the session may be resumed, and then grants
/// its task the grace of a stop. This function waits for both graces, but at most 30 s in total. A
/// stop that takes longer continues after this function has returned, and its step has no outcome.
/// The same applies to a task that cannot be watched.
pub fn await_stopping(root: &StateDir, program: &CStr, steps: &mut [ReapStep]) {
    let most = clock::monotonic_now().plus_ms(MAX_WAIT_MS);
    for step in steps {
        let ReapStep::Leaving { task_id, outcome, .. } = step else { continue };
        // The shim stops the task even if the task cannot be watched from here.
        let _best_effort =
            wait_for_task(root, program, *task_id, most.ms_since(clock::monotonic_now()));
        *outcome = task_outcome(root, *task_id);
    }
}

fn wait_for_task(
    root: &StateDir,
    program: &CStr,
    id: TaskId,
    most_ms: u64,
) -> Result<(), WatchError> {
    let mut watch = TaskWatch::open(root, program, id)?;
    if watch.is_finished() {
        return Ok(());
    }
    let (_, state) = watch.state()?;
    let graces = state.spec.session_grace_ms.saturating_add(state.spec.grace_ms);
    let until =
        clock::monotonic_now().plus_ms(graces.saturating_add(STOP_OVERHEAD_MS).min(most_ms));
    loop {
        let left = until.ms_since(clock::monotonic_now());
        let Some(source) = watch.source().filter(|_| left > 0) else { return Ok(()) };
        let ready = poll_readable(source, left);
        while ready && watch.try_recv()?.is_some() {}
    }
}

fn poll_readable(source: BorrowedFd<'_>, timeout_ms: u64) -> bool {
    // poll(2) can fail only because the kernel has no memory left. The caller then reads after a
    // pause.
    poll::wait_readable_or_pause(&[source], Some(timeout_ms)).is_none_or(|ready| ready == [true])
}
