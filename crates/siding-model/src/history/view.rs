//! What `siding history --json` and `siding stats --json` print. Fields may be added, never
//! renamed, removed or given another meaning.

use serde::Serialize;

use super::quantile::Quantile;
use super::run::{Run, RunLength};
use super::summary::RunSummary;
use crate::id::TaskId;
use crate::outcome::Outcome;

/// One run, as `siding history --json` prints it in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "history"))]
pub struct RunView {
    /// The task it was; its output may be gone.
    pub task_id: TaskId,
    /// Its command, normalised.
    pub command: String,
    /// Directory in which it started.
    pub cwd: String,
    /// When it ended, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub ended_at: String,
    /// How long its shell or program ran, or until siding began to end it; null when unknown.
    pub ran_ms: Option<u64>,
    /// Whether it would have taken longer than `ran_ms`: something ended it.
    pub cut_short: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// Most memory it was seen to take, in bytes: by the whole tree when somebody looked, else by
    /// its largest process; null where nobody saw any.
    pub peak_memory_bytes: Option<u64>,
}

impl From<Run> for RunView {
    fn from(run: Run) -> Self {
        Self {
            cut_short: matches!(run.length(), RunLength::AtLeast(_)),
            task_id: run.task_id,
            command: run.command,
            cwd: run.cwd,
            ended_at: run.ended.rfc3339(),
            ran_ms: run.ran_ms,
            outcome: run.outcome,
            peak_memory_bytes: run.peak_memory,
        }
    }
}

/// One command in one directory, as `siding stats --json` prints it in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "stats"))]
pub struct StatsView {
    /// The command, normalised.
    pub command: String,
    /// The directory.
    pub cwd: String,
    /// Runs that are remembered.
    pub runs: usize,
    /// Those that exited with 0.
    pub succeeded: usize,
    /// Those that exited with another code, or that a signal, a deadline or a limit ended.
    pub failed: usize,
    /// `succeeded` of both, from 0 to 1; null when there are neither.
    pub success_rate: Option<f64>,
    /// Half of the runs take no longer; null with fewer than 3 runs, or when too many were cut
    /// short to tell.
    pub median_ms: Option<u64>,
    /// Nine of ten runs take no longer; null as for the median.
    pub p90_ms: Option<u64>,
    /// When the last one ended, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub last_ended_at: String,
    /// How the last one ended.
    pub last_outcome: Outcome,
    /// How long the last ones took, the oldest first.
    pub recent_ms: Vec<u64>,
    /// Most memory that any of them was seen to take, in bytes; null where nobody saw any.
    pub peak_memory_bytes: Option<u64>,
}

impl From<RunSummary> for StatsView {
    fn from(summary: RunSummary) -> Self {
        let expectation = summary.expectation;
        Self {
            runs: summary.runs,
            succeeded: summary.succeeded,
            failed: summary.failed,
            success_rate: summary.success_rate(),
            median_ms: expectation.map(|found| found.median).and_then(Quantile::exact_ms),
            p90_ms: expectation.map(|found| found.p90).and_then(Quantile::exact_ms),
            last_ended_at: summary.last.ended.rfc3339(),
            last_outcome: summary.last.outcome,
            recent_ms: summary.recent,
            peak_memory_bytes: summary.peak_memory,
            command: summary.last.command,
            cwd: summary.last.cwd,
        }
    }
}
