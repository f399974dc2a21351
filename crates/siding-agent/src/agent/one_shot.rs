//! One prompt from its beginning to the end of everything it has started.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::session;
use siding_core::stop::{self, How};
use siding_core::view::Detail;
use siding_model::id::{SessionId, TaskId};
use siding_model::report::TaskView;
use siding_tools::{PROGRAM, text};

use super::begin::Begin;
use super::{AGAIN, Agent, AgentError, Sight, tasks, words};
use crate::conversation::Rest;
use crate::message::{Message, Stop, Usage};

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum End {
    /// The model has ended its turn, and nothing that it has started runs.
    Done,
    /// The model has ended its turn, and its tasks have not ended within the bound. They were ended.
    WaitBound {
        /// The bound, in milliseconds.
        bound_ms: u64,
    },
    /// The provider did not let the model go on.
    Refused,
    /// The model's answer was longer than allowed.
    Cut,
    /// The model has stopped for a reason of its provider's that is none of these.
    Stopped,
    /// It has asked the model as often as it may.
    Requests {
        /// How often that is.
        most: u32,
    },
    /// The model could not be asked.
    Failed {
        /// What was tried and what came of it, and what to do.
        why: String,
    },
    /// A person has interrupted it.
    Interrupted,
}

/// What came of one prompt.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// The conversation, for who wants to go on with it.
    pub session_id: SessionId,
    /// How it ended.
    pub end: End,
    /// What the model said last.
    pub text: String,
    /// What all its answers have cost.
    pub usage: Usage,
    /// The tasks that ran when it ended, as they stand after they were ended for it.
    pub ended: Vec<TaskView>,
}

/// Has an agent work on one prompt until it and everything it has started is over; the latter is
/// waited for `wait_bound` at most, and then ended. Without a prompt it goes on where it was.
///
/// # Errors
///
/// [`AgentError`].
pub fn one_shot(
    begin: Begin,
    prompt: Option<String>,
    wait_bound: Duration,
    sight: &mut dyn FnMut(Sight<'_>),
) -> Result<Report, AgentError> {
    let mut agent = begin.agent()?;
    let host = Arc::clone(&agent.host);
    sight(Sight::Began(&host.session));
    agent.take_up(prompt, sight)?;
    let end = agent.work(wait_bound, sight)?;
    agent.report(end)
}

impl Agent {
    fn work(
        &mut self,
        wait_bound: Duration,
        sight: &mut dyn FnMut(Sight<'_>),
    ) -> Result<End, AgentError> {
        let mut since: Option<Instant> = None;
        loop {
            let Some(rest) = self.rest.clone() else {
                since = None;
                // This end holds a sender, so that it cannot be the last.
                let Ok(came) = self.came.recv() else { return Ok(End::Interrupted) };
                self.take(came, sight)?;
                continue;
            };
            match rest {
                Rest::Turn(Stop::EndTurn) => {}
                Rest::Turn(Stop::Refusal) => return Ok(End::Refused),
                Rest::Turn(Stop::MaxTokens) => return Ok(End::Cut),
                Rest::Turn(Stop::ToolUse | Stop::Other) => return Ok(End::Stopped),
                Rest::Failed { why } => return Ok(End::Failed { why }),
                Rest::Nothing => {
                    let why = "nothing has been said in this conversation: give it a prompt";
                    return Ok(End::Failed { why: why.to_owned() });
                }
                Rest::Interrupted => return Ok(End::Interrupted),
                Rest::Requests { most } => return Ok(End::Requests { most }),
            }
            // In this order: whatever ends in between is in the list or among the news.
            let runs = !tasks::running(&self.host)?.is_empty();
            self.tell_news(sight)?;
            if self.rest.is_none() {
                continue;
            }
            if !runs && !self.has_news {
                return Ok(End::Done);
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited >= wait_bound {
                return Ok(End::WaitBound { bound_ms: text::millis(wait_bound) });
            }
            let left = wait_bound.saturating_sub(waited);
            let left = if self.has_news { left.min(AGAIN) } else { left };
            // When nothing has come it is looked once more.
            if let Ok(came) = self.came.recv_timeout(left) {
                self.take(came, sight)?;
            }
        }
    }

    /// Ends what still runs, and says how it all ended.
    fn report(self, end: End) -> Result<Report, AgentError> {
        let host = Arc::clone(&self.host);
        let running: Vec<TaskId> =
            tasks::running(&host)?.iter().map(|task| task.dir.id()).collect();
        thread::scope(|scope| {
            for id in &running {
                scope.spawn(|| {
                    let how = How { by: "agent", grace: None, signal: None };
                    // What could not be ended ends with the session, and its record says so.
                    let _by_the_session = stop::stop(&host.root, PROGRAM, *id, how);
                });
            }
        });
        let stand = running.iter().filter_map(|id| host.state(*id).ok());
        let ended = stand.map(|standing| host.view(&standing, Detail::Full)).collect();
        let said = self.conversation.messages().iter().rev().find_map(|message| match message {
            Message::Assistant(said) => Some(words::text_of(said)),
            Message::User { .. } => None,
        });
        let report = Report {
            session_id: host.session.clone(),
            end,
            text: said.unwrap_or_default(),
            usage: self.conversation.spent(),
            ended,
        };
        session::close(&host.root, &host.session)?;
        Ok(report)
    }
}
