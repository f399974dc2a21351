//! What the messages of a shim mean for one who waits in the foreground.

use siding_model::lifecycle::{Phase, TaskEvent};
use siding_model::notice::TaskNotices;
use siding_model::protocol::ShimMessage;
use siding_model::record::Record;

use super::error::RunError;
use crate::store::TaskDir;
use crate::watch::TaskWatch;

/// What a message means.
#[derive(Debug)]
pub enum ShimEvent {
    /// The command or its shell is over, and this is how the task stands. What lingers is no
    /// reason to wait, unless it is to become ready.
    Finished(TaskDir, Box<TaskNotices>),
    /// What was waited for is there.
    Ready(TaskDir, Box<TaskNotices>),
    /// The command runs.
    Running,
    /// It has written something. Told once for each request to follow.
    OutputGrown,
    /// What was asked for was done: from now on growth is told.
    RequestDone,
    /// It runs, and perhaps another shim has taken it over, which knows nothing of requests to
    /// follow that were made before.
    MayBeNewShim,
    /// Nothing.
    Nothing,
}

/// Takes the next message of a task that was begun or is watched.
///
/// # Errors
///
/// [`RunError::NotStarted`] when the shim could not start the command; [`RunError::Watch`].
pub fn recv_event(watch: &mut TaskWatch<'_>) -> Result<ShimEvent, RunError> {
    Ok(match watch.try_recv()? {
        Some(ShimMessage::CannotStart { doing, .. }) => return Err(RunError::NotStarted { doing }),
        Some(ShimMessage::Record { record: Some(record), .. })
            if matches!(*record, Record::Event { event: TaskEvent::Spawned { .. }, .. }) =>
        {
            ShimEvent::Running
        }
        Some(ShimMessage::Output { .. }) => ShimEvent::OutputGrown,
        Some(ShimMessage::Done) => ShimEvent::RequestDone,
        Some(ShimMessage::Refused { .. } | ShimMessage::Why { .. } | ShimMessage::Usage { .. }) => {
            ShimEvent::Nothing
        }
        // After a record the journal is asked.
        Some(ShimMessage::Record { .. }) => finished_event(watch)?.unwrap_or(ShimEvent::Running),
        // And also when another shim took over: what happened meanwhile is on record.
        None => finished_event(watch)?.unwrap_or(ShimEvent::MayBeNewShim),
    })
}

fn finished_event(watch: &TaskWatch<'_>) -> Result<Option<ShimEvent>, RunError> {
    let (dir, story) = watch.read_notices()?;
    let state = &story.state;
    let lingers =
        matches!(state.lifecycle.phase(), Phase::Lingering { .. }) && !state.is_waiting_for_ready();
    Ok(if !state.is_live() {
        Some(ShimEvent::Finished(dir, Box::new(story)))
    } else if state.ready.is_some() {
        Some(ShimEvent::Ready(dir, Box::new(story)))
    } else {
        lingers.then(|| ShimEvent::Finished(dir, Box::new(story)))
    })
}
