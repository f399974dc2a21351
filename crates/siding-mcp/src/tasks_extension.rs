//! The Tasks extension of MCP (SEP-2663), mapped to siding's own tasks.
//!
//! This module has no state: a task of the extension is a task of siding with the same id, and
//! outlives this server. Only tasks of this server's session are visible.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{DetailedTask, JsonObject, Task, TaskPayload, TaskStatus};
use siding_core::sys::clock;
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::view::ViewDetail;
use siding_model::advice;
use siding_model::id::TaskId;
use siding_model::lifecycle::Phase;
use siding_model::notice::Coverage;
use siding_model::outcome::Outcome;
use siding_tools::async_fd::run_blocking;
use siding_tools::text::{self, LINE_COLUMNS};
use siding_tools::{DeliveryAck, SHIM_PROGRAM, TaskSnapshot, ToolContext};

use crate::tool_result::tool_result;

/// The polling interval suggested to clients, in milliseconds.
const POLL_INTERVAL_MS: u64 = 2_000;
/// Maximum bytes of output in a result.
const MAX_OUTPUT_BYTES: usize = 32 << 10;

/// Returns the state of a task that has just moved to the background; `None` if the task cannot be
/// read.
pub(crate) fn created_task(tool_context: &ToolContext, id: TaskId) -> Option<Task> {
    run_blocking(|| tool_context.snapshot(id))
        .ok()
        .map(|snapshot| to_mcp_task(tool_context, &snapshot, TaskStatus::Working))
}

/// Finds a task of this session by its complete id.
pub(crate) fn find_task(tool_context: &ToolContext, id: &str) -> Result<TaskSnapshot, ErrorData> {
    let unknown = || ErrorData::invalid_params(format!("there is no task `{id}`"), None);
    let id: TaskId = id.parse().map_err(|_| unknown())?;
    let snapshot = run_blocking(|| tool_context.snapshot(id)).map_err(|_| unknown())?;
    if snapshot.state.spec.session_id != tool_context.session {
        return Err(unknown());
    }
    Ok(snapshot)
}

/// Returns the state of a task, with its result once the command has ended without being stopped.
/// If the state is final, also returns the acknowledgement of the task's notices.
pub(crate) fn get_task(
    tool_context: &ToolContext,
    id: &str,
) -> Result<(DetailedTask, Vec<DeliveryAck>), ErrorData> {
    let snapshot = find_task(tool_context, id)?;
    let (payload, coverage) = match snapshot.state.lifecycle.phase() {
        Phase::Ended { outcome: Outcome::Stopped { .. }, .. } => {
            (TaskPayload::Cancelled, Some(Coverage::Status))
        }
        Phase::Ended { .. } | Phase::Lingering { .. } => {
            let result = task_result(tool_context, &snapshot)?;
            (TaskPayload::Completed { result }, Some(Coverage::FullResult))
        }
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => (TaskPayload::Working, None),
    };
    let task = to_mcp_task(tool_context, &snapshot, payload.status());
    let ack =
        coverage.map(|coverage| DeliveryAck::TaskReported(Box::new(snapshot.state), coverage));
    Ok((DetailedTask::new(task, payload), ack.into_iter().collect()))
}

/// Stops a task without waiting for its end.
pub(crate) fn cancel_task(tool_context: &Arc<ToolContext>, id: &str) -> Result<(), ErrorData> {
    let id = find_task(tool_context, id)?.dir.id();
    let tool_context = Arc::clone(tool_context);
    tokio::task::spawn_blocking(move || {
        let options = StopOptions { requested_by: "client", grace: None, signal: None };
        // The client polls the task and sees the result there.
        let _best_effort = stop::stop(&tool_context.root, SHIM_PROGRAM, id, options);
    });
    Ok(())
}

fn to_mcp_task(tool_context: &ToolContext, snapshot: &TaskSnapshot, status: TaskStatus) -> Task {
    let view = run_blocking(|| tool_context.view(snapshot, ViewDetail::Brief));
    let now = clock::unix_now().rfc3339();
    let updated = view.ended_at.clone().unwrap_or(now);
    // No time to live is set: the task is kept as long as siding's retention keeps it.
    Task::new(view.task_id.to_string(), status, view.started_at.clone(), updated)
        .with_status_message(advice::format_task_line(&view, LINE_COLUMNS))
        .with_poll_interval_ms(POLL_INTERVAL_MS)
}

fn task_result(
    tool_context: &ToolContext,
    snapshot: &TaskSnapshot,
) -> Result<JsonObject, ErrorData> {
    let internal_error =
        |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
    let answer =
        run_blocking(|| text::answer_with_output(tool_context, snapshot, MAX_OUTPUT_BYTES));
    let result = tool_result(answer.map_err(|refusal| internal_error(&refusal))?);
    let value = serde_json::to_value(result).map_err(|error| internal_error(&error))?;
    let serde_json::Value::Object(object) = value else {
        return Err(internal_error(&"the result is not a JSON object"));
    };
    Ok(object)
}
