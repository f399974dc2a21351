//! What is put on record of a workflow, in the frame of siding's journals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;
use siding_model::process::UnixMs;

/// The format that is written, and the only one that is read.
pub(super) const FORMAT_VERSION: u32 = 1;

/// What a workflow began with. Its text is kept, so that it goes on as it began whatever becomes of the
/// file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowHeader {
    /// The file, absolute.
    pub file: String,
    /// What was in it.
    pub text: String,
    /// The directory in which it was begun, absolute.
    pub cwd: String,
    /// What was asked for beside the file.
    #[serde(flatten)]
    pub rules: RunOptions,
}

/// What holds for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Whether what does not need a failed step goes on.
    pub keep_going: bool,
    /// How many steps may run at once.
    pub max_parallel: usize,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum WorkflowRecord {
    /// It began. The first record, and only that.
    Opened {
        /// The format of all of them.
        format: u32,
        /// When.
        at: UnixMs,
        /// The task that carries it out.
        task: TaskId,
        /// What it began with.
        #[serde(flatten)]
        opened: WorkflowHeader,
    },
    /// Another task goes on with it.
    Resumed {
        /// When.
        at: UnixMs,
        /// Which.
        task: TaskId,
    },
    /// A step is about to be begun.
    Began {
        /// When.
        at: UnixMs,
        /// Which.
        step: String,
        /// Which attempt, from 1 on.
        attempt: u32,
        /// The task it is to be; none when not even that could be put together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    /// An attempt is over.
    Ended {
        /// When.
        at: UnixMs,
        /// Of which step.
        step: String,
        /// Which attempt.
        attempt: u32,
        /// How.
        end: StepEnd,
    },
    /// Somebody wants all of it stopped.
    Stopping {
        /// When.
        at: UnixMs,
        /// What told so.
        by: String,
    },
    /// All of it is over.
    Over {
        /// When.
        at: UnixMs,
        /// How.
        verdict: WorkflowVerdict,
    },
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepEnd {
    /// It exited with 0.
    Ok,
    /// It did not.
    Failed {
        /// How instead.
        why: String,
        /// Whether another attempt may do better: not where a person has stopped it.
        again: bool,
    },
    /// The workflow has stopped it.
    Stopped,
    /// It ended while nobody carried the workflow out, by no fault of its own.
    Lost {
        /// How.
        why: String,
    },
}

/// How a workflow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowVerdict {
    /// No step has failed.
    Ok,
    /// A step has failed.
    Failed,
    /// It was stopped before all was done. It can go on.
    Stopped,
}

impl WorkflowVerdict {
    /// Returns its word, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}
