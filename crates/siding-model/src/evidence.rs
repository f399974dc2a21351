//! Why a task is quiet: derives a verdict from the state that the kernel reports for its processes.
//!
//! Owns the facts of one sample ([`TaskSample`]), the diagnosis from two samples ([`diagnose()`]),
//! the detection of prompts in output ([`prompt`]), the advice for a diagnosis, and the times at
//! which a silent task is sampled ([`SilenceWatch`]). siding-core takes the samples. A verdict
//! never ends a task, because silence alone is not a failure.

mod advice;
mod classify;
mod diagnose;
pub mod prompt;
mod sample;
mod silence_watch;
mod verdict;
mod view;

pub use classify::{TerminalReader, find_terminal_reader};
pub use diagnose::{Diagnosis, diagnose, is_suspicious};
pub use sample::{
    BlockedOn, BlockedSyscall, BlockingCall, FdObject, ProcessFacts, TaskSample, ThreadFacts,
    ThreadState,
};
pub use silence_watch::{FIRST_SAMPLE_DELAY_MS, SampleResult, SilenceWatch};
pub use verdict::{Certainty, ChainLink, Evidence, StallRecord, WaitingOn, WhyVerdict};
pub use view::{AttentionView, WhyView};
