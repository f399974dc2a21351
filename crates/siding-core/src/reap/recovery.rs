//! Recovery of all tasks, several at once.
//!
//! What takes time is mostly not the work but a wait: an end is made durable, and a new shim has to
//! say that it has taken over. File systems commit what several threads wait for in one go, and
//! shims start beside one another.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use siding_model::id::TaskId;

use super::{ReapError, Standing, Step, Survey, outcome_of};
use crate::lanes;
use crate::recover::{Crowd, Found, RecoverError, Recovery};
use crate::store::Root;
use crate::sys::procfs;

/// Threads for a crowd, and the tasks from which on they are worth it.
const THREADS: usize = 8;
const CROWD: usize = 32;

/// Recovers every task that is marked live.
pub(super) fn live_marked(root: &Root, program: &CStr) -> Result<Vec<Step>, ReapError> {
    recover(root, program, &root.live_tasks()?)
}

/// Recovers tasks that have not ended, whose shim is dead, and whose live mark is lost.
pub(super) fn unmarked(
    root: &Root,
    program: &CStr,
    survey: &Survey,
) -> Result<Vec<Step>, ReapError> {
    let is_orphan = |id: TaskId, standing: &Standing| match standing {
        Standing::Live { shim, .. } => !procfs::is_running(*shim) && !root.is_marked_live(id),
        Standing::Damaged { .. } => !root.is_marked_live(id),
        Standing::Ended { .. }
        | Standing::Unborn
        | Standing::TooNew { .. }
        | Standing::Unreadable { .. } => false,
    };
    let orphans = survey.tasks.iter().filter(|(id, standing)| is_orphan(**id, standing));
    recover(root, program, &orphans.map(|(id, _)| *id).collect::<Vec<_>>())
}

fn recover(root: &Root, program: &CStr, ids: &[TaskId]) -> Result<Vec<Step>, ReapError> {
    let recovery = Recovery::new(root, program)?;
    let next = AtomicUsize::new(0);
    let (tell, told) = mpsc::channel();
    lanes::run(if ids.len() < CROWD { 1 } else { THREADS }, || {
        let mut crowd = Crowd::new(&recovery);
        let mut each = |(id, found)| {
            let _receiver_outlives_us = step(root, id, found).map(|step| tell.send(step));
        };
        while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
            crowd.task(*id, &mut each);
        }
        crowd.rest(&mut each);
    });
    drop(tell);
    Ok(told.into_iter().collect())
}

/// Returns what recovery did as a step, `None` when nothing had to be done.
fn step(root: &Root, task_id: TaskId, found: Result<Found, RecoverError>) -> Option<Step> {
    Some(match found {
        Ok(Found::Continued) => Step::Continued { task_id },
        Ok(Found::Rescued) => Step::Rescued { task_id },
        Ok(Found::Closed) => Step::Closed { task_id, outcome: outcome_of(root, task_id) },
        Ok(Found::Unborn) => Step::NeverStarted { task_id },
        Ok(Found::SetAside { path, why }) => {
            Step::SetAside { task_id, path: Some(path), why: why.to_string() }
        }
        Ok(Found::TooNew { why }) => Step::TooNew { task_id, why: why.to_string() },
        Ok(Found::Ended) if !root.is_marked_live(task_id) => Step::Cleared { task_id },
        // Its shim is just leaving, or somebody else is at work, maybe on another machine.
        Ok(Found::Ended | Found::Kept | Found::Busy | Found::Elsewhere { .. }) => return None,
        Err(error) => Step::Failed { task_id, why: error.to_string() },
    })
}
