//! Answers the end of a conversation.
//!
//! By default Claude Code allows 1.5 s for all hooks of this event together, so this hook stops no
//! task. When the host's process ends, for whatever reason, the shims stop the tasks of the host's
//! sessions. The hook only ensures that each running task has a shim. The tasks of a cleared
//! conversation pass to the next conversation in the same process, because the host keeps its own
//! background commands in that case too.

use super::HookAnswer;
use crate::context;
use crate::failure::Failure;

/// Ensures that each running task has a shim. The shim stops the task when the host ends, unless
/// the task was started with `--keep`.
pub(super) fn answer() -> Result<HookAnswer, Failure> {
    let _logged_by_callee = context::recover_all(&context::open_state_dir()?)?;
    Ok(HookAnswer::Nothing)
}
