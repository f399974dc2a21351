//! What the shim of a step says.

use siding_core::watch::TaskWatch;
use siding_model::protocol::ShimMessage;

/// What was heard of a step.
pub(super) enum StepMessages {
    /// It is to be looked at.
    CheckState { had_messages: bool },
    /// It was not begun, or nobody can say how it stands.
    Failed { why: String, again: bool },
}

/// Takes what a step's shim has said.
pub(super) fn read_step_messages(watch: &mut TaskWatch<'_>) -> StepMessages {
    let mut had_messages = false;
    loop {
        match watch.try_recv() {
            Ok(Some(ShimMessage::CannotStart { doing, .. })) => {
                return StepMessages::Failed { why: format!("its shim {doing}"), again: true };
            }
            Ok(Some(
                ShimMessage::Record { .. }
                | ShimMessage::Output { .. }
                | ShimMessage::Why { .. }
                | ShimMessage::Usage { .. }
                | ShimMessage::Done
                | ShimMessage::Refused { .. },
            )) => had_messages = true,
            Ok(None) => {
                return StepMessages::CheckState {
                    had_messages: had_messages || watch.is_finished(),
                };
            }
            // It may still run: another attempt could be a second one beside it.
            Err(error) => return StepMessages::Failed { why: error.to_string(), again: false },
        }
    }
}
