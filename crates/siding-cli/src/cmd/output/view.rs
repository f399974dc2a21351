//! The JSON of `siding output --json`.

use schemars::JsonSchema;
use serde::Serialize;
use siding_model::id::TaskId;
use siding_model::outcome::Outcome;
use siding_model::record::OutputGap;
use siding_model::task_view::PhaseName;

/// JSON output.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "output")]
pub(in crate::cmd) struct OutputView {
    /// The task's id.
    pub(super) task_id: TaskId,
    /// Offset of the first byte of the text.
    pub(super) from: u64,
    /// Offset for the next call's `--since`.
    pub(super) next: u64,
    /// Number of bytes that the task has written so far.
    pub(super) bytes: u64,
    /// The part of the output that is no longer kept.
    pub(super) gap: Option<OutputGap>,
    /// The readable text.
    pub(super) text: String,
    /// Whether text between `from` and `bytes` is missing.
    pub(super) truncated: bool,
    /// The task's phase.
    pub(super) phase: PhaseName,
    /// How the task ended; null until its whole process tree has ended.
    pub(super) outcome: Option<Outcome>,
}
