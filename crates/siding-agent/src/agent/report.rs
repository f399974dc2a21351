//! Ends an agent: stops its tasks or leaves them to its parent, and builds the final report.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::session;
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::view::ViewDetail;
use siding_model::id::{SessionId, TaskId};
use siding_model::task_view::TaskView;
use siding_tools::{SHIM_PROGRAM, TaskSnapshot, ToolContext};

use super::teammates::Team;
use super::{Agent, AgentError, Label, tasks};
use crate::conversation::Entry;
use crate::message::{Message, Usage, joined_text};
use crate::transcript::Transcript;

/// Why the agent ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndReason {
    /// The model has ended its turn, and the agent has no task to wait for.
    Done,
    /// The model has ended its turn, but its tasks did not end within `--drain-timeout` and were
    /// stopped.
    DrainTimeout {
        /// Milliseconds that the agent waited for its tasks.
        timeout_ms: u64,
    },
    /// The provider refused to let the model continue.
    Refused,
    /// The model's answer reached its maximum length and was cut.
    Truncated,
    /// The provider stopped the model for another reason.
    Stopped,
    /// The agent reached its limit of requests to the model.
    RequestLimit {
        /// Maximum number of requests for one prompt (`--max-turns`).
        limit: u32,
    },
    /// A request to the model failed, or the conversation is empty, so that no request could be
    /// made.
    Failed {
        /// The failed action, its error, and the remedy.
        why: String,
    },
    /// A person interrupted the agent.
    Interrupted,
    /// A person at the terminal quit.
    Quit,
    /// A signal ended the agent, or its terminal was closed.
    Signaled {
        /// The name of the signal; SIGHUP for a closed terminal.
        signal: String,
    },
}

/// The result of an agent's run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "agent")]
pub struct AgentReport {
    /// The conversation's id, for `--resume`.
    pub session_id: SessionId,
    /// Why the agent ended.
    pub end: EndReason,
    /// The text of the model's last message; empty if there is none.
    pub text: String,
    /// Labels for batches of calls. A batch has none if the small model did not write one in time.
    pub labels: Vec<Label>,
    /// The tokens used by all answers and summaries of the agent's own conversation.
    pub usage: Usage,
    /// The tokens used by all subagents and teammates below this agent.
    pub usage_of_subagents: Usage,
    /// The tasks of a subagent that were running when it ended. They continue as tasks of the agent
    /// that started the subagent.
    pub inherited_tasks: Vec<TaskView>,
    /// The tasks that were running when the agent ended, in their state after the agent stopped
    /// them.
    pub ended: Vec<TaskView>,
}

impl Agent {
    /// Stops the tasks that are still running, or leaves a subagent's tasks to its parent. Returns
    /// the report.
    pub(super) fn finish(mut self, end: EndReason) -> Result<AgentReport, AgentError> {
        let host = Arc::clone(&self.host);
        // Closes the channel first: a teammate that waits for the lead to record a message would
        // otherwise wait forever.
        drop(std::mem::replace(&mut self.events, channel().1));
        let idle = match &self.team {
            Team::Lead(mates) => mates.shut_down_all(),
            Team::Alone | Team::Teammate { .. } => HashSet::new(),
        };
        let running = tasks::list_running(&host)?;
        let views = |standings: &[TaskSnapshot]| host.views(standings, ViewDetail::Full);
        let (inherited_tasks, ended) = match self.team {
            Team::Alone => (views(&running), Vec::new()),
            Team::Lead(_) | Team::Teammate { .. } => {
                let mut ended = stop_tasks(&host, &running);
                // Stopping an idle teammate loses no work, so the report omits such a teammate.
                ended.retain(|task| !idle.contains(&task.dir.id()));
                (Vec::new(), views(&ended))
            }
        };
        let report = AgentReport {
            session_id: host.session.clone(),
            end,
            text: self.last_response_text(),
            labels: std::mem::take(&mut self.labels),
            usage: self.conversation.total_usage(),
            usage_of_subagents: subagent_usage(&host)?,
            inherited_tasks,
            ended,
        };
        session::close(&host.root, &host.session)?;
        Ok(report)
    }
}

impl Agent {
    /// Returns the text of the model's last message.
    pub(super) fn last_response_text(&self) -> String {
        let text = self.conversation.messages().iter().rev().find_map(|message| match message {
            Message::Assistant(content) => Some(joined_text(content)),
            Message::User { .. } => None,
        });
        text.unwrap_or_default()
    }
}

/// Stops tasks concurrently, and returns their states afterwards.
fn stop_tasks(host: &ToolContext, running: &[TaskSnapshot]) -> Vec<TaskSnapshot> {
    let ids: Vec<TaskId> = running.iter().map(|task| task.dir.id()).collect();
    thread::scope(|scope| {
        for id in &ids {
            scope.spawn(|| {
                let how = StopOptions { requested_by: "agent", grace: None, signal: None };
                // A task that could not be stopped here is stopped at the end of the session.
                let _best_effort = stop::stop(&host.root, SHIM_PROGRAM, *id, how);
            });
        }
    });
    ids.iter().filter_map(|id| host.snapshot(*id).ok()).collect()
}

/// Returns the recorded usage of all subagents and teammates below the session.
fn subagent_usage(host: &ToolContext) -> Result<Usage, AgentError> {
    let ToolContext { root, session, .. } = host;
    let family = session::session_tree(root, session)?;
    let others = family.iter().filter(|one| *one != session);
    let entries =
        others.filter_map(|one| Transcript::read_snapshot(root, one).ok()).flat_map(|seen| seen.1);
    let cost = entries.filter_map(|entry| match entry {
        Entry::Response { usage, .. } | Entry::Summary { usage, .. } => Some(usage),
        Entry::Input { .. }
        | Entry::RequestSent
        | Entry::RequestFailed { .. }
        | Entry::CallStarted { .. }
        | Entry::TaskBound { .. }
        | Entry::CallFinished { .. }
        | Entry::Interrupted => None,
    });
    Ok(cost.fold(Usage::default(), Usage::plus))
}
