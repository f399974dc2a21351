//! The events and effects of a conversation.

use siding_model::id::TaskId;

use super::entry::Entry;
use crate::message::{
    AssistantContent, CallId, FinishReason, ToolCall, ToolResult, Usage, UserContent,
};

/// The number of a request within one process. It tells the answer to an abandoned request, which
/// is ignored, from the answer to a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u32);

/// An event of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// This process has loaded the conversation. Sent once, before any other event, with content
    /// for the model.
    Started(Vec<UserContent>),
    /// Content for the model. It is sent with the next request, after any request in flight has
    /// been answered.
    Input(Vec<UserContent>),
    /// A call starts a task. The task must not be created before this is recorded.
    TaskBound {
        /// The call.
        call: CallId,
        /// The task.
        task: TaskId,
    },
    /// A call has finished.
    CallFinished(ToolResult),
    /// A complete answer of the model.
    Response {
        /// The answered request.
        request: RequestId,
        /// The content of the answer, as the provider returned it.
        said: Vec<AssistantContent>,
        /// Why the model stopped.
        stop: FinishReason,
        /// The tokens used.
        usage: Usage,
    },
    /// The model has written a summary.
    Summary {
        /// The answered request.
        request: RequestId,
        /// The summary.
        text: String,
        /// The tokens used.
        usage: Usage,
    },
    /// A request failed, and a retry would not help.
    RequestFailed {
        /// The failed request.
        request: RequestId,
        /// The failed action and its error.
        why: String,
    },
    /// A person interrupts the work in the foreground. Background tasks continue.
    Interrupted,
}

/// An action for the caller to perform.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write this entry before any effect that follows.
    Record(Entry),
    /// Send [`super::Conversation::messages`] to the model.
    SendRequest(RequestId),
    /// Have the model summarize [`super::Conversation::messages_to_summarize`].
    Summarize(RequestId),
    /// Cancel a request. Its answer is ignored.
    AbandonRequest(RequestId),
    /// Run a call. This effect never occurs twice for a call: after a restart,
    /// [`Effect::RecoverCall`] takes its place.
    RunCall(ToolCall),
    /// Determine the result of a call that was started by a process which has since ended.
    RecoverCall {
        /// The call.
        call: ToolCall,
        /// The call's task, if one was recorded.
        task: Option<TaskId>,
    },
    /// Cancel a running call. Its result is still expected.
    CancelCall(CallId),
    /// Wait for the next event.
    Idle(IdleReason),
}

/// Why there is nothing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdleReason {
    /// The model has ended its turn, and no content is waiting.
    TurnEnded(FinishReason),
    /// The conversation has no messages yet.
    Empty,
    /// A request to the model failed.
    RequestFailed {
        /// The failed action and its error.
        why: String,
    },
    /// A person interrupted the turn.
    Interrupted,
    /// The requests since the last prompt have reached the limit.
    RequestLimit {
        /// The limit.
        limit: u32,
    },
}
