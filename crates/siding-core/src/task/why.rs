//! Asks a task's shim why the task is quiet, and how many resources the task uses.

use std::ffi::CStr;

use siding_model::evidence::{Evidence, WhyView};
use siding_model::id::TaskId;
use siding_model::limits::PeakUsage;
use siding_model::protocol::{ShimMessage, ShimRequest};

use crate::output;
use crate::store::{StateDir, StoreError, TaskDir};
use crate::task::shim_client::{ShimConnection, ShimRequestError};
use crate::task::view::queue_text;
use crate::task::watch::{TaskWatch, WatchError};
use crate::task::workflow_steps::WorkflowTask;

/// Timeout for the shim's reply, in milliseconds. The shim takes two samples a moment apart.
const SHIM_REPLY_TIMEOUT_MS: u64 = 10_000;

/// Asks the shim of a running task for the evidence of why the task is quiet.
///
/// # Errors
///
/// [`ShimRequestError::Disconnected`] if there is no shim: the task has ended or needs recovery.
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

/// Maximum number of attempts for a task whose shim exits, or is killed and replaced, before it
/// replies.
const MAX_TRIES: u32 = 5;

/// The reason why [`why_view`] has no explanation.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// The task has ended, so there are no processes to inspect.
    #[error("task {0} has ended")]
    Ended(TaskId),
    /// The job of the task waits in the queue of a cluster, so there are no processes to inspect.
    #[error("task {id} {status}")]
    Queued {
        /// The task.
        id: TaskId,
        /// The status of the job, as [`queue_text`] returns it.
        status: String,
    },
    /// Connecting to the task's shim, recovering the task or reading its journal failed.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The shim refused the request, or did not reply.
    #[error("task {id}: {source}")]
    Ask {
        /// The task whose shim received the request.
        id: TaskId,
        /// The refusal, the timeout or the failed communication.
        source: ShimRequestError,
    },
}

/// Explains why a task is quiet. First recovers the task if its shim was killed.
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
            // The task is ending, or its shim was killed; recovery determines which.
            Err(ShimRequestError::Disconnected) => last = ShimRequestError::Disconnected,
            Err(error) => {
                last = error;
                break;
            }
        }
    }
    let read = root.task_dir(id).ok().and_then(|dir| dir.read().ok());
    Err(refusal(id, read.and_then(|read| queue_text(&read.state)), last))
}

/// Returns the reason why there is no evidence: the wait in a queue, or the answer of the shim.
fn refusal(id: TaskId, queue_status: Option<String>, source: ShimRequestError) -> WhyError {
    match queue_status {
        Some(status) => WhyError::Queued { id, status },
        None => WhyError::Ask { id, source },
    }
}

/// Explains why a task is quiet or, if it has ended, how it ended (see [`WhyView::ended`]). Unlike
/// [`why_view`], changes nothing: a task whose shim was killed is not recovered.
///
/// # Errors
///
/// [`WhyError`], without [`WhyError::Ended`]. [`WhyError::Ask`] with
/// [`ShimRequestError::Disconnected`] if the task needs recovery.
pub fn why_or_outcome(root: &StateDir, id: TaskId) -> Result<WhyView, WhyError> {
    let dir = root.task_dir(id).map_err(WatchError::from)?;
    match request_evidence(&dir) {
        Ok(evidence) => {
            let steps = running_steps(root, id).map_err(WatchError::from)?;
            Ok(WhyView::new(id, evidence.for_workflow(&steps)))
        }
        // A task that has ended has no shim. The state is read after the request, because the task
        // may end before the answer.
        Err(source) => {
            let read = dir.read().map_err(|source| WatchError::Journal { id, source });
            let state = read?.state;
            if state.is_live() {
                return Err(refusal(id, queue_text(&state), source));
            }
            // The outcome is the answer, even if the output cannot be read.
            let tail = output::last_line(&dir).unwrap_or_default();
            Ok(WhyView::ended(id, state.lifecycle.outcome(), tail))
        }
    }
}

/// Returns the running steps of a workflow, or none for a task of another kind.
fn running_steps(root: &StateDir, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
    let Some(carrier) = WorkflowTask::find(root, id) else { return Ok(Vec::new()) };
    let is_step = |task: &TaskId| {
        let read = root.task_dir(*task).ok().and_then(|dir| dir.read().ok());
        read.is_some_and(|it| it.state.is_live() && carrier.owns_step(&it.state.spec))
    };
    Ok(root.live_tasks()?.into_iter().filter(is_step).collect())
}

/// Timeout for a usage reply, in milliseconds. The timeout is short, because callers can do without
/// the reply.
const USAGE_TIMEOUT_MS: u64 = 1_000;

/// Returns the peak resource usage of a running task so far. `None` if the task's shim does not
/// reply, because it has exited, is busy, or is of an older version.
#[must_use]
pub fn request_usage(dir: &TaskDir) -> Option<PeakUsage> {
    let link = ShimConnection::connect_within(dir, USAGE_TIMEOUT_MS).ok().flatten()?;
    let mut found = None;
    link.request(&ShimRequest::Usage, USAGE_TIMEOUT_MS, |message| {
        if let ShimMessage::Usage { peaks } = message {
            found = Some(peaks);
        }
    })
    .ok()?;
    found
}
