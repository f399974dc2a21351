//! The values of `siding metrics`, and their Prometheus text format.
//!
//! A *counter* must never fall, although retention removes tasks. Therefore every counter is a
//! [`Tally`] that depends only on a task's journal, which only grows: siding-history adds the tally
//! of an ended task to a stored total exactly once, and the tallies of the other kept tasks are
//! added when the metrics are read. A value that cannot be computed in this way is a gauge over the
//! kept tasks.
//!
//! No label contains text of a task. The names of reaper rules come from settings, and every other
//! label has a fixed set of values.

mod document;
mod exposition;
mod kept;
mod tally;

pub use document::{MetricsSnapshot, format_metrics};
pub use exposition::CONTENT_TYPE;
pub use kept::{KeptTask, KeptTotals, StateDirectoryBytes};
pub use tally::{CounterName, Tally, outcome_label};
