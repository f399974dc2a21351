//! Limits of a task: what may be limited, what a task uses, and when a limit is passed.
//!
//! Owns the numbers somebody asked for ([`Limits`]), one look at a tree ([`Usage`]), the judgement
//! over a row of looks ([`LimitTracker`]), what is put on record ([`Breach`]), the most that was seen
//! ([`PeakUsage`]), and when to look next ([`SampleSchedule`]). It never looks itself. Passing a limit is a fact;
//! only a task that was told to stop at it is ended. What no limit was set for is watched all the same
//! ([`Watchdog`]): from a high threshold on it is told, and nothing is ended for it.

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
