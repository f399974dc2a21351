//! The outbox of a session: what its tasks have to tell and a consumer has not been told.
//!
//! ```text
//! tasks/ID/journal ─ Story ─┐
//! sessions/NAME/acks ───────┴─ Outbox ─ look ─ print ─ acknowledge ─► sessions/NAME/acks
//! ```
//! Nothing in here stores a notice: [`Outbox`] reads them out of the journals, and the only thing
//! on disk is who was told which. What was told is noted after it was told, so a crash in between
//! tells it again. The list of tasks that have nothing more to say (`notices.cache`) only saves
//! time and may be removed.

mod acks;
mod auto_ack;
mod error;
mod follow;
mod index;
mod outbox;
#[cfg(test)]
mod tests;

pub use acks::{Acks, Durability};
pub use auto_ack::{ack_returned, ack_shown, caller_notices};
pub use error::NoticesError;
pub use follow::{FollowEvent, OutboxFollower};
pub use outbox::{DeliveryLock, Outbox, PendingNotices};
