//! Applies recorded entries to the state of a conversation.

use std::sync::Arc;

use super::entry::Entry;
use super::event::IdleReason;
use super::{CallState, Conversation, ConversationLimits, OpenCall};
use crate::message::{AssistantContent, CallId, Message, ToolCall, ToolResult, UserContent};

/// An entry that cannot follow the entries before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("entry {number}: {what}")]
pub struct ReplayError {
    /// The index of the entry, from 0.
    pub number: usize,
    /// The rule that the entry violates.
    pub what: &'static str,
}

impl Conversation {
    /// Restores a conversation from its entries.
    ///
    /// # Errors
    ///
    /// [`ReplayError`] for the first entry that cannot follow those before it.
    pub fn load(
        limits: ConversationLimits,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, ReplayError> {
        let mut conversation = Self::new(limits);
        for (number, entry) in entries.into_iter().enumerate() {
            conversation.apply(entry).map_err(|what| ReplayError { number, what })?;
        }
        Ok(conversation)
    }

    /// Applies an entry to the state. The error is the rule that the entry violates.
    pub(super) fn apply(&mut self, entry: Entry) -> Result<(), &'static str> {
        match entry {
            Entry::Input { content } => self.apply_user_content(content),
            Entry::RequestSent => return self.apply_request(),
            Entry::Response { content, stop, usage } => {
                if !std::mem::take(&mut self.awaits_response) {
                    return Err("an answer without a request");
                }
                self.total_usage = self.total_usage.plus(usage);
                self.context_tokens = match usage.context_tokens() {
                    // The server reported no usage, so the tokens are estimated.
                    0 => self.context_tokens.saturating_add(self.estimate_tokens(&content)),
                    counted => counted,
                };
                self.apply_response(content);
                self.last_finish_reason = stop;
            }
            Entry::RequestFailed { why } => {
                self.awaits_response = false;
                self.halt_reason = Some(IdleReason::RequestFailed { why });
            }
            Entry::CallStarted { call } => {
                let open = self.find_call(&call).ok_or("a call that is not open was started")?;
                if open.state != CallState::Waiting {
                    return Err("a call was started twice");
                }
                open.state = CallState::Started { task: None };
            }
            Entry::TaskBound { call, task } => {
                let open = self.find_call(&call).ok_or("a call that is not open got a task")?;
                if !matches!(open.state, CallState::Started { .. }) {
                    return Err("a call that does not run got a task");
                }
                open.state = CallState::Started { task: Some(task) };
            }
            Entry::CallFinished { result, covered_notices } => {
                self.notices.extend(covered_notices);
                let open =
                    self.find_call(&result.call).ok_or("a result for a call that is not open")?;
                if open.is_done() {
                    return Err("a second result of a call");
                }
                open.state = CallState::Done(result);
                open.runs_here = false;
            }
            Entry::Interrupted => {
                self.awaits_response = false;
                self.halt_reason = Some(IdleReason::Interrupted);
            }
            Entry::Summary { text, usage } => {
                if self.calls.iter().any(|open| !open.is_done()) {
                    return Err("a summary while a call was open");
                }
                self.total_usage = self.total_usage.plus(usage);
                self.context_tokens = usage.output;
                self.awaits_response = false;
                // Content that was sent but not answered is sent again, unchanged, after the
                // summary.
                let unanswered = match self.messages.last() {
                    Some(Message::User { content, .. }) => content.clone(),
                    Some(Message::Assistant(_)) | None => Vec::new(),
                };
                self.messages = Arc::default();
                self.calls.clear();
                let summary = std::iter::once(UserContent::Summary { text });
                self.pending_content.splice(..0, summary.chain(unanswered));
            }
        }
        Ok(())
    }

    /// Estimates the tokens of the last message and of the answer to it.
    fn estimate_tokens(&self, content: &[AssistantContent]) -> u64 {
        /// The ratio that providers state for English text; code has fewer bytes per token.
        const BYTES_PER_TOKEN: u64 = 4;
        let sent: usize = match self.messages.last() {
            Some(Message::User { results, content }) => {
                let results = results.iter().map(|result| result.text.len());
                results.chain(content.iter().map(|one| one.text().len())).sum()
            }
            Some(Message::Assistant(_)) | None => 0,
        };
        let content = content.iter().map(|one| match one {
            AssistantContent::Text { text } | AssistantContent::Thinking { text, .. } => text.len(),
            AssistantContent::Call(call) => call.name.len() + call.input.to_string().len(),
        });
        (sent + content.sum::<usize>()) as u64 / BYTES_PER_TOKEN
    }

    fn apply_user_content(&mut self, content: Vec<UserContent>) {
        for one in &content {
            match one {
                UserContent::Prompt { .. } => {
                    self.halt_reason = None;
                    self.requests_since_prompt = 0;
                }
                UserContent::Notice { id, .. } => {
                    self.notices.insert(*id);
                }
                UserContent::Message { .. }
                | UserContent::Reminder { .. }
                | UserContent::Summary { .. } => {}
            }
        }
        self.pending_content.extend(content);
    }

    fn apply_request(&mut self) -> Result<(), &'static str> {
        if self.calls.iter().any(|open| !open.is_done()) {
            return Err("a request while a call was open");
        }
        self.close_user_message();
        if !matches!(self.messages.last(), Some(Message::User { .. })) {
            return Err("a request without new content");
        }
        self.awaits_response = true;
        self.halt_reason = None;
        self.requests_since_prompt += 1;
        Ok(())
    }

    fn apply_response(&mut self, content: Vec<AssistantContent>) {
        let calls = content.iter().filter_map(|one| match one {
            AssistantContent::Call(call) => Some(call.clone()),
            AssistantContent::Text { .. } | AssistantContent::Thinking { .. } => None,
        });
        let open = |call: ToolCall| OpenCall { call, state: CallState::Waiting, runs_here: false };
        self.calls = calls.map(open).collect();
        self.call_ids.extend(self.calls.iter().map(|open| open.call.id.clone()));
        if !content.is_empty() {
            Arc::make_mut(&mut self.messages).push(Message::Assistant(content));
        }
    }

    /// Turns the content and results that have not been sent into a message. If the last message is
    /// unanswered, there are no results, and the content is added to that message.
    pub(super) fn close_user_message(&mut self) {
        let done = |open: OpenCall| match open.state {
            CallState::Done(result) => Some(result),
            CallState::Waiting | CallState::Started { .. } => None,
        };
        let results: Vec<ToolResult> =
            std::mem::take(&mut self.calls).into_iter().filter_map(done).collect();
        let new = std::mem::take(&mut self.pending_content);
        let messages = Arc::make_mut(&mut self.messages);
        match messages.last_mut() {
            Some(Message::User { content, .. }) => content.extend(new),
            _ if results.is_empty() && new.is_empty() => {}
            Some(Message::Assistant(_)) | None => {
                messages.push(Message::User { results, content: new });
            }
        }
    }

    pub(super) fn find_call(&mut self, call: &CallId) -> Option<&mut OpenCall> {
        self.calls.iter_mut().find(|open| open.call.id == *call)
    }
}
