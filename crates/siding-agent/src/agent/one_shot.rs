//! One prompt from its beginning to the end of everything it has started.

use std::sync::Arc;
use std::time::{Duration, Instant};

use siding_tools::text;

use super::begin::Begin;
use super::mates::Company;
use super::report::{End, Report};
use super::{AGAIN, Agent, AgentError, Sight, tasks};
use crate::conversation::Rest;
use crate::message::Stop;

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
            let runs = self.has_work_under_way()?;
            self.tell_news(sight)?;
            if self.rest.is_none() {
                continue;
            }
            // What a subagent leaves is had by whoever started it.
            if matches!(self.company, Company::Alone) || !runs && !self.has_news {
                return Ok(End::Done);
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited >= wait_bound {
                return Ok(End::WaitBound { bound_ms: text::millis(wait_bound) });
            }
            let left = wait_bound.saturating_sub(waited);
            // Who else takes a teammate's news is heard of by nobody.
            let has_mates = matches!(&self.company, Company::Lead(mates) if !mates.is_empty());
            let left = if self.has_news || has_mates { left.min(AGAIN) } else { left };
            // When nothing has come it is looked once more.
            if let Ok(came) = self.came.recv_timeout(left) {
                self.take(came, sight)?;
            }
        }
    }

    /// Whether anything runs that may still come to something.
    fn has_work_under_way(&self) -> Result<bool, AgentError> {
        let running = tasks::running(&self.host)?;
        Ok(match &self.company {
            Company::Lead(mates) => {
                // In this order: a teammate is busy before it notes that it was told its news.
                mates.has_news(&self.host)
                    || running.iter().any(|task| !mates.is_idle(task.dir.id()))
            }
            Company::Alone | Company::Mate { .. } => !running.is_empty(),
        })
    }
}
