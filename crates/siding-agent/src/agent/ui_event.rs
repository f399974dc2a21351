//! What a person may see of an agent at work.

use siding_model::id::SessionId;

use super::Label;
use crate::conversation::IdleReason;
use crate::message::{AssistantContent, CallId, ToolCall, ToolResult, Usage, UserContent};
use crate::provider::ResponsePart;

/// Something to be seen. What is on record is in the transcript.
#[derive(Debug, Clone, Copy)]
pub enum UiEvent<'a> {
    /// It begins to work in this conversation.
    Started(&'a SessionId),
    /// The model is asked.
    RequestSent,
    /// A part of an answer that is on its way.
    ResponsePart(ResponsePart<'a>),
    /// The model has answered.
    Response(&'a [AssistantContent]),
    /// A tool is called.
    CallStarted(&'a ToolCall),
    /// A call has its result.
    CallFinished(&'a ToolResult),
    /// The model is told something.
    Input(&'a UserContent),
    /// The model could not be asked.
    RequestFailed(&'a str),
    /// What was just done, in few words.
    Label(&'a Label),
    /// What an answer cost.
    Usage(Usage),
    /// What was said is being put in short.
    Summarizing,
    /// A person is to say whether a command is run.
    ApprovalRequested {
        /// The call that waits for it.
        call: &'a CallId,
        /// The command.
        command: &'a str,
        /// What speaks against it.
        reason: &'a str,
    },
    /// There is nothing to be done before something happens.
    Idle(&'a IdleReason),
}
