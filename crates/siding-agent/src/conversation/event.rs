//! What happens to a conversation, and what is to be done about it.

use siding_model::id::TaskId;

use super::entry::Entry;
use crate::message::{
    AssistantContent, CallId, FinishReason, ToolCall, ToolResult, Usage, UserContent,
};

/// Numbers the requests of one process. An answer to a request that was given up is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u32);

/// What has happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// This process has begun to hold the conversation, and the model is to be told this. Once,
    /// before anything else.
    Started(Vec<UserContent>),
    /// The model is to be told something. It is, once whatever is on its way has come.
    Input(Vec<UserContent>),
    /// A call is run as a task, which is not begun before this is on record.
    TaskBound {
        /// The call.
        call: CallId,
        /// The task.
        task: TaskId,
    },
    /// A call has its result.
    CallFinished(ToolResult),
    /// The model has answered.
    Response {
        /// Which request.
        request: RequestId,
        /// What it said, as the provider gave it.
        said: Vec<AssistantContent>,
        /// Why it stopped.
        stop: FinishReason,
        /// What that cost.
        usage: Usage,
    },
    /// The model has put in short what was said.
    Summary {
        /// Which request.
        request: RequestId,
        /// Its words.
        text: String,
        /// What that cost.
        usage: Usage,
    },
    /// A request came to nothing, and it is of no use to try again.
    RequestFailed {
        /// Which request.
        request: RequestId,
        /// What was tried and what came of it.
        why: String,
    },
    /// A person wants what goes on in the foreground to end. Tasks in the background are left alone.
    Interrupted,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// To be written before anything that follows is done.
    Record(Entry),
    /// The model is to be sent [`super::Conversation::messages`].
    SendRequest(RequestId),
    /// The model is to put [`super::Conversation::to_summarise`] in short.
    Summarize(RequestId),
    /// A request is to be given up; what comes of it is not heard.
    AbandonRequest(RequestId),
    /// A call is to be run. Never twice.
    RunCall(ToolCall),
    /// A call was begun by a process that has ended since: it is to be found out what came of it.
    RecoverCall {
        /// The call.
        call: ToolCall,
        /// The task that it was to be run as, if it came to that.
        task: Option<TaskId>,
    },
    /// A call that runs is to be ended. Its result is still waited for.
    CancelCall(CallId),
    /// There is nothing to be done before something happens.
    Idle(IdleReason),
}

/// Why there is nothing to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdleReason {
    /// The model has ended its turn, and there is nothing more to tell it.
    TurnEnded(FinishReason),
    /// Nothing has been said yet.
    Empty,
    /// The model could not be asked.
    RequestFailed {
        /// What was tried and what came of it.
        why: String,
    },
    /// A person has interrupted it.
    Interrupted,
    /// It has asked the model as often as it may.
    RequestLimit {
        /// How often that is.
        limit: u32,
    },
}
