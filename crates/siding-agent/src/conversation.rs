//! The loop, without anything it does: from what has happened to what is to be done.
//!
//! [`Conversation::turn`] is the only way on. It takes an event and returns effects, in the order in
//! which they are to be done; the first of them put entries on record, and nothing that follows may be
//! done before they are written. What an entry means is said once, in [`Conversation::load`] and in
//! turn alike, so whoever is killed at any point goes on from its entries.

mod entry;
mod event;
mod fold;
mod step;
#[cfg(test)]
mod tests;
mod validity;

use std::collections::HashSet;
use std::sync::Arc;

use siding_model::id::TaskId;
use siding_model::notice::NoticeId;

use crate::message::{CallId, Message, Stop, Told, ToolCall, ToolResult, Usage};

pub use entry::Entry;
pub use event::{Effect, Event, Request, Rest};
pub use fold::Fault;
pub use validity::{Invalid, check};

/// What a conversation may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Tools that change nothing, so that several may run at once.
    pub reading: HashSet<String>,
    /// How many of those at once, at least one.
    pub at_once: usize,
    /// Requests to the model that may follow one prompt.
    pub most_requests: u32,
    /// Tokens of context after which what was said is put in short.
    pub compact_at: u64,
}

/// A conversation: what was said, and what is on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    terms: Terms,
    /// What the model has been sent, and has said. Shared with whoever asks it, so that a long
    /// conversation is not copied for each request.
    messages: Arc<Vec<Message>>,
    /// The calls of its last answer, until their results are sent.
    calls: Vec<Open>,
    /// What is sent with the next request.
    told: Vec<Told>,
    /// Every call that there was.
    names: HashSet<CallId>,
    notices: HashSet<NoticeId>,
    /// Whether the model owes an answer to the last message.
    is_owed: bool,
    /// Why it stopped when it last answered.
    stop: Stop,
    /// Why nothing goes on before somebody says something.
    halted: Option<Rest>,
    /// Requests since the last prompt.
    requests: u32,
    spent: Usage,
    context: u64,
    /// What this process waits for, which is on no record.
    flight: Option<Flight>,
    /// Numbers the requests of this process.
    next: u32,
}

/// A call whose result has not been sent.
#[derive(Debug, Clone, PartialEq)]
struct Open {
    call: ToolCall,
    state: CallState,
    /// Whether this process runs it.
    runs: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum CallState {
    Waiting,
    Started { task: Option<TaskId> },
    Done(ToolResult),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flight {
    Answer(Request),
    Summary(Request),
}

impl Conversation {
    /// Begins one in which nothing has been said.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            messages: Arc::default(),
            calls: Vec::new(),
            told: Vec::new(),
            names: HashSet::new(),
            notices: HashSet::new(),
            is_owed: false,
            stop: Stop::EndTurn,
            halted: None,
            requests: 0,
            spent: Usage::default(),
            context: 0,
            flight: None,
            next: 0,
        }
    }

    /// Returns what the model is to be sent: what [`Effect::Ask`] is about.
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
    pub fn to_summarise(&self) -> Vec<Message> {
        let mut whole = self.clone();
        whole.close();
        Arc::unwrap_or_clone(whole.messages)
    }

    /// Whether a notice has been told, or is sent with the next request.
    #[must_use]
    pub fn knows(&self, notice: NoticeId) -> bool {
        self.notices.contains(&notice)
    }

    /// Returns what all answers have cost.
    #[must_use]
    pub const fn spent(&self) -> Usage {
        self.spent
    }

    /// Returns the tokens of context in use after the last answer.
    #[must_use]
    pub const fn context(&self) -> u64 {
        self.context
    }

    /// Whether anything is on its way: an answer, or the result of a call.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.flight.is_some() || self.open_calls() > 0
    }

    /// Returns how many calls have no result yet.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.calls.iter().filter(|open| !open.is_done()).count()
    }
}

impl Open {
    const fn is_done(&self) -> bool {
        matches!(self.state, CallState::Done(_))
    }
}
