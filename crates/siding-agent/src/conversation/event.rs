//! The events and effects of a conversation.

use siding_model::id::TaskId;
use siding_model::notice::NoticeId;

use super::entry::Entry;
use crate::message::{
    AssistantContent, CallId, FinishReason, ToolCall, ToolResult, Usage, UserContent,
};

/// The number of a request within one process. The number distinguishes the answer to an abandoned
/// request, which is ignored, from the answer to a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u32);

/// An input of [`super::Conversation::handle_event`].
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// This process has loaded the conversation. Sent once, before any other event, with content
    /// for the model.
    Started(Vec<UserContent>),
    /// Content for the model, which is sent with the next request. A request in flight is not
    /// changed.
    Input(Vec<UserContent>),
    /// A call runs as a task, which is usually created only after this event is recorded.
    TaskBound {
        /// The call, which must be running.
        call: CallId,
        /// The task, which may not exist yet.
        task: TaskId,
    },
    /// A call has finished.
    CallFinished {
        /// The result for the model.
        result: ToolResult,
        /// The notices whose events the result shows.
        covered_notices: Vec<NoticeId>,
    },
    /// A complete answer of the model.
    Response {
        /// The answered request.
        request: RequestId,
        /// The content of the answer, as the provider returned it.
        content: Vec<AssistantContent>,
        /// Why the model stopped.
        stop: FinishReason,
        /// Tokens that the request used; zero if the server reports no usage.
        usage: Usage,
    },
    /// The model has written the summary that [`Effect::Summarize`] asked for.
    Summary {
        /// The answered request.
        request: RequestId,
        /// Text that will replace the earlier messages.
        text: String,
        /// Tokens used by the request for the summary.
        usage: Usage,
    },
    /// A request failed and will not be retried.
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
    /// Write this entry to the transcript before performing any effect that follows.
    Record(Entry),
    /// Send [`super::Conversation::messages`] to the model.
    SendRequest(RequestId),
    /// Have the model summarize [`super::Conversation::messages_to_summarize`].
    Summarize(RequestId),
    /// Cancel a request. If an answer still arrives, the conversation ignores it.
    AbandonRequest(RequestId),
    /// Run a call. This effect occurs at most once for each call; a call that had started before a
    /// restart gets [`Effect::RecoverCall`] instead.
    RunCall(ToolCall),
    /// Determine the result of a call that was started by a process which has since ended.
    RecoverCall {
        /// The call, as the model made it.
        call: ToolCall,
        /// The call's task, if one was recorded.
        task: Option<TaskId>,
    },
    /// Cancel a running call. The caller must still report the result of the call.
    CancelCall(CallId),
    /// Wait for the next event.
    Idle(IdleReason),
}

/// Why a conversation waits for new content.
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
        /// Maximum number of requests for one prompt.
        limit: u32,
    },
}
