//! Predictions about a command from its ended runs.
//!
//! Owns the rule about which texts are one command ([`normalize_command`]), the length of a run and
//! whether it is complete ([`Run`]), the usual duration ([`Expectation`]), and the decision to
//! start a command in the background ([`decide_auto_background`]). Callers pass the runs in; this
//! module never looks them up.

mod auto_background;
mod expectation;
mod known_slow;
mod normalize;
mod quantile;
mod run;
mod summary;
mod view;

pub use auto_background::{AutoBackground, PlacementRequest, decide_auto_background};
pub use expectation::{Expectation, MIN_RUNS, RUN_HALF_LIFE};
pub use known_slow::{SimpleCommand, known_slow_words};
pub use normalize::{MAX_NORMALIZED_BYTES, normalize_command, normalize_directory};
pub use quantile::{Quantile, RunSample, quantile};
pub use run::{Run, RunLength};
pub use summary::{MAX_RECENT_RUNS, RunSummary};
pub use view::{RunView, StatsView};
