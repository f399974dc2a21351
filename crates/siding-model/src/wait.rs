//! Waiting: what can be waited for, when a wait is over, and how often to look where the kernel
//! tells nothing.
//!
//! ```text
//! every condition of every task:   open ─ it came true ──────────────► holds
//!                                   └──── its task ended, too late ──► missed
//! the wait:  all hold (any: one holds)       satisfied
//!            one is missed (any: all are)    ended
//!            the bound is reached            timeout
//! ```
//!
//! Nothing here looks at a task: the one who waits says what it saw, and when.

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
