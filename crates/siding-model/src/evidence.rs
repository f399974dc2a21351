//! Why a task is quiet: from facts of the kernel to a verdict.
//!
//! Owns the facts of one sample ([`TaskSample`]), the diagnosis from two samples ([`diagnose()`]),
//! prompts in output ([`prompt`]), the text for both, and the times at which a silent task is
//! sampled ([`SilenceWatch`]). The module takes no samples itself and never ends a task, because
//! silence alone is no failure.

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
