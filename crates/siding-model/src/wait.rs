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

mod condition;
mod machine;
mod pace;
mod ready;

pub use condition::{BadCondition, Condition, Url};
pub use machine::{Event, Quantifier, Verdict, Wait};
pub use pace::{Pace, Patience};
pub(crate) use ready::says;
pub use ready::{Met, Ready, wanted};
