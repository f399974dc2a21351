//! Ending a task with everything it started.

use std::ffi::CStr;
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::protocol::Request;
use siding_model::signal::Signal;

use crate::session;
use crate::store::Root;
use crate::watch::{Watch, WatchError};

/// What a stop takes at most beyond its grace: the kill gives up after 10 s, and the rest is for a
/// busy machine.
const BEYOND_GRACE: Duration = Duration::from_secs(30);

/// How a task is to be ended.
#[derive(Debug, Clone, Copy)]
pub struct How<'h> {
    /// Who wants it, for the record.
    pub by: &'h str,
    /// Time between the polite signal and the kill instead of the task's own.
    pub grace: Option<Duration>,
    /// The polite signal instead of the task's own.
    pub signal: Option<Signal>,
}

/// Ends a task and waits until it is proven that nothing of it is left. One that has ended is left
/// as it is. With a subagent its own tasks end, which it would else leave to whoever started it.
///
/// # Errors
///
/// [`WatchError`].
pub fn stop(root: &Root, program: &CStr, id: TaskId, how: How<'_>) -> Result<(), WatchError> {
    if !end(root, program, id, how)? || !id.kind().has_session() {
        return Ok(());
    }
    // Only now it can start no more.
    let tasks = tasks_of(root, id)?;
    std::thread::scope(|scope| {
        let stops: Vec<_> =
            tasks.into_iter().map(|id| scope.spawn(move || stop(root, program, id, how))).collect();
        let results = stops.into_iter().map(|stop| match stop.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        // All of them, whatever comes of one.
        results.fold(Ok(()), Result::and)
    })
}

/// Returns the tasks of a subagent that have not ended, and are not kept whatever becomes of it.
fn tasks_of(root: &Root, agent: TaskId) -> Result<Vec<TaskId>, WatchError> {
    let session = session::of_subagent(agent);
    let is_its = |id: &TaskId| {
        let read = root.task(*id).ok().and_then(|dir| dir.read().ok());
        let state = read.map(|it| it.state).filter(|state| state.is_live());
        state.is_some_and(|state| state.spec.session_id == session && !state.spec.keep)
    };
    Ok(root.live_tasks()?.into_iter().filter(is_its).collect())
}

/// Ends a task alone. Returns whether it had not ended before.
fn end(root: &Root, program: &CStr, id: TaskId, how: How<'_>) -> Result<bool, WatchError> {
    let mut watch = Watch::open(root, program, id)?;
    if watch.is_over() {
        return Ok(false);
    }
    let (_, state) = watch.state()?;
    let grace = how.grace.unwrap_or(Duration::from_millis(state.spec.grace_ms));
    let request = Request::Stop {
        by: how.by.to_owned(),
        grace_ms: how.grace.map(millis),
        signal: how.signal,
    };
    watch.ask(&request, millis(grace.saturating_add(BEYOND_GRACE)))?;
    Ok(true)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
