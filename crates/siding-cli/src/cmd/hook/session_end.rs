//! A conversation ends.
//!
//! The host has a second and a half for all its hooks, and this one has nothing to do that could
//! take long: when the host's process ends, by whatever cause, the shims stop its tasks. So it only
//! makes sure that each task has a shim. A conversation that is cleared leaves its tasks to the
//! next one in the same process: the host keeps its own background commands then, too.

use super::HookAnswer;
use crate::context;
use crate::failure::Failure;

/// Makes sure that somebody keeps each task.
pub(super) fn answer() -> Result<HookAnswer, Failure> {
    let _logged_by_callee = context::recover_all(&context::open_state_dir()?)?;
    Ok(HookAnswer::Nothing)
}
