//! Asking a task's shim about the task: why it is quiet, and what it uses.

use std::ffi::CStr;

use siding_model::evidence::{Evidence, WhyView};
use siding_model::id::TaskId;
use siding_model::limits::PeakUsage;
use siding_model::protocol::{ShimMessage, ShimRequest};

use crate::link::{AskError, Link};
use crate::steps::Carrier;
use crate::store::{Root, StoreError, TaskDir};
use crate::watch::{Watch, WatchError};

/// How long a shim may take, in milliseconds. It looks twice, a moment apart.
const ANSWER_MS: u64 = 10_000;

/// Returns why a task that runs is quiet.
///
/// # Errors
///
/// [`AskError::Gone`] when no shim is there: the task has ended, or wants to be recovered.
pub fn ask(dir: &TaskDir) -> Result<Evidence, AskError> {
    let link = Link::connect(dir)?.ok_or(AskError::Gone)?;
    let mut found = None;
    link.ask(&ShimRequest::Why, ANSWER_MS, |message| {
        if let ShimMessage::Why { evidence } = message {
            found = Some(*evidence);
        }
    })?;
    found.ok_or(AskError::Gone)
}

/// Times a task is asked whose shim is going, or was killed and replaced.
const TRIES: u32 = 5;

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
        source: AskError,
    },
}

/// Returns why a task is quiet. One whose shim was killed gets another first.
///
/// # Errors
///
/// [`WhyError`].
pub fn view(root: &Root, program: &CStr, id: TaskId) -> Result<WhyView, WhyError> {
    let mut last = AskError::Gone;
    for _ in 0..TRIES {
        let watch = Watch::open(root, program, id)?;
        if watch.is_over() {
            return Err(WhyError::Ended(id));
        }
        match ask(&watch.dir().map_err(WatchError::from)?) {
            Ok(evidence) => {
                let steps = steps(root, id).map_err(WatchError::from)?;
                return Ok(WhyView::new(id, evidence.for_workflow(&steps)));
            }
            // It ended in this moment, or its shim was killed: recovery tells which.
            Err(AskError::Gone) => last = AskError::Gone,
            Err(error) => {
                last = error;
                break;
            }
        }
    }
    Err(WhyError::Ask { id, source: last })
}

/// Returns the steps of a workflow that run. Those of anything else are none.
fn steps(root: &Root, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
    let Some(carrier) = Carrier::find(root, id) else { return Ok(Vec::new()) };
    let is_step = |task: &TaskId| {
        let read = root.task(*task).ok().and_then(|dir| dir.read().ok());
        read.is_some_and(|it| it.state.is_live() && carrier.has(&it.state.spec))
    };
    Ok(root.live_tasks()?.into_iter().filter(is_step).collect())
}

/// How long it may take to say what a task uses, in milliseconds: nothing depends on it.
const USAGE_MS: u64 = 1_000;

/// Returns the most that a running task was seen to use, this moment included. `None` when its shim
/// does not say: it is gone, busy, or of an older version.
#[must_use]
pub fn usage(dir: &TaskDir) -> Option<PeakUsage> {
    let link = Link::connect(dir).ok().flatten()?;
    let mut found = None;
    link.ask(&ShimRequest::Usage, USAGE_MS, |message| {
        if let ShimMessage::Usage { peaks } = message {
            found = Some(peaks);
        }
    })
    .ok()?;
    found
}
