//! The headless mode: runs an agent on one prompt, without a terminal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use siding_tools::text;

use super::builder::AgentBuilder;
use super::report::{AgentReport, EndReason};
use super::teammates::Team;
use super::{Agent, AgentError, NOTICE_RETRY_INTERVAL, UiEvent, tasks};
use crate::conversation::IdleReason;
use crate::message::FinishReason;

/// Runs an agent on one prompt until the agent and everything it started have ended. Background
/// work that still runs `drain_timeout` after the agent became idle is stopped; after a failed
/// turn, it is stopped immediately. A subagent does not wait: its parent inherits its tasks. If an
/// earlier process was killed during a turn, this turn is continued, with or without a prompt.
///
/// # Errors
///
/// [`AgentError`] if the agent cannot be built, or if a file of its session cannot be read or
/// written. A failed request to the model is not an error; the report states the failure.
pub fn run_headless(
    builder: AgentBuilder,
    prompt: Option<String>,
    drain_timeout: Duration,
    on_event: &mut dyn FnMut(UiEvent<'_>),
) -> Result<AgentReport, AgentError> {
    let mut agent = builder.build()?;
    let host = Arc::clone(&agent.host);
    on_event(UiEvent::Started(&host.session));
    agent.resume(prompt, on_event)?;
    let end = agent.run_to_completion(drain_timeout, on_event)?;
    agent.finish(end)
}

impl Agent {
    fn run_to_completion(
        &mut self,
        drain_timeout: Duration,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Result<EndReason, AgentError> {
        let mut since: Option<Instant> = None;
        loop {
            let Some(rest) = self.idle_reason.clone() else {
                since = None;
                // The agent holds a sender itself, so this channel never closes.
                let Ok(came) = self.events.recv() else { return Ok(EndReason::Interrupted) };
                self.handle_agent_event(came, on_event)?;
                continue;
            };
            match rest {
                IdleReason::TurnEnded(FinishReason::EndTurn) => {}
                IdleReason::TurnEnded(FinishReason::Refusal) => return Ok(EndReason::Refused),
                IdleReason::TurnEnded(FinishReason::MaxTokens) => return Ok(EndReason::Truncated),
                IdleReason::TurnEnded(FinishReason::ToolUse | FinishReason::Other) => {
                    return Ok(EndReason::Stopped);
                }
                IdleReason::RequestFailed { why } => return Ok(EndReason::Failed { why }),
                IdleReason::Empty => {
                    let why = "the conversation is empty: give it a prompt";
                    return Ok(EndReason::Failed { why: why.to_owned() });
                }
                IdleReason::Interrupted => return Ok(EndReason::Interrupted),
                IdleReason::RequestLimit { limit } => {
                    return Ok(EndReason::RequestLimit { limit });
                }
            }
            // The tasks must be listed before the notices are read: a task that ends in between is
            // then still in the list. In the other order, the notice of its end would be missed.
            let runs = self.has_work_under_way()?;
            self.deliver_notices(on_event)?;
            if self.idle_reason.is_none() {
                continue;
            }
            // A subagent does not wait for its tasks, because its parent inherits them.
            if matches!(self.team, Team::Alone) || !runs && !self.has_new_notices {
                return Ok(EndReason::Done);
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited >= drain_timeout {
                return Ok(EndReason::DrainTimeout { timeout_ms: text::millis(drain_timeout) });
            }
            let left = drain_timeout.saturating_sub(waited);
            // Another process may deliver and acknowledge a teammate's notices, and no event
            // reports that, so the state is polled.
            let has_mates = matches!(&self.team, Team::Lead(mates) if !mates.is_empty());
            let left = if self.has_new_notices || has_mates {
                left.min(NOTICE_RETRY_INTERVAL)
            } else {
                left
            };
            // After a timeout the loop checks the state again.
            if let Ok(came) = self.events.recv_timeout(left) {
                self.handle_agent_event(came, on_event)?;
            }
        }
    }

    /// Returns whether a running task, or an undelivered notice of a teammate, may still produce
    /// input for the model.
    fn has_work_under_way(&self) -> Result<bool, AgentError> {
        let running = tasks::list_running(&self.host)?;
        Ok(match &self.team {
            Team::Lead(mates) => {
                // Notices are checked before the idle state: a teammate marks itself busy before it
                // acknowledges its notices, so the opposite order could miss both.
                mates.has_notices(&self.host)
                    || running.iter().any(|task| !mates.is_idle(task.dir.id()))
            }
            Team::Alone | Team::Teammate { .. } => !running.is_empty(),
        })
    }
}
