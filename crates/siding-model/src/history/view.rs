//! The output of `siding history --json` and `siding stats --json`. Fields may be added; an
//! existing field is never renamed, removed or given another meaning.

use serde::Serialize;

use super::quantile::Quantile;
use super::run::{Run, RunLength};
use super::summary::RunSummary;
use crate::id::TaskId;
use crate::outcome::Outcome;

/// One run in the list that `siding history --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "history"))]
pub struct RunView {
    /// Id of the task; its output may have been removed.
    pub task_id: TaskId,
    /// The command with blanks collapsed and without the values of assignments.
    pub command: String,
    /// Directory in which the command started; with the name of the executor before it
    /// (`build:/srv/src`) if that was another machine.
    pub cwd: String,
    /// Time of the end, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub ended_at: String,
    /// Time until the shell or program ended, or until siding started to end it, in milliseconds;
    /// null when unknown.
    pub ran_ms: Option<u64>,
    /// Whether the run was ended from outside and would have taken longer than `ran_ms`.
    pub cut_short: bool,
    /// How the run ended.
    pub outcome: Outcome,
    /// Highest observed memory use, in bytes: of the whole tree if it was sampled, otherwise of its
    /// largest process; null if it was not measured.
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

/// One command in one directory in the list that `siding stats --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "stats"))]
pub struct StatsView {
    /// The command with blanks collapsed and without the values of assignments.
    pub command: String,
    /// Directory in which the command ran.
    pub cwd: String,
    /// Number of runs in the history, with any outcome.
    pub runs: usize,
    /// Runs that exited with code 0.
    pub succeeded: usize,
    /// Runs that exited with another code, or that a signal, a deadline or a limit ended.
    pub failed: usize,
    /// Share of `succeeded` in `succeeded` and `failed` together, from 0 to 1; null when both are
    /// 0.
    pub success_rate: Option<f64>,
    /// Duration that half of the runs do not exceed, in milliseconds; null if fewer than 3 runs
    /// have a known duration, or too many of these were cut short.
    pub median_ms: Option<u64>,
    /// Duration that nine of ten runs do not exceed, in milliseconds; null if fewer than 3 runs
    /// have a known duration, or too many of these were cut short.
    pub p90_ms: Option<u64>,
    /// Time at which the last run ended, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub last_ended_at: String,
    /// How the last run ended.
    pub last_outcome: Outcome,
    /// Durations of the last runs in milliseconds, the oldest first.
    pub recent_ms: Vec<u64>,
    /// Highest observed memory use of any run, in bytes; null if it was never measured.
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
