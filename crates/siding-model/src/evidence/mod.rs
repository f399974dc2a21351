//! Why a task is quiet: from facts of the kernel to a verdict.
//!
//! Owns the facts of one sample ([`Sample`]), what two samples prove ([`judge()`]), prompts in
//! output ([`prompt`]), the words for both, and when a silent task is looked at ([`Watch`]). It
//! never looks itself, and nothing in it ends a task: silence is no crime.

mod advice;
mod class;
mod facts;
mod judge;
pub mod prompt;
mod verdict;
mod view;
mod watch;

pub use facts::{Asleep, Call, Doing, Object, ProcessFacts, Sample, ThreadFacts, Waited};
pub use judge::{Judgement, is_suspicious, judge};
pub use verdict::{Certainty, Evidence, Link, Stalled, Verdict, WaitingOn};
pub use view::{AttentionView, WhyView};
pub use watch::{FIRST_LOOK_MS, Found, Watch};
