//! How an agent ends, and what is said of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::session;
use siding_core::stop::{self, StopOptions};
use siding_core::view::ViewDetail;
use siding_model::id::{SessionId, TaskId};
use siding_model::task_view::TaskView;
use siding_tools::{SHIM_PROGRAM, TaskSnapshot, ToolContext};

use super::teammates::Team;
use super::{Agent, AgentError, Label, tasks};
use crate::conversation::Entry;
use crate::message::{Message, Usage, joined_text};
use crate::transcript::Transcript;

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndReason {
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
    /// The person at the terminal has left.
    Left,
    /// A signal has ended it, or its terminal has gone.
    Signaled {
        /// The signal.
        signal: String,
    },
}

/// What came of one prompt.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AgentReport {
    /// The conversation, for who wants to go on with it.
    pub session_id: SessionId,
    /// How it ended.
    pub end: EndReason,
    /// What the model said last.
    pub text: String,
    /// What was done, in few words: a label for each batch of calls, where a small model wrote one in
    /// time.
    pub labels: Vec<Label>,
    /// What all its answers have cost.
    pub usage: Usage,
    /// What the answers of its subagents, and of theirs, have cost.
    pub usage_of_subagents: Usage,
    /// The tasks of a subagent that ran when it ended, and go on as those of whoever started it.
    pub handed_up: Vec<TaskView>,
    /// The tasks that ran when it ended, as they stand after they were ended for it.
    pub ended: Vec<TaskView>,
}

impl Agent {
    /// Ends what still runs, or hands it up, and says how it all ended.
    pub(super) fn finish(mut self, end: EndReason) -> Result<AgentReport, AgentError> {
        let host = Arc::clone(&self.host);
        // Nobody waits for it to read something any more.
        drop(std::mem::replace(&mut self.events, channel().1));
        let idle = match &self.team {
            Team::Lead(mates) => mates.shut_down_all(),
            Team::Alone | Team::Teammate { .. } => HashSet::new(),
        };
        let running = tasks::list_running(&host)?;
        let views = |standings: &[TaskSnapshot]| host.views(standings, ViewDetail::Full);
        let (handed_up, ended) = match self.team {
            Team::Alone => (views(&running), Vec::new()),
            Team::Lead(_) | Team::Teammate { .. } => {
                let mut ended = stop_tasks(&host, &running);
                // With a teammate that had nothing to do no work is lost.
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
            handed_up,
            ended,
        };
        session::close(&host.root, &host.session)?;
        Ok(report)
    }
}

impl Agent {
    /// Returns what the model said last.
    pub(super) fn last_response_text(&self) -> String {
        let said = self.conversation.messages().iter().rev().find_map(|message| match message {
            Message::Assistant(said) => Some(joined_text(said)),
            Message::User { .. } => None,
        });
        said.unwrap_or_default()
    }
}

/// Ends tasks, and returns how they stand then.
fn stop_tasks(host: &ToolContext, running: &[TaskSnapshot]) -> Vec<TaskSnapshot> {
    let ids: Vec<TaskId> = running.iter().map(|task| task.dir.id()).collect();
    thread::scope(|scope| {
        for id in &ids {
            scope.spawn(|| {
                let how = StopOptions { requested_by: "agent", grace: None, signal: None };
                // What could not be ended ends with the session, and its record says so.
                let _best_effort = stop::stop(&host.root, SHIM_PROGRAM, *id, how);
            });
        }
    });
    ids.iter().filter_map(|id| host.snapshot(*id).ok()).collect()
}

/// Returns what the subagents under a session have cost, as far as they are on record.
fn subagent_usage(host: &ToolContext) -> Result<Usage, AgentError> {
    let ToolContext { root, session, .. } = host;
    let family = session::session_tree(root, session)?;
    let others = family.iter().filter(|one| *one != session);
    let entries =
        others.filter_map(|one| Transcript::read_snapshot(root, one).ok()).flat_map(|seen| seen.1);
    let cost = entries.filter_map(|entry| match entry {
        Entry::Answered { usage, .. } | Entry::Summarised { usage, .. } => Some(usage),
        Entry::Told { .. }
        | Entry::Asked
        | Entry::Failed { .. }
        | Entry::Started { .. }
        | Entry::Bound { .. }
        | Entry::Done { .. }
        | Entry::Interrupted => None,
    });
    Ok(cost.fold(Usage::default(), Usage::plus))
}
