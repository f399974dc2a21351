//! The events of an agent that are shown to a person.

use schemars::JsonSchema;
use serde::Serialize;
use siding_model::id::SessionId;

use crate::conversation::IdleReason;
use crate::message::{AssistantContent, CallId, ToolCall, ToolResult, Usage, UserContent};
use crate::provider::ResponsePart;

/// An event for display. Events are not stored: the transcript is the record.
#[derive(Debug, Clone, Copy)]
pub enum UiEvent<'a> {
    /// The agent starts to work in this conversation.
    Started(&'a SessionId),
    /// A request is about to be sent to the model.
    RequestSent,
    /// A part of a streamed answer, or the announcement of a retry.
    ResponsePart(ResponsePart<'a>),
    /// A complete answer of the model, which replaces the parts received before.
    Response(&'a [AssistantContent]),
    /// A tool call starts.
    CallStarted(&'a ToolCall),
    /// A tool call has finished.
    CallFinished(&'a ToolResult),
    /// Content for the model was recorded. The next request sends it.
    Input(&'a UserContent),
    /// A request to the model failed, or a consolidation of the notes could not be started. The
    /// text is the reason.
    RequestFailed(&'a str),
    /// The small model has labeled a finished batch of calls.
    Label(&'a Label),
    /// The tokens used by an answer or a summary.
    Usage(Usage),
    /// The conversation is being summarized.
    Summarizing,
    /// A command waits for a person's approval.
    ApprovalRequested {
        /// The call that waits for the approval.
        call: &'a CallId,
        /// The command, as it is shown to the person.
        command: &'a str,
        /// The guard's reason for asking.
        reason: &'a str,
    },
    /// The agent waits for the next event, and no request to the model is in progress.
    Idle(&'a IdleReason),
}

/// A label for a finished batch of tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Label {
    /// A short phrase in the past tense that says what the calls did.
    pub text: String,
    /// The ids of the tool calls in the batch.
    pub calls: Vec<String>,
}
