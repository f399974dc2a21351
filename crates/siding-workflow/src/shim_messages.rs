//! Messages from the shim of a step.

use siding_core::task::watch::TaskWatch;
use siding_model::protocol::ShimMessage;

/// The result of reading a step's messages.
pub(super) enum StepMessages {
    /// The state of the task must be checked.
    CheckState { had_messages: bool },
    /// The step did not start, or its state cannot be determined.
    Failed { why: String, again: bool },
}

/// Reads the pending messages of a step's shim.
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
            // The task may still be running, so a retry could run the step twice at the same time.
            Err(error) => return StepMessages::Failed { why: error.to_string(), again: false },
        }
    }
}
