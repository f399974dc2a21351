//! The status of a workflow's step, for conditions, JSON and diagrams.

use schemars::JsonSchema;
use serde::Serialize;

/// The status of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// No attempt has started, or the step will be retried.
    Waiting,
    /// An attempt is running.
    Running,
    /// An attempt succeeded.
    Ok,
    /// The step failed and will not be retried.
    Failed,
    /// The step's condition was not met.
    Skipped,
    /// The workflow stopped the step, or the last attempt was lost and may not be repeated.
    Stopped,
    /// The workflow ended before the step could start.
    NotRun,
}

impl StepStatus {
    /// Returns the value used in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Stopped => "stopped",
            Self::NotRun => "not_run",
        }
    }

    /// Returns whether the step is finished. A resumed workflow may still run a stopped step again.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}
