//! Removes an ended task at a person's request, before its retention expires.

use std::os::fd::AsFd as _;

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, TaskNotices};
use siding_model::outcome::Outcome;
use siding_model::process::ProcRef;
use siding_model::retention::{RemovalFacts, RemovalRefusal};

use super::reap::{stored_bytes, try_lock_task};
use crate::notices::{Acks, NoticesError};
use crate::processes::cgroup::TaskGroup;
use crate::processes::tree::BirthmarkScan;
use crate::store::journal_file::JournalReadError;
use crate::store::{LockedTask, StateDir, StoreError};
use crate::sys::pidfd::PidFd;
use crate::sys::poll;

/// Maximum time in milliseconds to wait for the exit of a shim whose task has just ended.
const SHIM_EXIT_TIMEOUT_MS: u64 = 2_000;

/// The reason why a task was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// An entry of the state directory could not be opened, locked or removed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The acknowledgements of the task's session could not be read.
    #[error(transparent)]
    Notices(#[from] NoticesError),
    /// The journal of the task could not be read.
    #[error("task {id}: {source}")]
    Journal {
        /// The task that was not removed.
        id: TaskId,
        /// Whether reading the file failed, or its content is invalid.
        source: JournalReadError,
    },
    /// The lock of the task is not free: usually its shim has not exited, or siding on another
    /// machine supervises the task.
    #[error("task {id} is still in use by its shim or by siding on another machine")]
    Busy {
        /// The task that was not removed.
        id: TaskId,
    },
    /// The state of the task does not allow the removal.
    #[error("task {id} {refusal}")]
    Refused {
        /// The task that was not removed.
        id: TaskId,
        /// The state that does not allow the removal.
        refusal: RemovalRefusal,
    },
    /// The caller's record of the task could not be written.
    #[error("task {id} was not removed: its run could not be added to the history: {source}")]
    Unrecorded {
        /// The task that was not removed.
        id: TaskId,
        /// The error of the caller's record.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Removes an ended task with its record, its output and its notices, and returns the disk space
/// that its files took, in bytes. A task whose notices were not delivered is removed only with
/// `removes_undelivered`. `record` is called while the task is locked, after every check and before
/// the first change; it writes the data that must survive the task.
///
/// # Errors
///
/// [`RemoveError`]; [`RemoveError::Unrecorded`] if `record` fails. The task then remains unchanged,
/// unless the error occurred during the removal of its files.
pub fn remove_ended_task(
    root: &StateDir,
    id: TaskId,
    removes_undelivered: bool,
    record: impl FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
) -> Result<u64, RemoveError> {
    let journal = |source| RemoveError::Journal { id, source };
    let refused = |refusal| RemoveError::Refused { id, refusal };
    let state = root.task_dir(id)?.read().map_err(journal)?.state;
    if state.is_live() {
        return Err(refused(RemovalRefusal::Live));
    }
    let locked = lock_ended_task(root, id, state.shim)?;
    let TaskNotices { state, notices } = locked.dir().read_notices().map_err(journal)?;
    let acks = Acks::read(root, &state.spec.session_id)?;
    let (agent, person) = (Consumer::agent(), Consumer::terminal());
    // A session without an agent belongs to the person.
    let is_read = |id| {
        acks.is_acknowledged(&agent, id)
            || (state.spec.session_id.is_implicit() && acks.is_acknowledged(&person, id))
    };
    let group = TaskGroup::from_task(&state).filter(TaskGroup::exists);
    let facts = RemovalFacts {
        is_live: state.is_live(),
        may_have_processes: may_have_processes(root, &state, group.as_ref()),
        undelivered: notices.iter().filter(|one| !is_read(one.id)).count(),
        removes_undelivered,
    };
    if let Some(refusal) = facts.refusal() {
        return Err(refused(refusal));
    }
    record().map_err(|source| RemoveError::Unrecorded { id, source })?;
    if let Some(group) = group {
        let _best_effort = group.remove();
    }
    let bytes = stored_bytes(root, id);
    root.remove_task(&locked)?;
    Ok(bytes)
}

/// Acquires the lock of a task that has ended. The shim of the task holds the lock until it exits,
/// shortly after it has recorded the end.
fn lock_ended_task(root: &StateDir, id: TaskId, shim: ProcRef) -> Result<LockedTask, RemoveError> {
    if let Some(locked) = try_lock_task(root, id)? {
        return Ok(locked);
    }
    if let Ok(Some(shim)) = PidFd::open_if_alive(shim) {
        // If poll(2) fails, the lock shows whether the shim has exited.
        let _best_effort = poll::wait_readable(&[shim.as_fd()], Some(SHIM_EXIT_TIMEOUT_MS));
    }
    try_lock_task(root, id)?.ok_or(RemoveError::Busy { id })
}

/// Returns whether processes of an ended task may still run. Those of a released task do not count:
/// siding no longer supervises them, and they keep the task's birthmark. A task that ran on another
/// machine has no processes on this one.
fn may_have_processes(root: &StateDir, state: &TaskState, group: Option<&TaskGroup>) -> bool {
    let is_released = matches!(state.lifecycle.outcome(), Some(Outcome::Released { .. }));
    if is_released || state.spec.is_remote() {
        return false;
    }
    if group.is_some_and(TaskGroup::is_populated) {
        return true;
    }
    let id = state.spec.task_id;
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let scan = BirthmarkScan::scan_for(root, id, own);
    // An exiting shim releases the lock shortly before it disappears from `/proc`.
    !scan.is_complete() || scan.processes_of(id).iter().any(|process| *process != state.shim)
}
