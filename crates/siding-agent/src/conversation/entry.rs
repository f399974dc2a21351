//! What a transcript holds.

use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;

use crate::message::{AssistantContent, CallId, FinishReason, ToolResult, Usage, UserContent};

/// One thing that has happened in a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// This is sent with the next request.
    Told {
        /// In this order.
        told: Vec<UserContent>,
    },
    /// The model was sent all that has not been sent.
    Asked,
    /// It has answered.
    Answered {
        /// What it said. Empty when that was nothing that can be sent back.
        said: Vec<AssistantContent>,
        /// Why it stopped.
        stop: FinishReason,
        /// What that cost.
        usage: Usage,
    },
    /// It has not, and nothing goes on before somebody says something.
    Failed {
        /// What was tried and what came of it.
        why: String,
    },
    /// A call is about to be run.
    Started {
        /// The call.
        call: CallId,
    },
    /// It is about to be run as this task.
    Bound {
        /// The call.
        call: CallId,
        /// The task. It need not be on record yet.
        task: TaskId,
    },
    /// A call has its result.
    Done {
        /// The result.
        result: ToolResult,
    },
    /// Somebody has interrupted what was going on.
    Interrupted,
    /// All that was said is this in short.
    Summarised {
        /// The model's words.
        text: String,
        /// What that cost.
        usage: Usage,
    },
}
