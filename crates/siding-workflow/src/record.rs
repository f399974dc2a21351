//! The records of a workflow, framed like those of siding's other journals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;
use siding_model::process::UnixMs;

/// The version of the format that is written, and the newest that is read.
pub(super) const FORMAT_VERSION: u32 = 1;

/// The settings of a run. They include the text of the file, so that later changes of the file do
/// not affect the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowHeader {
    /// The absolute path of the file.
    pub file: String,
    /// The content of the file at the start of the run.
    pub text: String,
    /// The absolute working directory, in which steps without a directory of their own run.
    pub cwd: String,
    /// The options that the caller chose in addition to the file.
    #[serde(flatten)]
    pub rules: RunOptions,
}

/// The options of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Whether steps that do not need a failed step continue.
    pub keep_going: bool,
    /// How many steps may run concurrently.
    pub max_parallel: usize,
}

/// A record of a workflow's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum WorkflowRecord {
    /// The run started. Only the first record is of this type.
    Opened {
        /// Format version of the journal.
        format: u32,
        /// The time of the record.
        at: UnixMs,
        /// The task that runs the workflow.
        task: TaskId,
        /// The file's text and the options of the run.
        #[serde(flatten)]
        opened: WorkflowHeader,
    },
    /// Another task continues the run.
    Resumed {
        /// The time of the record.
        at: UnixMs,
        /// The task that runs the workflow from now on.
        task: TaskId,
    },
    /// An attempt of a step is about to start.
    Began {
        /// The time of the record.
        at: UnixMs,
        /// The id of the step.
        step: String,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The task of the attempt; `None` if its specification could not be built.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    /// An attempt has ended.
    Ended {
        /// The time of the record.
        at: UnixMs,
        /// The id of the step.
        step: String,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How the attempt ended.
        end: StepEnd,
    },
    /// A signal asked the run to stop.
    Stopping {
        /// The time of the record.
        at: UnixMs,
        /// The name of the received signal.
        by: String,
    },
    /// The run has ended.
    Over {
        /// The time of the record.
        at: UnixMs,
        /// The verdict on the run.
        verdict: WorkflowVerdict,
    },
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepEnd {
    /// The attempt exited with code 0.
    Ok,
    /// The attempt could not be started, or ended in a way that no other variant describes.
    Failed {
        /// Description of the outcome, for people.
        why: String,
        /// Whether a retry may succeed: false, for example, after a person has stopped the task.
        again: bool,
    },
    /// The workflow stopped the attempt.
    Stopped,
    /// While no process ran the workflow, the attempt was never started, was stopped with the
    /// session, or ended with an unknown outcome. This is not counted as a failure, and the step
    /// starts again.
    Lost {
        /// Description of the outcome, for people.
        why: String,
    },
}

/// The verdict on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowVerdict {
    /// No step failed.
    Ok,
    /// A step failed.
    Failed,
    /// The run was stopped before all steps were finished. It can be resumed.
    Stopped,
}

impl WorkflowVerdict {
    /// Returns the value used in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}
