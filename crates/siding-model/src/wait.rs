//! Waits for conditions of tasks: the conditions, the decision about the end of a wait, and the
//! polling intervals for conditions for which the kernel reports no events.
//!
//! ```text
//! every condition of every task:   open ─ it came true ──────────────► holds
//!                                   └──── its task ended, too late ──► missed
//! the wait:  all hold (any: one holds)       satisfied
//!            one is missed (any: all are)    ended
//!            the bound is reached            timeout
//! ```
//!
//! This module does not inspect tasks. The waiting process checks the conditions and passes its
//! observations as events.

mod backoff;
mod condition;
mod detail;
mod ready;
mod state;

pub use backoff::{CheckBackoff, LongWaitBackoff};
pub use condition::{BadCondition, Condition, HttpUrl};
pub use detail::WaitDetail;
pub(crate) use ready::format_ready;
pub use ready::{ReadyRecord, SatisfiedCondition, format_conditions};
pub use state::{Quantifier, WaitEvent, WaitState, WaitVerdict};
