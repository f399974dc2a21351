//! What each entry means.

use std::sync::Arc;

use super::entry::Entry;
use super::event::Rest;
use super::{CallState, Conversation, Open, Terms};
use crate::message::{CallId, Message, Said, Told, ToolCall, ToolResult};

/// An entry that cannot follow those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("entry {number}: {what}")]
pub struct Fault {
    /// Its number, from 0 on.
    pub number: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

impl Conversation {
    /// Takes up a conversation where its entries end.
    ///
    /// # Errors
    ///
    /// [`Fault`] for the first entry that cannot follow those before it.
    pub fn load(terms: Terms, entries: impl IntoIterator<Item = Entry>) -> Result<Self, Fault> {
        let mut conversation = Self::new(terms);
        for (number, entry) in entries.into_iter().enumerate() {
            conversation.apply(entry).map_err(|what| Fault { number, what })?;
        }
        Ok(conversation)
    }

    /// Takes in one entry.
    pub(super) fn apply(&mut self, entry: Entry) -> Result<(), &'static str> {
        match entry {
            Entry::Told { told } => self.take_told(told),
            Entry::Asked => return self.take_asked(),
            Entry::Answered { said, stop, usage } => {
                if !std::mem::take(&mut self.is_owed) {
                    return Err("an answer to nothing");
                }
                self.spent = self.spent.and(usage);
                self.context = match usage.context() {
                    // Whoever answered counts nothing.
                    0 => self.context.saturating_add(self.estimated(&said)),
                    counted => counted,
                };
                self.take_said(said);
                self.stop = stop;
            }
            Entry::Failed { why } => {
                self.is_owed = false;
                self.halted = Some(Rest::Failed { why });
            }
            Entry::Started { call } => {
                let open = self.open(&call).ok_or("a call that is not open was started")?;
                if open.state != CallState::Waiting {
                    return Err("a call was started twice");
                }
                open.state = CallState::Started { task: None };
            }
            Entry::Bound { call, task } => {
                let open = self.open(&call).ok_or("a call that is not open got a task")?;
                if !matches!(open.state, CallState::Started { .. }) {
                    return Err("a call that does not run got a task");
                }
                open.state = CallState::Started { task: Some(task) };
            }
            Entry::Done { result } => {
                let open = self.open(&result.call).ok_or("the result of no open call")?;
                if open.is_done() {
                    return Err("a second result of a call");
                }
                open.state = CallState::Done(result);
                open.runs = false;
            }
            Entry::Interrupted => {
                self.is_owed = false;
                self.halted = Some(Rest::Interrupted);
            }
            Entry::Summarised { text, usage } => {
                if self.calls.iter().any(|open| !open.is_done()) {
                    return Err("put in short while a call was open");
                }
                self.spent = self.spent.and(usage);
                self.context = usage.output;
                self.is_owed = false;
                // What has not been answered is said again as it was.
                let unanswered = match self.messages.last() {
                    Some(Message::User { told, .. }) => told.clone(),
                    Some(Message::Assistant(_)) | None => Vec::new(),
                };
                self.messages = Arc::default();
                self.calls.clear();
                let summary = std::iter::once(Told::Summary { text });
                self.told.splice(..0, summary.chain(unanswered));
            }
        }
        Ok(())
    }

    /// Returns about how many tokens the last message and the answer to it are.
    fn estimated(&self, said: &[Said]) -> u64 {
        /// What providers name for English text; code has fewer.
        const BYTES_OF_A_TOKEN: u64 = 4;
        let sent: usize = match self.messages.last() {
            Some(Message::User { results, told }) => {
                let results = results.iter().map(|result| result.text.len());
                results.chain(told.iter().map(|one| one.text().len())).sum()
            }
            Some(Message::Assistant(_)) | None => 0,
        };
        let said = said.iter().map(|one| match one {
            Said::Text { text } | Said::Thinking { text, .. } => text.len(),
            Said::Call(call) => call.name.len() + call.input.to_string().len(),
        });
        (sent + said.sum::<usize>()) as u64 / BYTES_OF_A_TOKEN
    }

    fn take_told(&mut self, told: Vec<Told>) {
        for one in &told {
            match one {
                Told::Prompt { .. } => {
                    self.halted = None;
                    self.requests = 0;
                }
                Told::Notice { id, .. } => {
                    self.notices.insert(*id);
                }
                Told::Message { .. } | Told::Reminder { .. } | Told::Summary { .. } => {}
            }
        }
        self.told.extend(told);
    }

    fn take_asked(&mut self) -> Result<(), &'static str> {
        if self.calls.iter().any(|open| !open.is_done()) {
            return Err("asked while a call was open");
        }
        self.close();
        if !matches!(self.messages.last(), Some(Message::User { .. })) {
            return Err("asked with nothing to say");
        }
        self.is_owed = true;
        self.halted = None;
        self.requests += 1;
        Ok(())
    }

    fn take_said(&mut self, said: Vec<Said>) {
        let calls = said.iter().filter_map(|one| match one {
            Said::Call(call) => Some(call.clone()),
            Said::Text { .. } | Said::Thinking { .. } => None,
        });
        let open = |call: ToolCall| Open { call, state: CallState::Waiting, runs: false };
        self.calls = calls.map(open).collect();
        self.names.extend(self.calls.iter().map(|open| open.call.id.clone()));
        if !said.is_empty() {
            Arc::make_mut(&mut self.messages).push(Message::Assistant(said));
        }
    }

    /// Makes a message of what has not been sent, or adds it to one that was not answered.
    pub(super) fn close(&mut self) {
        let done = |open: Open| match open.state {
            CallState::Done(result) => Some(result),
            CallState::Waiting | CallState::Started { .. } => None,
        };
        let results: Vec<ToolResult> =
            std::mem::take(&mut self.calls).into_iter().filter_map(done).collect();
        let new = std::mem::take(&mut self.told);
        let messages = Arc::make_mut(&mut self.messages);
        match messages.last_mut() {
            Some(Message::User { told, .. }) => told.extend(new),
            _ if results.is_empty() && new.is_empty() => {}
            Some(Message::Assistant(_)) | None => {
                messages.push(Message::User { results, told: new });
            }
        }
    }

    pub(super) fn open(&mut self, call: &CallId) -> Option<&mut Open> {
        self.calls.iter_mut().find(|open| open.call.id == *call)
    }
}
