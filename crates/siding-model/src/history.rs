//! Predictions about a command from its ended runs.
//!
//! Decides which texts are the same command ([`normalize_command`]), how long a run took and
//! whether it was complete ([`Run`]), how long a command usually takes ([`Expectation`]), and
//! whether a command starts in the background ([`decide_auto_background`]). Callers read the runs
//! from siding-history and pass them as arguments.

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
pub use normalize::{
    MAX_NORMALIZED_BYTES, history_directory, normalize_command, normalize_directory,
};
pub use quantile::{Quantile, RunSample, quantile};
pub use run::{Run, RunLength};
pub use summary::{MAX_RECENT_RUNS, RunSummary};
pub use view::{RunView, StatsView};
