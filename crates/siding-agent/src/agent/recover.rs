//! What came of a call that a process has begun which has ended since.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use siding_core::store::{StoreError, TaskDir};
use siding_model::id::TaskId;
use siding_tools::{DeliveryAck, ToolAnswer as Answered, ToolContext, ToolError, text};
use tokio::runtime::Runtime;

use super::calls::{Calls, taken};
use super::came::Came;
use super::foreground::{Foreground, Wishes};
use super::{remote, spawn, team};
use crate::message::{ToolCall, ToolResult};

/// Bytes of what it wrote meanwhile that stand in the result.
const OUTPUT: usize = 8 << 10;

impl Calls {
    /// Finds out what came of a call, or runs it, where that is no second time.
    pub(super) fn recover(
        self: &Arc<Self>,
        runtime: &Runtime,
        host: &Arc<ToolContext>,
        call: ToolCall,
        task: Option<TaskId>,
        sender: &Sender<Came>,
    ) -> Wishes {
        let found = match (call.name.as_str(), task) {
            ("bash" | spawn::TOOL | team::SPAWN | remote::NAME, Some(task)) => {
                found(host, &call, task)
            }
            // Its task is on record before there is anything of it.
            ("bash" | spawn::TOOL | team::SPAWN, None) => None,
            // Whoever looks again, or ends what has ended, does no harm.
            (name, _) if name == "task_stop" || self.reading().contains(name) => None,
            (name, _) => Some(unknown(&call, &format!("`{name}` ran"))),
        };
        let Some((result, receipts)) = found else {
            return self.start(runtime, host, call, sender);
        };
        let _nobody = sender.send(Came::Done(result, receipts));
        Foreground::new(call.id, sender.clone()).1
    }
}

/// Returns the result of a command that was about to be run as a task; `None` when it never began.
fn found(
    host: &ToolContext,
    call: &ToolCall,
    task: TaskId,
) -> Option<(ToolResult, Vec<DeliveryAck>)> {
    let is_taken_back = match host.root.task_dir(task) {
        // It never came to that, or it is long over and was removed.
        Err(StoreError::NoSuchTask { .. }) => {
            let when =
                format!("a {} was about to run as {task}, which is on no record", what(call));
            return Some(unknown(call, &when));
        }
        Ok(dir) => take_back(host, dir),
        Err(_) => false,
    };
    (!is_taken_back).then(|| taken(call.id.clone(), host, stands(host, call, task)))
}

/// Takes back a task of which nothing is on record, and says whether nobody can begin it any more.
fn take_back(host: &ToolContext, dir: TaskDir) -> bool {
    if !dir.is_unrecorded() {
        return false;
    }
    // Whoever could still begin it has its lock, and may have done so by now.
    let Ok(Some(locked)) = dir.try_lock() else { return false };
    if !locked.dir().is_unrecorded() {
        return false;
    }
    let _left_for_the_reaper = host.root.remove_task(&locked);
    true
}

/// Returns how a task stands whose caller has gone.
fn stands(host: &ToolContext, call: &ToolCall, task: TaskId) -> Result<Answered, ToolError> {
    let standing = host.snapshot(task)?;
    let mut answer = text::answer_with_output(host, &standing, OUTPUT)?;
    let what = what(call);
    answer
        .lines
        .insert(0, format!("this agent was ended while the {what} ran, and has begun again"));
    answer.delivery_acks.push(DeliveryAck::ResultReturned(Box::new(standing.state)));
    Ok(answer)
}

/// Returns what a call runs as a task.
fn what(call: &ToolCall) -> &'static str {
    match call.name.as_str() {
        spawn::TOOL => "subagent",
        team::SPAWN => "teammate",
        remote::NAME => "remote agent",
        _ => "command",
    }
}

/// Returns the result of a call of which nobody knows.
fn unknown(call: &ToolCall, when: &str) -> (ToolResult, Vec<DeliveryAck>) {
    let text = format!(
        "this agent was ended while {when}; nobody knows whether it was done: look before you call it \
         again"
    );
    (ToolResult { call: call.id.clone(), text, is_error: true }, Vec::new())
}
