//! What callers ask a keeper to change, and when it says no.

use siding_model::lifecycle::{Phase, TaskEvent};
use siding_model::protocol::ShimMessage;

use crate::task_supervisor::TaskSupervisor;

impl TaskSupervisor {
    /// Gives an adopted task back: its processes go on, and nothing keeps them.
    pub(crate) fn release(&mut self, by: String) -> ShimMessage {
        let why = if self.state.adopted.is_none() {
            "siding started it, and it cannot be without a keeper; `siding stop` ends it"
        } else if !self.state.may_release() {
            "an older siding put it on record, which cannot tell of a release"
        } else if self.handle_event(&TaskEvent::Released { by }) {
            return ShimMessage::Done;
        } else {
            "it is being stopped already"
        };
        ShimMessage::Refused { why: why.to_owned() }
    }

    /// Moves the deadline.
    pub(crate) fn extend(&mut self, to_ms: u64, by_ms: Option<u64>) -> ShimMessage {
        let before = self.state.lifecycle.deadline();
        let deadline = match by_ms {
            Some(more) => before.plus_ms(more),
            None => self.state.started.plus_ms(to_ms),
        };
        if self.handle_event(&TaskEvent::Extended { deadline })
            || before == deadline.min(self.state.lifecycle.cap())
        {
            return ShimMessage::Done;
        }
        let why = match self.state.lifecycle.phase() {
            Phase::Starting { .. } | Phase::Running { .. } | Phase::Lingering { .. } => {
                "that deadline has passed already"
            }
            Phase::Stopping { .. } | Phase::Killing { .. } | Phase::Ended { .. } => {
                "it is being stopped already"
            }
        };
        ShimMessage::Refused { why: why.to_owned() }
    }
}
