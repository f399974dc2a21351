//! One prompt from its beginning to the end of everything it has started.

use std::sync::Arc;
use std::time::{Duration, Instant};

use siding_tools::text;

use super::builder::AgentBuilder;
use super::report::{AgentReport, EndReason};
use super::teammates::Team;
use super::{Agent, AgentError, NOTICE_RETRY_INTERVAL, UiEvent, tasks};
use crate::conversation::IdleReason;
use crate::message::FinishReason;

/// Has an agent work on one prompt until it and everything it has started is over; the latter is
/// waited for `wait_bound` at most, and then ended. Without a prompt it goes on where it was.
///
/// # Errors
///
/// [`AgentError`].
pub fn run_headless(
    builder: AgentBuilder,
    prompt: Option<String>,
    wait_bound: Duration,
    on_event: &mut dyn FnMut(UiEvent<'_>),
) -> Result<AgentReport, AgentError> {
    let mut agent = builder.build()?;
    let host = Arc::clone(&agent.host);
    on_event(UiEvent::Started(&host.session));
    agent.resume(prompt, on_event)?;
    let end = agent.run_to_completion(wait_bound, on_event)?;
    agent.finish(end)
}

impl Agent {
    fn run_to_completion(
        &mut self,
        wait_bound: Duration,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Result<EndReason, AgentError> {
        let mut since: Option<Instant> = None;
        loop {
            let Some(rest) = self.idle_reason.clone() else {
                since = None;
                // This end holds a sender, so that it cannot be the last.
                let Ok(came) = self.events.recv() else { return Ok(EndReason::Interrupted) };
                self.handle_agent_event(came, on_event)?;
                continue;
            };
            match rest {
                IdleReason::TurnEnded(FinishReason::EndTurn) => {}
                IdleReason::TurnEnded(FinishReason::Refusal) => return Ok(EndReason::Refused),
                IdleReason::TurnEnded(FinishReason::MaxTokens) => return Ok(EndReason::Cut),
                IdleReason::TurnEnded(FinishReason::ToolUse | FinishReason::Other) => {
                    return Ok(EndReason::Stopped);
                }
                IdleReason::RequestFailed { why } => return Ok(EndReason::Failed { why }),
                IdleReason::Empty => {
                    let why = "nothing has been said in this conversation: give it a prompt";
                    return Ok(EndReason::Failed { why: why.to_owned() });
                }
                IdleReason::Interrupted => return Ok(EndReason::Interrupted),
                IdleReason::RequestLimit { limit: most } => {
                    return Ok(EndReason::Requests { most });
                }
            }
            // In this order: whatever ends in between is in the list or among the news.
            let runs = self.has_work_under_way()?;
            self.deliver_notices(on_event)?;
            if self.idle_reason.is_none() {
                continue;
            }
            // What a subagent leaves is had by whoever started it.
            if matches!(self.team, Team::Alone) || !runs && !self.has_new_notices {
                return Ok(EndReason::Done);
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited >= wait_bound {
                return Ok(EndReason::WaitBound { bound_ms: text::millis(wait_bound) });
            }
            let left = wait_bound.saturating_sub(waited);
            // Who else takes a teammate's news is heard of by nobody.
            let has_mates = matches!(&self.team, Team::Lead(mates) if !mates.is_empty());
            let left = if self.has_new_notices || has_mates {
                left.min(NOTICE_RETRY_INTERVAL)
            } else {
                left
            };
            // When nothing has come it is looked once more.
            if let Ok(came) = self.events.recv_timeout(left) {
                self.handle_agent_event(came, on_event)?;
            }
        }
    }

    /// Whether anything runs that may still come to something.
    fn has_work_under_way(&self) -> Result<bool, AgentError> {
        let running = tasks::list_running(&self.host)?;
        Ok(match &self.team {
            Team::Lead(mates) => {
                // In this order: a teammate is busy before it notes that it was told its news.
                mates.has_notices(&self.host)
                    || running.iter().any(|task| !mates.is_idle(task.dir.id()))
            }
            Team::Alone | Team::Teammate { .. } => !running.is_empty(),
        })
    }
}
