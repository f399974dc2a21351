//! The outbox of a session: notices of its tasks that a consumer has not acknowledged yet.
//!
//! ```text
//! tasks/ID/journal ─ TaskNotices ─┐
//! sessions/NAME/acks ─────────────┴─ Outbox ─ read ─ print ─ acknowledge ─► sessions/NAME/acks
//! ```
//!
//! Notices are records of the tasks' journals, from which [`Outbox`] extracts them; only the
//! acknowledgements have files of their own. An acknowledgement is written after the delivery, so a
//! crash between the two causes a second delivery. The cache of ended tasks (`notices.cache`) only
//! saves time, and the ids of printed notices (`printed.CONSUMER`) only save typing them; both may
//! be removed.

mod acks;
mod auto_ack;
mod error;
mod follow;
mod index;
mod outbox;
mod printed;
#[cfg(test)]
mod tests;

pub use acks::{Acks, Durability};
pub use auto_ack::{ack_returned, ack_shown, caller_notices, covered_notices, notices_of_task};
pub use error::NoticesError;
pub use follow::{FollowEvent, OutboxFollower};
pub use outbox::{DeliveryLock, Outbox, PendingNotices};
