//! The loop, without anything it does: from what has happened to what is to be done.
//!
//! [`Conversation::handle_event`] is the only way on. It takes an event and returns effects, in the order in
//! which they are to be done; the first of them put entries on record, and nothing that follows may be
//! done before they are written. What an entry means is said once, in [`Conversation::load`] and in
//! turn alike, so whoever is killed at any point goes on from its entries.

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

/// What a conversation may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationLimits {
    /// Tools that change nothing, so that several may run at once.
    pub read_only_tools: HashSet<String>,
    /// How many of those at once, at least one.
    pub max_parallel_reads: usize,
    /// Requests to the model that may follow one prompt.
    pub max_requests: u32,
    /// Tokens of context after which what was said is put in short.
    pub compact_at_tokens: u64,
}

/// A conversation: what was said, and what is on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    limits: ConversationLimits,
    /// What the model has been sent, and has said. Shared with whoever asks it, so that a long
    /// conversation is not copied for each request.
    messages: Arc<Vec<Message>>,
    /// The calls of its last answer, until their results are sent.
    calls: Vec<OpenCall>,
    /// What is sent with the next request.
    pending_content: Vec<UserContent>,
    /// Every call that there was.
    call_ids: HashSet<CallId>,
    notices: HashSet<NoticeId>,
    /// Whether the model owes an answer to the last message.
    awaits_response: bool,
    /// Why it stopped when it last answered.
    last_finish_reason: FinishReason,
    /// Why nothing goes on before somebody says something.
    halt_reason: Option<IdleReason>,
    /// Requests since the last prompt.
    requests_since_prompt: u32,
    total_usage: Usage,
    context_tokens: u64,
    /// What this process waits for, which is on no record.
    in_flight: Option<InFlight>,
    /// Numbers the requests of this process.
    next_request_id: u32,
}

/// A call whose result has not been sent.
#[derive(Debug, Clone, PartialEq)]
struct OpenCall {
    call: ToolCall,
    state: CallState,
    /// Whether this process runs it.
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
    /// Begins one in which nothing has been said.
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

    /// Returns what the model is to be sent: what [`LifecycleEffect::SendRequest`] is about.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns [`Self::messages`] for whoever keeps them while the conversation goes on. They are copied
    /// only if they are still kept when something is added.
    #[must_use]
    pub fn shared_messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// Returns what is to be put in short: [`Self::messages`], and what has not been sent.
    #[must_use]
    pub fn messages_to_summarize(&self) -> Vec<Message> {
        let mut whole = self.clone();
        whole.close_user_message();
        Arc::unwrap_or_clone(whole.messages)
    }

    /// Whether a notice has been told, or is sent with the next request.
    #[must_use]
    pub fn has_notice(&self, notice: NoticeId) -> bool {
        self.notices.contains(&notice)
    }

    /// Returns what all answers have cost.
    #[must_use]
    pub const fn total_usage(&self) -> Usage {
        self.total_usage
    }

    /// Returns the tokens of context in use after the last answer.
    #[must_use]
    pub const fn context_tokens(&self) -> u64 {
        self.context_tokens
    }

    /// Whether anything is on its way: an answer, or the result of a call.
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
