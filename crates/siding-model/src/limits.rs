//! The limits of a task: definition, measurement and detection.
//!
//! Owns the requested limits ([`Limits`]), one sample of a tree ([`Usage`]), the evaluation of a
//! series of samples ([`LimitTracker`]), the record of a breach ([`Breach`]), the observed peaks
//! ([`PeakUsage`]), and the times of samples ([`SampleSchedule`]). The module takes no samples
//! itself. A task that exceeds a limit is stopped only if it was started with [`OnLimit::Stop`];
//! otherwise the breach is only reported. Resources without a limit are watched too ([`Watchdog`]):
//! above a high threshold they cause a notice, but never a stop.

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
pub use breach::Breach;
pub use connections::ConnectionLog;
pub use spec::{Limits, OnLimit};
pub use tracker::{LimitReading, LimitTracker};
pub use usage::{Connection, PeakUsage, ProcessUsage, SentToRemote, Usage};
pub use watchdog::{Thresholds, WATCHED_LIMITS, Watchdog};
