//! What callers ask a keeper to change, and when it says no.

use siding_model::lifecycle::{Event, Phase};
use siding_model::protocol::Message;

use crate::keeper::Keeper;

impl Keeper {
    /// Gives an adopted task back: its processes go on, and nothing keeps them.
    pub(crate) fn release(&mut self, by: String) -> Message {
        let why = if self.state.adopted.is_none() {
            "siding started it, and it cannot be without a keeper; `siding stop` ends it"
        } else if !self.state.may_release() {
            "an older siding put it on record, which cannot tell of a release"
        } else if self.happen(&Event::Released { by }) {
            return Message::Done;
        } else {
            "it is being stopped already"
        };
        Message::Refused { why: why.to_owned() }
    }

    /// Moves the deadline.
    pub(crate) fn extend(&mut self, to_ms: u64, by_ms: Option<u64>) -> Message {
        let before = self.state.life.deadline();
        let deadline = match by_ms {
            Some(more) => before.plus_ms(more),
            None => self.state.started.plus_ms(to_ms),
        };
        if self.happen(&Event::Extended { deadline })
            || before == deadline.min(self.state.life.cap())
        {
            return Message::Done;
        }
        let why = match self.state.life.phase() {
            Phase::Starting { .. } | Phase::Running { .. } | Phase::Lingering { .. } => {
                "that deadline has passed already"
            }
            Phase::Stopping { .. } | Phase::Killing { .. } | Phase::Ended { .. } => {
                "it is being stopped already"
            }
        };
        Message::Refused { why: why.to_owned() }
    }
}
