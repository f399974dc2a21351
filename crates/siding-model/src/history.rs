//! What ended runs of a command tell about the next one.
//!
//! Owns which runs count as the same command ([`normalise`]), how long a run took and whether that
//! is its whole length ([`Run`]), what is usual ([`Expectation`]), and whether a command goes to
//! the background at once ([`at_once()`]). It is given runs and never looks for them.

mod at_once;
mod expectation;
mod normal;
mod quantile;
mod run;
mod slow;
mod summary;
mod view;

pub use at_once::{Asked, AtOnce, at_once};
pub use expectation::{Expectation, HALF_LIFE, RUNS_MIN};
pub use normal::{TEXT_MAX, directory, normalise};
pub use quantile::{Quantile, Sample, quantile};
pub use run::{Length, Run};
pub use slow::{SimpleCommand, slow};
pub use summary::{RECENT, Summary};
pub use view::{RunView, StatsView};
