//! Limits of a task: what may be limited, what a task uses, and when a limit is passed.
//!
//! Owns the numbers somebody asked for ([`Limits`]), one look at a tree ([`Usage`]), the judgement
//! over a row of looks ([`Gauges`]), what is put on record ([`Breach`]), the most that was seen
//! ([`Peaks`]), and when to look next ([`Pace`]). It never looks itself. Passing a limit is a fact;
//! only a task that was told to stop at it is ended. What no limit was set for is watched all the same
//! ([`Watchdog`]): from a high threshold on it is told, and nothing is ended for it.

mod asked;
mod breach;
mod episodes;
mod gauges;
mod ledger;
mod machine;
mod pace;
mod usage;
mod watchdog;

pub use asked::{Limits, OnLimit};
pub use breach::Breach;
pub use gauges::{Gauges, Reading};
pub use ledger::Ledger;
pub use pace::Pace;
pub use usage::{Connection, Peaks, ProcessUse, Sent, Usage};
pub use watchdog::{Thresholds, WATCHED, Watchdog};
