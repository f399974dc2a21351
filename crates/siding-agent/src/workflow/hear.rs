//! What the shim of a step says.

use siding_core::watch::TaskWatch;
use siding_model::protocol::ShimMessage;

/// What was heard of a step.
pub(super) enum Heard {
    /// It is to be looked at.
    Look { anything: bool },
    /// It was not begun, or nobody can say how it stands.
    Gone { why: String, again: bool },
}

/// Takes what a step's shim has said.
pub(super) fn hear(watch: &mut TaskWatch<'_>) -> Heard {
    let mut anything = false;
    loop {
        match watch.try_recv() {
            Ok(Some(ShimMessage::CannotStart { doing, .. })) => {
                return Heard::Gone { why: format!("its shim {doing}"), again: true };
            }
            Ok(Some(
                ShimMessage::Record { .. }
                | ShimMessage::Output { .. }
                | ShimMessage::Why { .. }
                | ShimMessage::Usage { .. }
                | ShimMessage::Done
                | ShimMessage::Refused { .. },
            )) => anything = true,
            Ok(None) => return Heard::Look { anything: anything || watch.is_finished() },
            // It may still run: another attempt could be a second one beside it.
            Err(error) => return Heard::Gone { why: error.to_string(), again: false },
        }
    }
}
