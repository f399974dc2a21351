//! The entries of a transcript, from which a conversation can be restored.

use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;
use siding_model::notice::NoticeId;

use crate::message::{AssistantContent, CallId, FinishReason, ToolResult, Usage, UserContent};

/// A recorded change of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// Content for the model, to be sent with the next request.
    Input {
        /// The content, in the order in which it is sent.
        content: Vec<UserContent>,
    },
    /// A request is about to be sent, with all content that has not been sent.
    RequestSent,
    /// A complete answer of the model.
    Response {
        /// The parts of the answer, with unique call ids. Empty if the answer contained nothing
        /// that an API would accept back.
        content: Vec<AssistantContent>,
        /// Why the model stopped.
        stop: FinishReason,
        /// Tokens that the request used; zero if the server reports no usage.
        usage: Usage,
    },
    /// The request failed. The conversation is halted until the next prompt, or until it is
    /// resumed.
    RequestFailed {
        /// The failed action and its error.
        why: String,
    },
    /// A call is about to run.
    CallStarted {
        /// The call, which must be one of the last answer.
        call: CallId,
    },
    /// A call runs as this task, which is usually created only after this entry.
    TaskBound {
        /// The call, which must have started.
        call: CallId,
        /// The task, which may not exist yet.
        task: TaskId,
    },
    /// A call has finished or was refused.
    CallFinished {
        /// The result, which the next request sends to the model.
        result: ToolResult,
        /// The notices whose events the result shows, so that they need no delivery.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        covered_notices: Vec<NoticeId>,
    },
    /// A person interrupted the turn. The conversation is halted until the next prompt.
    Interrupted,
    /// A summary has replaced all earlier messages. Content that has not been answered is sent
    /// again after the summary.
    Summary {
        /// The summary, written by the model.
        text: String,
        /// Tokens used by the request for the summary.
        usage: Usage,
    },
}
