//! What the messages of a shim mean for one who waits in the foreground.

use siding_model::lifecycle::{Event, Phase};
use siding_model::notice::Story;
use siding_model::protocol::Message;
use siding_model::record::Record;

use super::error::RunError;
use crate::store::TaskDir;
use crate::watch::Watch;

/// What a message means.
#[derive(Debug)]
pub enum Heard {
    /// The command or its shell is over, and this is how the task stands. What lingers is no
    /// reason to wait, unless it is to become ready.
    Over(TaskDir, Box<Story>),
    /// What was waited for is there.
    Ready(TaskDir, Box<Story>),
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
        Some(Message::CannotStart { doing, .. }) => return Err(RunError::NotStarted { doing }),
        Some(Message::Record { record: Some(record), .. })
            if matches!(*record, Record::Event { event: Event::Spawned { .. }, .. }) =>
        {
            Heard::Running
        }
        Some(Message::Output { .. }) => Heard::Grown,
        Some(Message::Done) => Heard::Done,
        Some(Message::Refused { .. } | Message::Why { .. } | Message::Usage { .. }) => {
            Heard::Nothing
        }
        // After a record the journal is asked.
        Some(Message::Record { .. }) => over(watch)?.unwrap_or(Heard::Running),
        // And also when another shim took over: what happened meanwhile is on record.
        None => over(watch)?.unwrap_or(Heard::Again),
    })
}

fn over(watch: &Watch<'_>) -> Result<Option<Heard>, RunError> {
    let (dir, story) = watch.story()?;
    let state = &story.state;
    let lingers = matches!(state.life.phase(), Phase::Lingering { .. }) && !state.awaits_ready();
    Ok(if !state.is_live() {
        Some(Heard::Over(dir, Box::new(story)))
    } else if state.ready.is_some() {
        Some(Heard::Ready(dir, Box::new(story)))
    } else {
        lingers.then(|| Heard::Over(dir, Box::new(story)))
    })
}
