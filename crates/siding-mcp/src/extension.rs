//! The Tasks extension of MCP (SEP-2663) on siding's own tasks.
//!
//! Nothing is held here: a task of the extension is a task of siding, with its id, so that it is
//! still known after this server has gone. Only the tasks of this server's session are told of.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{DetailedTask, JsonObject, Task, TaskPayload, TaskStatus};
use siding_core::stop::{self, StopOptions};
use siding_core::sys::clock;
use siding_core::view::ViewDetail;
use siding_model::advice;
use siding_model::id::TaskId;
use siding_model::lifecycle::Phase;
use siding_model::notice::Coverage;
use siding_model::outcome::Outcome;
use siding_tools::sleep::block;
use siding_tools::text::{self, LINE};
use siding_tools::{Host, PROGRAM, Receipt, Standing};

use crate::handler::answered;

/// How often a client is to ask, in milliseconds.
const POLL_MS: u64 = 2_000;
/// Bytes of output in a result.
const OUTPUT_MAX: usize = 32 << 10;

/// Returns a task that has just gone to the background.
pub(crate) fn created(host: &Host, id: TaskId) -> Option<Task> {
    block(|| host.state(id)).ok().map(|standing| task(host, &standing, TaskStatus::Working))
}

/// Finds a task by its whole id.
pub(crate) fn find(host: &Host, id: &str) -> Result<Standing, ErrorData> {
    let unknown = || ErrorData::invalid_params(format!("there is no task `{id}`"), None);
    let id: TaskId = id.parse().map_err(|_| unknown())?;
    let standing = block(|| host.state(id)).map_err(|_| unknown())?;
    if standing.state.spec.session_id != host.session {
        return Err(unknown());
    }
    Ok(standing)
}

/// Returns how a task stands, with its result once its command is over, and what that shows.
pub(crate) fn get(host: &Host, id: &str) -> Result<(DetailedTask, Vec<Receipt>), ErrorData> {
    let standing = find(host, id)?;
    let payload = match standing.state.lifecycle.phase() {
        Phase::Ended { outcome: Outcome::Stopped { .. }, .. } => TaskPayload::Cancelled,
        Phase::Ended { .. } | Phase::Lingering { .. } => {
            TaskPayload::Completed { result: result(host, &standing)? }
        }
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => TaskPayload::Working,
    };
    let task = task(host, &standing, payload.status());
    let shows_end = payload.status().is_terminal();
    let receipt = shows_end.then(|| Receipt::Told(Box::new(standing.state), Coverage::FullResult));
    Ok((DetailedTask::new(task, payload), receipt.into_iter().collect()))
}

/// Ends a task, in the background.
pub(crate) fn cancel(host: &Arc<Host>, id: &str) -> Result<(), ErrorData> {
    let id = find(host, id)?.dir.id();
    let host = Arc::clone(host);
    tokio::task::spawn_blocking(move || {
        let how = StopOptions { requested_by: "client", grace: None, signal: None };
        // Who asks how it stands sees what came of it.
        let _seen_by_the_next_look = stop::stop(&host.root, PROGRAM, id, how);
    });
    Ok(())
}

fn task(host: &Host, standing: &Standing, status: TaskStatus) -> Task {
    let view = block(|| host.view(standing, ViewDetail::Brief));
    let now = clock::unix_now().rfc3339();
    let updated = view.ended_at.clone().unwrap_or(now);
    // No end of its life is named: it is kept as long as siding keeps tasks.
    Task::new(view.task_id.to_string(), status, view.started_at.clone(), updated)
        .with_status_message(advice::format_task_line(&view, LINE))
        .with_poll_interval_ms(POLL_MS)
}

fn result(host: &Host, standing: &Standing) -> Result<JsonObject, ErrorData> {
    let broken = |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
    let answer = block(|| text::with_output(host, standing, OUTPUT_MAX));
    let result = answered(answer.map_err(|refusal| broken(&refusal))?);
    let value = serde_json::to_value(result).map_err(|error| broken(&error))?;
    let serde_json::Value::Object(object) = value else {
        return Err(broken(&"a result is no object"));
    };
    Ok(object)
}
