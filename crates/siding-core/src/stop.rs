//! Ending a task with everything it started.

use std::ffi::CStr;
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::protocol::Request;
use siding_model::signal::Signal;

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
/// as it is.
///
/// # Errors
///
/// [`WatchError`].
pub fn stop(root: &Root, program: &CStr, id: TaskId, how: How<'_>) -> Result<(), WatchError> {
    let mut watch = Watch::open(root, program, id)?;
    if watch.is_over() {
        return Ok(());
    }
    let (_, state) = watch.state()?;
    let grace = how.grace.unwrap_or(Duration::from_millis(state.spec.grace_ms));
    let request = Request::Stop {
        by: how.by.to_owned(),
        grace_ms: how.grace.map(millis),
        signal: how.signal,
    };
    watch.ask(&request, millis(grace.saturating_add(BEYOND_GRACE)))?;
    Ok(())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
