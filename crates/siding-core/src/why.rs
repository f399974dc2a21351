//! Asking a task's shim why the task is quiet.

use siding_model::evidence::Evidence;
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
