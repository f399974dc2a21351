//! The entries of a transcript.

use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;

use crate::message::{AssistantContent, CallId, FinishReason, ToolResult, Usage, UserContent};

/// A recorded event of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// Content for the model, to be sent with the next request.
    Told {
        /// The content, in the order in which it is sent.
        told: Vec<UserContent>,
    },
    /// A request was sent, with all content that had not been sent.
    Asked,
    /// A complete answer of the model.
    Answered {
        /// The content of the answer. Empty if the answer held nothing that an API would accept
        /// back.
        said: Vec<AssistantContent>,
        /// Why the model stopped.
        stop: FinishReason,
        /// The tokens used.
        usage: Usage,
    },
    /// The request failed. The conversation is halted until new content arrives.
    Failed {
        /// The failed action and its error.
        why: String,
    },
    /// A call is about to run.
    Started {
        /// The call.
        call: CallId,
    },
    /// A call is about to start this task.
    Bound {
        /// The call.
        call: CallId,
        /// The task, which may not exist yet.
        task: TaskId,
    },
    /// A call has finished.
    Done {
        /// The result.
        result: ToolResult,
    },
    /// A person interrupted the turn.
    Interrupted,
    /// A summary has replaced all earlier messages.
    Summarised {
        /// The summary, written by the model.
        text: String,
        /// The tokens used.
        usage: Usage,
    },
}
