//! Asking a task's shim about the task: why it is quiet, and what it uses.

use std::ffi::CStr;

use siding_model::evidence::{Evidence, WhyView};
use siding_model::id::TaskId;
use siding_model::limits::PeakUsage;
use siding_model::protocol::{ShimMessage, ShimRequest};

use crate::shim_client::{ShimConnection, ShimRequestError};
use crate::store::{StateDir, StoreError, TaskDir};
use crate::watch::{TaskWatch, WatchError};
use crate::workflow_steps::WorkflowTask;

/// How long a shim may take, in milliseconds. It looks twice, a moment apart.
const SHIM_REPLY_TIMEOUT_MS: u64 = 10_000;

/// Returns why a task that runs is quiet.
///
/// # Errors
///
/// [`ShimRequestError::Disconnected`] when no shim is there: the task has ended, or wants to be recovered.
pub fn request_evidence(dir: &TaskDir) -> Result<Evidence, ShimRequestError> {
    let link = ShimConnection::connect(dir)?.ok_or(ShimRequestError::Disconnected)?;
    let mut found = None;
    link.request(&ShimRequest::Why, SHIM_REPLY_TIMEOUT_MS, |message| {
        if let ShimMessage::Why { evidence } = message {
            found = Some(*evidence);
        }
    })?;
    found.ok_or(ShimRequestError::Disconnected)
}

/// Times a task is asked whose shim is going, or was killed and replaced.
const MAX_TRIES: u32 = 5;

/// Why it is not known why a task is quiet.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// It has ended, and is not quiet.
    #[error("task {0} has ended")]
    Ended(TaskId),
    /// It cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// Its shim does not say.
    #[error("task {id}: {source}")]
    Ask {
        /// The task.
        id: TaskId,
        /// What happened.
        source: ShimRequestError,
    },
}

/// Returns why a task is quiet. One whose shim was killed gets another first.
///
/// # Errors
///
/// [`WhyError`].
pub fn why_view(root: &StateDir, program: &CStr, id: TaskId) -> Result<WhyView, WhyError> {
    let mut last = ShimRequestError::Disconnected;
    for _ in 0..MAX_TRIES {
        let watch = TaskWatch::open(root, program, id)?;
        if watch.is_finished() {
            return Err(WhyError::Ended(id));
        }
        match request_evidence(&watch.dir().map_err(WatchError::from)?) {
            Ok(evidence) => {
                let steps = running_steps(root, id).map_err(WatchError::from)?;
                return Ok(WhyView::new(id, evidence.for_workflow(&steps)));
            }
            // It ended in this moment, or its shim was killed: recovery tells which.
            Err(ShimRequestError::Disconnected) => last = ShimRequestError::Disconnected,
            Err(error) => {
                last = error;
                break;
            }
        }
    }
    Err(WhyError::Ask { id, source: last })
}

/// Returns the steps of a workflow that run. Those of anything else are none.
fn running_steps(root: &StateDir, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
    let Some(carrier) = WorkflowTask::find(root, id) else { return Ok(Vec::new()) };
    let is_step = |task: &TaskId| {
        let read = root.task_dir(*task).ok().and_then(|dir| dir.read().ok());
        read.is_some_and(|it| it.state.is_live() && carrier.owns_step(&it.state.spec))
    };
    Ok(root.live_tasks()?.into_iter().filter(is_step).collect())
}

/// How long it may take to say what a task uses, in milliseconds: nothing depends on it.
const USAGE_TIMEOUT_MS: u64 = 1_000;

/// Returns the most that a running task was seen to use, this moment included. `None` when its shim
/// does not say: it is gone, busy, or of an older version.
#[must_use]
pub fn request_usage(dir: &TaskDir) -> Option<PeakUsage> {
    let link = ShimConnection::connect(dir).ok().flatten()?;
    let mut found = None;
    link.request(&ShimRequest::Usage, USAGE_TIMEOUT_MS, |message| {
        if let ShimMessage::Usage { peaks } = message {
            found = Some(peaks);
        }
    })
    .ok()?;
    found
}
