//! Asking a task's shim about the task: why it is quiet, and what it uses.

use siding_model::evidence::Evidence;
use siding_model::limits::Peaks;
use siding_model::protocol::{Message, Request};

use crate::link::{AskError, Link};
use crate::store::TaskDir;

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
    link.ask(&Request::Why, ANSWER_MS, |message| {
        if let Message::Why { evidence } = message {
            found = Some(*evidence);
        }
    })?;
    found.ok_or(AskError::Gone)
}

/// How long it may take to say what a task uses, in milliseconds: nothing depends on it.
const USAGE_MS: u64 = 1_000;

/// Returns the most that a running task was seen to use, this moment included. `None` when its shim
/// does not say: it is gone, busy, or of an older version.
#[must_use]
pub fn usage(dir: &TaskDir) -> Option<Peaks> {
    let link = Link::connect(dir).ok().flatten()?;
    let mut found = None;
    link.ask(&Request::Usage, USAGE_MS, |message| {
        if let Message::Usage { peaks } = message {
            found = Some(peaks);
        }
    })
    .ok()?;
    found
}
