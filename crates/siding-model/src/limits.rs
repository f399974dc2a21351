//! The limits of a task: definition, measurement and detection.
//!
//! Owns the requested limits ([`Limits`]), one sample of a tree ([`Usage`]), the evaluation of a
//! series of samples ([`LimitTracker`]), the record of a breach ([`Breach`]), the observed peaks
//! ([`PeakUsage`]), and the times of samples ([`SampleSchedule`]). siding-core takes the samples. A
//! breach stops the task only if the task was started with [`OnLimit::Stop`]; otherwise the breach
//! is reported as a notice. The resources in [`WATCHED_LIMITS`] have watchdogs ([`Watchdog`])
//! unless they have a limit; the high thresholds of the watchdogs lead to a notice and never stop
//! the task.

mod backoff;
mod breach;
mod connections;
mod episodes;
mod memory_pressure;
mod spec;
mod tracker;
mod usage;
mod watchdog;

pub use backoff::SampleSchedule;
pub use breach::{Breach, format_amount};
pub use connections::ConnectionLog;
pub use spec::{Limits, OnLimit};
pub use tracker::{LimitReading, LimitTracker};
pub use usage::{Connection, PeakUsage, ProcessUsage, SentToRemote, Usage};
pub use watchdog::{Thresholds, WATCHED_LIMITS, Watchdog};
