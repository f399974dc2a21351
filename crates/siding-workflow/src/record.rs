//! The records of a workflow, framed like those of siding's other journals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;
use siding_model::process::UnixMs;

/// The format version that is written, and the newest version that can be read.
pub(super) const FORMAT_VERSION: u32 = 1;

/// The settings of a run. They include the text of the file, so that later changes to the file do
/// not affect the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowHeader {
    /// The absolute path of the workflow's file.
    pub file: String,
    /// The content of the file at the start of the run.
    pub text: String,
    /// The absolute working directory. Steps that do not set `cwd` run in this directory.
    pub cwd: String,
    /// The options of the run, from the command line, the file or the defaults.
    #[serde(flatten)]
    pub rules: RunOptions,
}

/// The options of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Whether steps that do not need a failed step continue.
    pub keep_going: bool,
    /// Maximum number of steps that run concurrently.
    pub max_parallel: usize,
}

/// A record of a workflow's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum WorkflowRecord {
    /// The run started. Only the first record is of this type.
    Opened {
        /// Format version of the journal, 1 at present.
        format: u32,
        /// The wall-clock time at which the record was written.
        at: UnixMs,
        /// The task that runs the workflow.
        task: TaskId,
        /// The file's text and the options of the run.
        #[serde(flatten)]
        opened: WorkflowHeader,
    },
    /// Another task continues the run.
    Resumed {
        /// The wall-clock time at which the record was written.
        at: UnixMs,
        /// The task that runs the workflow from this record on.
        task: TaskId,
    },
    /// An attempt of a step is about to start.
    Began {
        /// The wall-clock time at which the record was written.
        at: UnixMs,
        /// The id of the step, with the values of its matrix.
        step: String,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The task of the attempt; `None` if its specification could not be built.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    /// The task of an attempt is recorded, so the attempt may have run. Without this record, an
    /// attempt whose task does not exist was never started.
    Started {
        /// The wall-clock time at which the record was written.
        at: UnixMs,
        /// The id of the step, with the values of its matrix.
        step: String,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// An attempt has ended.
    Ended {
        /// The wall-clock time at which the record was written.
        at: UnixMs,
        /// The id of the step, with the values of its matrix.
        step: String,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How the attempt ended.
        end: StepEnd,
    },
    /// The runner received a signal to stop.
    Stopping {
        /// The wall-clock time at which the record was written.
        at: UnixMs,
        /// The name of the signal, such as `SIGTERM`.
        by: String,
    },
    /// The run has ended.
    Over {
        /// The wall-clock time at which the record was written.
        at: UnixMs,
        /// The result of the whole run.
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
    /// The attempt had no result because its runner ended: its task was never started, was stopped
    /// with the session, or ended with an unknown outcome. A lost attempt is not counted as a
    /// failure, and the step may start again.
    Lost {
        /// Description of the outcome, for people.
        why: String,
    },
}

/// The result of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowVerdict {
    /// All steps succeeded or were skipped.
    Ok,
    /// At least one step failed.
    Failed,
    /// The run was stopped before all steps were finished; it can be resumed.
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
