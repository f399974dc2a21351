//! The tool `stop`, which stops tasks.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::sys::clock;
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::view::ViewDetail;
use siding_core::task::watch::WatchError;
use siding_model::advice;
use siding_model::id::TaskId;
use siding_model::notice::Coverage;
use tokio::task::JoinSet;

use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::{self, run_blocking};
use crate::call_context::CallContext;
use crate::context::{SHIM_PROGRAM, ToolContext};
use crate::delivery::DeliveryAck;
use crate::structured::{self, StopDetails, StopResult, TaskSummary};
use crate::text::{self, LINE_COLUMNS, millis};

pub(super) const DESCRIPTION: &str = "\
Stop tasks with all their processes: asks them to end, kills those that remain after `grace`, and \
answers when it is proven that none is left.";

/// Maximum duration that progress reports state for a stop without `grace`: the default of the
/// setting `kill_grace`.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StopArgs {
    /// Task ids, prefixes or names.
    ids: Vec<String>,
    /// Seconds from SIGTERM to SIGKILL (default 10); 0 kills immediately.
    #[serde(default)]
    grace: Option<f64>,
}

pub(super) async fn call<C: CallContext>(
    context: &Arc<ToolContext>,
    call: &mut C,
    args: StopArgs,
) -> Result<ToolAnswer, ToolError> {
    let grace = args.grace.map(|grace| text::parse_seconds("grace", grace)).transpose()?;
    if args.ids.is_empty() {
        return Err(ToolError::Arguments(format!(
            "`ids` is empty; {} lists the ids",
            context.dialect.format_tool("list")
        )));
    }
    let mut seen_ids = HashSet::new();
    let mut found: Vec<_> =
        run_blocking(|| args.ids.iter().map(|text| (text, context.find_task(text))).collect());
    found.retain(|(_, found)| found.as_ref().map_or(true, |id| seen_ids.insert(*id)));
    let ids: Vec<TaskId> =
        found.iter().filter_map(|(_, found)| found.as_ref().ok().copied()).collect();
    let outcomes = stop_all(context, call, &ids, grace).await?;
    let mut answer = ToolAnswer::default();
    let mut details = StopDetails::default();
    for (requested_id, found) in found {
        let requested_id = requested_id.clone();
        let mut result = StopResult { requested_id, task: None, stop_report: None, error: None };
        let added = found.and_then(|id| match outcomes.get(&id) {
            Some(Ok(None)) => run_blocking(|| add_result(context, id, &mut answer, &mut result)),
            Some(Ok(Some(pending))) => {
                answer.lines.push(pending.clone());
                Ok(())
            }
            Some(Err(line)) => {
                answer.lines.push(format!("{id}: {line}"));
                answer.is_error = true;
                result.error = Some(line.clone());
                Ok(())
            }
            None => {
                answer.lines.push(format!(
                    "{id} is being stopped; {} waits for that",
                    context.dialect.format_tool("wait")
                ));
                Ok(())
            }
        });
        if let Err(refusal) = added {
            let line = refusal.format_line(context.dialect);
            answer.lines.push(line.clone());
            answer.is_error = true;
            result.error = Some(line);
        }
        details.results.push(result);
    }
    answer.details = structured::to_fields(&details);
    Ok(answer)
}

/// Stops tasks, and returns the results that arrive while the caller can wait. The result for a
/// stop that is recorded but still pending is a message that says so.
async fn stop_all<C: CallContext>(
    context: &Arc<ToolContext>,
    call: &mut C,
    ids: &[TaskId],
    grace: Option<Duration>,
) -> Result<HashMap<TaskId, Result<Option<String>, String>>, ToolError> {
    let options = StopOptions { requested_by: call.name(), grace, signal: None };
    // The stops run concurrently, so that a hundred stops take only as long as the slowest stop.
    let mut stops = JoinSet::new();
    for id in ids.iter().copied() {
        let context = Arc::clone(context);
        stops.spawn_blocking(move || {
            let result = match stop::stop(&context.root, SHIM_PROGRAM, id, options) {
                Ok(()) => Ok(None),
                Err(error) => {
                    let is_pending = matches!(error, WatchError::StopPending { .. });
                    let line = ToolError::from(error).format_line(context.dialect);
                    if is_pending { Ok(Some(line)) } else { Err(line) }
                }
            };
            (id, result)
        });
    }
    let until = clock::monotonic_now().plus_ms(millis(call.limit_wait(Duration::MAX)));
    let mut cancelled = pin!(call.cancelled());
    let mut results = HashMap::new();
    while !stops.is_empty() {
        tokio::select! {
            Some(done) = stops.join_next() => {
                let done = done.map_err(tokio::task::JoinError::into_panic);
                let (id, result) = done.unwrap_or_else(|panic| resume_unwind(panic));
                results.insert(id, result);
            }
            () = async_fd::sleep_until(until) => break,
            () = call.progress_due() => {
                let snapshot = match ids {
                    [id] => run_blocking(|| context.snapshot(*id)).ok(),
                    _ => None,
                };
                call.report_progress(context, snapshot.as_ref(), grace.unwrap_or(DEFAULT_GRACE)).await;
            }
            _gone = &mut cancelled => {
                // The stops continue, and their results are discarded.
                stops.detach_all();
                return Err(ToolError::Cancelled);
            }
        }
    }
    stops.detach_all();
    Ok(results)
}

/// Adds the outcome of a stopped task to the answer.
fn add_result(
    context: &ToolContext,
    id: TaskId,
    answer: &mut ToolAnswer,
    result: &mut StopResult,
) -> Result<(), ToolError> {
    let snapshot = context.snapshot(id)?;
    let view = context.view(&snapshot, ViewDetail::Brief);
    answer.lines.push(advice::format_task_line(&view, LINE_COLUMNS));
    answer.lines.extend(view.stop_report.as_ref().and_then(text::format_survivors));
    result.task = Some(TaskSummary::from(&view));
    result.stop_report = view.stop_report;
    answer
        .delivery_acks
        .push(DeliveryAck::TaskReported(Box::new(snapshot.state), Coverage::Status));
    Ok(())
}
