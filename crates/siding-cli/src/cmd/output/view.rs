//! The JSON of `siding output --json`.

use schemars::JsonSchema;
use serde::Serialize;
use siding_model::id::TaskId;
use siding_model::outcome::Outcome;
use siding_model::record::OutputGap;
use siding_model::task_view::PhaseName;

/// JSON output of `siding output`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "output")]
pub(in crate::cmd) struct OutputView {
    /// The complete id of the task.
    pub(super) task_id: TaskId,
    /// Offset of the first byte of the text.
    pub(super) from: u64,
    /// Offset for the next call's `--since`.
    pub(super) next: u64,
    /// Number of bytes that the task has written so far.
    pub(super) bytes: u64,
    /// The part of the output that is no longer kept; null if all of it is kept.
    pub(super) gap: Option<OutputGap>,
    /// The readable text that `siding output` prints without `--json`.
    pub(super) text: String,
    /// Whether output after `from` is missing from the text, because of the size limit or because
    /// it is no longer kept.
    pub(super) truncated: bool,
    /// Phase of the task at the time of the read.
    pub(super) phase: PhaseName,
    /// How the task ended; null until its whole process tree has ended.
    pub(super) outcome: Option<Outcome>,
}
