//! What `siding output --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use siding_model::id::TaskId;
use siding_model::outcome::Outcome;
use siding_model::record::OutputGap;
use siding_model::task_view::PhaseName;

/// One look at a task's output. `docs/schema/output.schema.json` is the contract.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "output")]
pub(super) struct OutputView {
    /// Name of the task.
    pub(super) task_id: TaskId,
    /// Offset at which the text begins.
    pub(super) from: u64,
    /// Offset at which to go on, as in `--since`.
    pub(super) next: u64,
    /// Bytes the task has written so far.
    pub(super) bytes: u64,
    /// The part of them that is gone for good.
    pub(super) gap: Option<OutputGap>,
    /// The text.
    pub(super) text: String,
    /// Whether the text lacks something between `from` and `bytes`.
    pub(super) truncated: bool,
    /// Where the task stands.
    pub(super) phase: PhaseName,
    /// How it ended; null until the whole tree has ended.
    pub(super) outcome: Option<Outcome>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::schema;

    #[test]
    fn committed_schema_matches_the_code() {
        schema::assert_committed::<OutputView>("output");
    }
}
