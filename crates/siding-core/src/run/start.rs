//! Putting a task on record and giving it to a shim.

use std::io;
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::spec::TaskSpec;

use super::environment;
use super::error::RunError;
use crate::launch::IdleShim;
use crate::shim_client::ShimConnection;
use crate::store::{StateDir, StoreError, TaskDir};

/// What a task gets that is not on record.
#[derive(Debug)]
pub struct LaunchEnv<'g> {
    /// Variables that are set for it.
    pub env: &'g [(String, String)],
    /// Whether these are all that it gets of whoever begins it.
    pub env_clear: bool,
    /// What a second one of the same command is.
    pub duplicates: Duplicates,
}

/// What becomes of a command that runs already in the same directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// It is not started.
    Refused,
    /// It is one more task, which says of which it is the second.
    Allowed,
}

/// What came of the start.
#[derive(Debug)]
pub enum LaunchResult {
    /// A shim keeps it.
    Started(ShimConnection),
    /// The same command runs already.
    Duplicate(TaskId),
}

/// Puts the task on record and gives it to its shim.
///
/// # Errors
///
/// [`RunError`]; nothing of the task is left then.
pub fn start_task(
    root: &StateDir,
    spec: &TaskSpec,
    launch_env: &LaunchEnv<'_>,
    shim: io::Result<IdleShim>,
) -> Result<LaunchResult, RunError> {
    let mut spec = spec.clone();
    let environment = environment::task_environment(&spec, launch_env)?;
    let dir = root.create_task(spec.task_id)?;
    if let Err(error) = claim_command(root, &mut spec) {
        discard_unstarted(root, dir, &spec);
        return Err(error.into());
    }
    if let Some(first) = spec.duplicate_of
        && launch_env.duplicates == Duplicates::Refused
    {
        discard_unstarted(root, dir, &spec);
        return Ok(LaunchResult::Duplicate(first));
    }
    let link = shim.and_then(|shim| shim.start_task(root, dir, &spec, &environment));
    link.map(LaunchResult::Started).map_err(|error| {
        clear_unrecorded(root, &spec);
        RunError::Shim(error)
    })
}

/// Marks the task live and notes an earlier one with the same command.
fn claim_command(root: &StateDir, spec: &mut TaskSpec) -> Result<(), StoreError> {
    root.mark_live(spec.task_id)?;
    let still_runs = |first: TaskId| {
        let Ok(dir) = root.task_dir(first) else { return false };
        match dir.read() {
            Ok(folded) => {
                folded.state.is_live()
                    && folded.state.spec.command.display_text().trim()
                        == spec.command.display_text().trim()
                    && folded.state.spec.cwd == spec.cwd
            }
            // Nothing is on record yet: it is only just being started, by whoever has its lock. One
            // whose shim was killed before it wrote anything never ran.
            Err(_) => !matches!(dir.try_lock(), Ok(Some(_))),
        }
    };
    let first = root.claim_command(&spec.same_key, spec.task_id, still_runs)?;
    spec.duplicate_of = first;
    Ok(())
}

/// Takes back a task that is not to be started.
pub fn discard_unstarted(root: &StateDir, dir: TaskDir, spec: &TaskSpec) {
    root.unmark_live(spec.task_id, &spec.same_key);
    // What cannot be removed now is removed by the next reap: nothing is recorded in it.
    if let Ok(Some(locked)) = dir.try_lock() {
        let _best_effort = root.remove_task(&locked);
    }
}

/// Takes back a task whose shim left without recording anything, so that nothing ever ran.
pub fn clear_unrecorded(root: &StateDir, spec: &TaskSpec) {
    /// How long a shim that gave up may take to leave, and the pause between two looks.
    const MAX_UNRECORDED_CHECKS: u32 = 200;
    const UNRECORDED_CHECK_PAUSE: Duration = Duration::from_millis(5);
    for _ in 0..MAX_UNRECORDED_CHECKS {
        let Ok(dir) = root.task_dir(spec.task_id) else { return };
        if !dir.is_unrecorded() {
            return;
        }
        if let Ok(Some(locked)) = dir.try_lock() {
            root.unmark_live(spec.task_id, &spec.same_key);
            let _best_effort = root.remove_task(&locked);
            return;
        }
        std::thread::sleep(UNRECORDED_CHECK_PAUSE);
    }
}
