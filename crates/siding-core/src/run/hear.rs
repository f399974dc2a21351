//! What the messages of a shim mean for one who waits in the foreground.

use siding_model::lifecycle::{Phase, TaskEvent};
use siding_model::notice::TaskNotices;
use siding_model::protocol::ShimMessage;
use siding_model::record::Record;

use super::error::RunError;
use crate::store::TaskDir;
use crate::watch::Watch;

/// What a message means.
#[derive(Debug)]
pub enum Heard {
    /// The command or its shell is over, and this is how the task stands. What lingers is no
    /// reason to wait, unless it is to become ready.
    Over(TaskDir, Box<TaskNotices>),
    /// What was waited for is there.
    Ready(TaskDir, Box<TaskNotices>),
    /// The command runs.
    Running,
    /// It has written something. Told once for each request to follow.
    Grown,
    /// What was asked for was done: from now on growth is told.
    Done,
    /// It runs, and perhaps another shim has taken it over, which knows nothing of requests to
    /// follow that were made before.
    Again,
    /// Nothing.
    Nothing,
}

/// Takes the next message of a task that was begun or is watched.
///
/// # Errors
///
/// [`RunError::NotStarted`] when the shim could not start the command; [`RunError::Watch`].
pub fn hear(watch: &mut Watch<'_>) -> Result<Heard, RunError> {
    Ok(match watch.take()? {
        Some(ShimMessage::CannotStart { doing, .. }) => return Err(RunError::NotStarted { doing }),
        Some(ShimMessage::Record { record: Some(record), .. })
            if matches!(*record, Record::Event { event: TaskEvent::Spawned { .. }, .. }) =>
        {
            Heard::Running
        }
        Some(ShimMessage::Output { .. }) => Heard::Grown,
        Some(ShimMessage::Done) => Heard::Done,
        Some(ShimMessage::Refused { .. } | ShimMessage::Why { .. } | ShimMessage::Usage { .. }) => {
            Heard::Nothing
        }
        // After a record the journal is asked.
        Some(ShimMessage::Record { .. }) => over(watch)?.unwrap_or(Heard::Running),
        // And also when another shim took over: what happened meanwhile is on record.
        None => over(watch)?.unwrap_or(Heard::Again),
    })
}

fn over(watch: &Watch<'_>) -> Result<Option<Heard>, RunError> {
    let (dir, story) = watch.story()?;
    let state = &story.state;
    let lingers =
        matches!(state.lifecycle.phase(), Phase::Lingering { .. }) && !state.is_waiting_for_ready();
    Ok(if !state.is_live() {
        Some(Heard::Over(dir, Box::new(story)))
    } else if state.ready.is_some() {
        Some(Heard::Ready(dir, Box::new(story)))
    } else {
        lingers.then(|| Heard::Over(dir, Box::new(story)))
    })
}
