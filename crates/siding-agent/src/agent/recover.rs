//! Recovery of calls that were running when the agent's process was killed.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use siding_core::store::{StoreError, TaskDir};
use siding_model::id::TaskId;
use siding_tools::{DeliveryAck, ToolAnswer as Answered, ToolContext, ToolError, text};
use tokio::runtime::Runtime;

use super::call_control::{AgentCallContext, CallControl};
use super::event::AgentEvent;
use super::tool_dispatch::{ToolDispatcher, into_tool_result};
use super::{monitor_mcp, remote_agent, subagent, teammate_tools};
use crate::message::{ToolCall, ToolResult};

/// Maximum bytes of a task's output that the result of a recovered call quotes.
const MAX_OUTPUT_BYTES: usize = 8 << 10;

impl ToolDispatcher {
    /// Determines the result of an interrupted call, or runs the call again if a second run cannot
    /// repeat an effect.
    pub(super) fn recover(
        self: &Arc<Self>,
        runtime: &Runtime,
        host: &Arc<ToolContext>,
        call: ToolCall,
        task: Option<TaskId>,
        sender: &Sender<AgentEvent>,
    ) -> CallControl {
        let recovered = match (call.name.as_str(), task) {
            (
                "bash"
                | subagent::TOOL_NAME
                | teammate_tools::SPAWN_TEAMMATE
                | monitor_mcp::TOOL_NAME
                | remote_agent::TOOL_NAME,
                Some(task),
            ) => recover_task_call(host, &call, task),
            // These tools record the task's id before they create the task. No id is recorded, so
            // there is no task, and the call can run again.
            (
                "bash"
                | subagent::TOOL_NAME
                | teammate_tools::SPAWN_TEAMMATE
                | monitor_mcp::TOOL_NAME
                | remote_agent::TOOL_NAME,
                None,
            ) => None,
            // A read or a stop can be repeated without a further effect, so the call runs again.
            (name, _) if name == "task_stop" || self.read_only_tools().contains(name) => None,
            (name, _) => Some(unknown_outcome(&call, &format!("`{name}` ran"))),
        };
        let Some((result, receipts)) = recovered else {
            return self.start_call(runtime, host, call, sender);
        };
        let _receiver_dropped = sender.send(AgentEvent::CallFinished(result, receipts));
        AgentCallContext::new(call.id, sender.clone()).1
    }
}

/// Returns the result of a call that was about to run as a task; `None` when the task never started
/// and the call can run again.
fn recover_task_call(
    host: &ToolContext,
    call: &ToolCall,
    task: TaskId,
) -> Option<(ToolResult, Vec<DeliveryAck>)> {
    let is_taken_back = match host.root.task_dir(task) {
        // The task was never created, or it ended long ago and was removed, so the call's effect is
        // unknown.
        Err(StoreError::NoSuchTask { .. }) => {
            let when =
                format!("a {} was about to run as {task}, which has no record", call_noun(call));
            return Some(unknown_outcome(call, &when));
        }
        Ok(dir) => discard_unstarted_task(host, dir),
        Err(_) => false,
    };
    (!is_taken_back)
        .then(|| into_tool_result(call.id.clone(), host, recovered_answer(host, call, task)))
}

/// Removes a task without journal records. Returns false, and removes nothing, if the task has a
/// record or another process may still start it.
fn discard_unstarted_task(host: &ToolContext, dir: TaskDir) -> bool {
    if !dir.is_unrecorded() {
        return false;
    }
    // A client that could still start the task holds the task's lock. Such a client may have
    // started the task just before this process acquired the lock, hence the second check.
    let Ok(Some(locked)) = dir.try_lock() else { return false };
    if !locked.dir().is_unrecorded() {
        return false;
    }
    let _best_effort = host.root.remove_task(&locked);
    true
}

/// Returns the state and the output of a task whose caller was killed.
fn recovered_answer(
    host: &ToolContext,
    call: &ToolCall,
    task: TaskId,
) -> Result<Answered, ToolError> {
    let standing = host.snapshot(task)?;
    let mut answer = text::answer_with_output(host, &standing, MAX_OUTPUT_BYTES)?;
    let what = call_noun(call);
    answer
        .lines
        .insert(0, format!("this agent was killed while the {what} ran, and has been restarted"));
    answer.delivery_acks.push(DeliveryAck::ResultReturned(Box::new(standing.state)));
    Ok(answer)
}

/// Returns the noun for the kind of task that a call runs.
fn call_noun(call: &ToolCall) -> &'static str {
    match call.name.as_str() {
        subagent::TOOL_NAME => "subagent",
        teammate_tools::SPAWN_TEAMMATE => "teammate",
        monitor_mcp::TOOL_NAME => "monitor",
        remote_agent::TOOL_NAME => "remote agent",
        _ => "command",
    }
}

/// Returns the result of a call whose effect is unknown.
fn unknown_outcome(call: &ToolCall, when: &str) -> (ToolResult, Vec<DeliveryAck>) {
    let text = format!(
        "this agent was killed while {when}; whether it was done is unknown: check before you call \
         it again"
    );
    (ToolResult { call: call.id.clone(), text, is_error: true }, Vec::new())
}
