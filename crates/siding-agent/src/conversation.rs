//! The state machine of a conversation. Pure: it maps events to effects and performs none of them.
//!
//! [`Conversation::handle_event`] is the only way to change a conversation. The function returns
//! the effects of an event in the order in which the caller must perform them. The entry of an
//! [`Effect::Record`] must be written to the transcript before the effects that follow it are
//! performed. One function, `apply`, changes the state both when an entry is recorded and when
//! [`Conversation::load`] replays it. A conversation whose process is killed at any point can
//! therefore be continued from its transcript.

mod entry;
mod event;
mod replay;
mod step;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::HashSet;
use std::sync::Arc;

use siding_model::id::TaskId;
use siding_model::notice::NoticeId;

use crate::message::{CallId, FinishReason, Message, ToolCall, ToolResult, Usage, UserContent};

pub use entry::Entry;
pub use event::{Effect, Event, IdleReason, RequestId};
pub use replay::ReplayError;
pub use validate::{InvalidMessages, validate_messages};

/// Limits on the requests, calls and context of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationLimits {
    /// The names of the tools that change nothing, several of which may run concurrently.
    pub read_only_tools: HashSet<String>,
    /// Maximum number of read-only tools that run concurrently; at least one.
    pub max_parallel_reads: usize,
    /// Maximum number of requests to the model for one prompt.
    pub max_requests: u32,
    /// Size of the context in tokens at which the conversation is summarized.
    pub compact_at_tokens: u64,
}

/// The state of a conversation: its messages, open calls and requests in flight.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    limits: ConversationLimits,
    /// The messages exchanged with the model. Shared with the thread that sends them, so that a
    /// long conversation is not copied for each request.
    messages: Arc<Vec<Message>>,
    /// The calls of the last answer, until their results are sent.
    calls: Vec<OpenCall>,
    /// Content to send with the next request.
    pending_content: Vec<UserContent>,
    /// The ids of all calls so far, which no new call may reuse.
    call_ids: HashSet<CallId>,
    notices: HashSet<NoticeId>,
    /// Whether the last message was sent to the model, and the request has neither been answered
    /// nor failed nor been interrupted.
    awaits_response: bool,
    /// Why the model stopped in its last answer.
    last_finish_reason: FinishReason,
    /// Why the conversation is halted until the next prompt; `None` if it is not halted.
    halt_reason: Option<IdleReason>,
    /// Number of requests since the last prompt.
    requests_since_prompt: u32,
    total_usage: Usage,
    context_tokens: u64,
    /// The request in flight, if any. It is not recorded: a restarted process sends the request
    /// again.
    in_flight: Option<InFlight>,
    /// The number of the next request of this process.
    next_request_id: u32,
}

/// A call whose result has not been sent.
#[derive(Debug, Clone, PartialEq)]
struct OpenCall {
    call: ToolCall,
    state: CallState,
    /// Whether this process runs the call, or determines its result after a restart. Otherwise a
    /// result of the call is ignored.
    runs_here: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum CallState {
    Waiting,
    Started { task: Option<TaskId> },
    Done(ToolResult),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InFlight {
    Answer(RequestId),
    Summary(RequestId),
}

impl Conversation {
    /// Creates an empty conversation.
    #[must_use]
    pub fn new(limits: ConversationLimits) -> Self {
        Self {
            limits,
            messages: Arc::default(),
            calls: Vec::new(),
            pending_content: Vec::new(),
            call_ids: HashSet::new(),
            notices: HashSet::new(),
            awaits_response: false,
            last_finish_reason: FinishReason::EndTurn,
            halt_reason: None,
            requests_since_prompt: 0,
            total_usage: Usage::default(),
            context_tokens: 0,
            in_flight: None,
            next_request_id: 0,
        }
    }

    /// Returns the messages of the request that [`Effect::SendRequest`] asks for.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns a shared reference to [`Self::messages`]. The messages are copied only if such a
    /// reference still exists when the next message is added.
    #[must_use]
    pub fn shared_messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// Returns the messages to summarize: [`Self::messages`] and the content that has not been
    /// sent.
    #[must_use]
    pub fn messages_to_summarize(&self) -> Vec<Message> {
        let mut whole = self.clone();
        whole.close_user_message();
        Arc::unwrap_or_clone(whole.messages)
    }

    /// Returns whether a notice was sent or will be sent with the next request, or whether the
    /// result of a call covers it.
    #[must_use]
    pub fn has_notice(&self, notice: NoticeId) -> bool {
        self.notices.contains(&notice)
    }

    /// Returns the tokens used by all answers and summaries.
    #[must_use]
    pub const fn total_usage(&self) -> Usage {
        self.total_usage
    }

    /// Returns the size of the context in tokens after the last answer or summary; an estimate if
    /// the server reports no usage.
    #[must_use]
    pub const fn context_tokens(&self) -> u64 {
        self.context_tokens
    }

    /// Returns whether a request is in flight or a call has no result yet.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.in_flight.is_some() || self.open_call_count() > 0
    }

    /// Returns how many calls have no result yet.
    #[must_use]
    pub fn open_call_count(&self) -> usize {
        self.calls.iter().filter(|open| !open.is_done()).count()
    }
}

impl OpenCall {
    const fn is_done(&self) -> bool {
        matches!(self.state, CallState::Done(_))
    }
}
