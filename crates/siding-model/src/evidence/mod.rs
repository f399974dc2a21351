//! Why a task is quiet: from facts of the kernel to a verdict.
//!
//! Owns the facts of one sample ([`TaskSample`]), what two samples prove ([`judge()`]), prompts in
//! output ([`prompt`]), the words for both, and when a silent task is looked at ([`SilenceWatch`]). It
//! never looks itself, and nothing in it ends a task: silence is no crime.

mod advice;
mod classify;
mod diagnose;
pub mod prompt;
mod sample;
mod silence_watch;
mod verdict;
mod view;

pub use diagnose::{Diagnosis, diagnose, is_suspicious};
pub use sample::{
    BlockedOn, BlockedSyscall, BlockingCall, FdObject, ProcessFacts, TaskSample, ThreadFacts,
    ThreadState,
};
pub use silence_watch::{FIRST_SAMPLE_DELAY_MS, SampleResult, SilenceWatch};
pub use verdict::{Certainty, ChainLink, Evidence, StallRecord, WaitingOn, WhyVerdict};
pub use view::{AttentionView, WhyView};
