//! Recovers all tasks that need it, several of them concurrently.
//!
//! Recovery mostly waits: for an end to become durable, or for a new shim to report that it has
//! taken over. Several threads shorten the total wait, because a file system commits their writes
//! in one operation, and their shims start concurrently.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use siding_model::id::TaskId;

use super::{ReapError, ReapStep, RecordedState, TaskSurvey, task_outcome};
use crate::parallel;
use crate::store::StateDir;
use crate::sys::procfs;
use crate::task::recover::{BatchRecovery, RecoverError, Recovery, RecoveryOutcome};

/// The number of threads that recover [`MIN_PARALLEL_TASKS`] or more tasks. One thread recovers a
/// smaller number of tasks.
const RECOVERY_THREADS: usize = 8;
/// The number of tasks from which [`RECOVERY_THREADS`] threads are used.
const MIN_PARALLEL_TASKS: usize = 32;

/// Recovers every task that is marked live.
pub(super) fn recover_live_marked(
    root: &StateDir,
    program: &CStr,
) -> Result<Vec<ReapStep>, ReapError> {
    recover_tasks(root, program, &root.live_tasks()?)
}

/// Recovers tasks whose live marker is missing and that have not ended although their shim is dead,
/// or whose journal is damaged.
pub(super) fn recover_unmarked(
    root: &StateDir,
    program: &CStr,
    survey: &TaskSurvey,
) -> Result<Vec<ReapStep>, ReapError> {
    let is_orphan = |id: TaskId, standing: &RecordedState| match standing {
        RecordedState::Live { shim, .. } => !procfs::is_running(*shim) && !root.is_marked_live(id),
        RecordedState::Damaged { .. } => !root.is_marked_live(id),
        RecordedState::Ended { .. }
        | RecordedState::NeverRecorded
        | RecordedState::TooNew { .. }
        | RecordedState::Unreadable { .. } => false,
    };
    let orphans = survey.tasks.iter().filter(|(id, standing)| is_orphan(**id, standing));
    recover_tasks(root, program, &orphans.map(|(id, _)| *id).collect::<Vec<_>>())
}

fn recover_tasks(
    root: &StateDir,
    program: &CStr,
    ids: &[TaskId],
) -> Result<Vec<ReapStep>, ReapError> {
    let recovery = Recovery::new(root, program)?;
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    parallel::run_in_threads(
        if ids.len() < MIN_PARALLEL_TASKS { 1 } else { RECOVERY_THREADS },
        || {
            let mut crowd = BatchRecovery::new(&recovery);
            let mut each = |(id, found)| {
                let _receiver_dropped =
                    recovery_step(root, id, found).map(|step| sender.send(step));
            };
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                crowd.recover_task(*id, &mut each);
            }
            crowd.flush(&mut each);
        },
    );
    drop(sender);
    Ok(receiver.into_iter().collect())
}

/// Returns the step for an outcome of recovery, or `None` if there was nothing to do.
fn recovery_step(
    root: &StateDir,
    task_id: TaskId,
    found: Result<RecoveryOutcome, RecoverError>,
) -> Option<ReapStep> {
    Some(match found {
        Ok(RecoveryOutcome::Continued) => ReapStep::Continued { task_id },
        Ok(RecoveryOutcome::TakenOver) => ReapStep::Rescued { task_id },
        Ok(RecoveryOutcome::EndRecorded) => {
            ReapStep::Closed { task_id, outcome: task_outcome(root, task_id) }
        }
        Ok(RecoveryOutcome::NeverRecorded) => ReapStep::NeverStarted { task_id },
        Ok(RecoveryOutcome::Quarantined { path, why }) => {
            ReapStep::Quarantined { task_id, path: Some(path), why: why.to_string() }
        }
        Ok(RecoveryOutcome::TooNew { why }) => ReapStep::TooNew { task_id, why: why.to_string() },
        Ok(RecoveryOutcome::Ended) if !root.is_marked_live(task_id) => {
            ReapStep::Cleared { task_id }
        }
        // There is nothing to do: a shim supervises the task or is about to exit, or another
        // process, perhaps on another machine, recovers the task.
        Ok(
            RecoveryOutcome::Ended
            | RecoveryOutcome::Supervised
            | RecoveryOutcome::Busy
            | RecoveryOutcome::OtherMachine { .. },
        ) => return None,
        Err(error) => ReapStep::Failed { task_id, why: error.to_string() },
    })
}
