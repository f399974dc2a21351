//! `stop`.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::stop::{self, StopOptions};
use siding_core::sys::clock;
use siding_core::view::ViewDetail;
use siding_model::advice;
use siding_model::id::TaskId;
use siding_model::notice::Coverage;
use tokio::task::JoinSet;

use crate::answer::{Answer, Refusal};
use crate::caller::Caller;
use crate::host::{Host, PROGRAM};
use crate::receipt::Receipt;
use crate::sleep::{self, block};
use crate::structured::{self, StopDetails, StopResult, TaskSummary};
use crate::text::{self, LINE, millis};

pub(super) const ABOUT: &str = "\
End tasks with everything they started: asks, then kills what is left after `grace`, and answers \
when it is proven that nothing is left.";

/// How long a stop is said to take at most when no grace is given: the default of `kill_grace`.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Task ids, or their beginnings.
    ids: Vec<String>,
    /// Seconds between asking and killing (default 10); 0 kills at once.
    #[serde(default)]
    grace: Option<f64>,
}

pub(super) async fn call<C: Caller>(
    host: &Arc<Host>,
    call: &mut C,
    args: Args,
) -> Result<Answer, Refusal> {
    let grace = args.grace.map(|grace| text::seconds("grace", grace)).transpose()?;
    if args.ids.is_empty() {
        return Err(Refusal::Arguments(format!(
            "`ids` is empty; {} shows the ids",
            host.dialect.format_tool("list")
        )));
    }
    let mut named = HashSet::new();
    let mut found: Vec<_> = block(|| args.ids.iter().map(|text| (text, host.find(text))).collect());
    found.retain(|(_, found)| found.as_ref().map_or(true, |id| named.insert(*id)));
    let ids: Vec<TaskId> =
        found.iter().filter_map(|(_, found)| found.as_ref().ok().copied()).collect();
    let outcomes = all(host, call, &ids, grace).await?;
    let mut answer = Answer::default();
    let mut details = StopDetails::default();
    for (asked, found) in found {
        let asked = asked.clone();
        let mut result = StopResult { asked, task: None, stop_report: None, error: None };
        let told = found.and_then(|id| match outcomes.get(&id) {
            Some(Ok(())) => block(|| tell(host, id, &mut answer, &mut result)),
            Some(Err(line)) => {
                answer.said.push(format!("{id}: {line}"));
                answer.is_error = true;
                result.error = Some(line.clone());
                Ok(())
            }
            None => {
                answer.said.push(format!(
                    "{id} is being ended; {} waits for that",
                    host.dialect.format_tool("wait")
                ));
                Ok(())
            }
        });
        if let Err(refusal) = told {
            let line = refusal.line(host.dialect);
            answer.said.push(line.clone());
            answer.is_error = true;
            result.error = Some(line);
        }
        details.results.push(result);
    }
    answer.details = structured::details(&details);
    Ok(answer)
}

/// Ends tasks, and returns what came of it as far as the client can wait for that.
async fn all<C: Caller>(
    host: &Arc<Host>,
    call: &mut C,
    ids: &[TaskId],
    grace: Option<Duration>,
) -> Result<HashMap<TaskId, Result<(), String>>, Refusal> {
    let how = StopOptions { requested_by: call.name(), grace, signal: None };
    // All are asked at once: a hundred stops take as long as the slowest.
    let mut stops = JoinSet::new();
    for id in ids.iter().copied() {
        let host = Arc::clone(host);
        stops.spawn_blocking(move || {
            let result = stop::stop(&host.root, PROGRAM, id, how);
            (id, result.map_err(|error| Refusal::from(error).line(host.dialect)))
        });
    }
    let until = clock::monotonic_now().plus_ms(millis(call.bearable(Duration::MAX)));
    let mut cancelled = pin!(call.cancelled());
    let mut results = HashMap::new();
    while !stops.is_empty() {
        tokio::select! {
            Some(done) = stops.join_next() => {
                let done = done.map_err(tokio::task::JoinError::into_panic);
                let (id, result) = done.unwrap_or_else(|panic| resume_unwind(panic));
                results.insert(id, result);
            }
            () = sleep::until(until) => break,
            () = call.due() => {
                let standing = match ids {
                    [id] => block(|| host.state(*id)).ok(),
                    _ => None,
                };
                call.tell(host, standing.as_ref(), grace.unwrap_or(GRACE)).await;
            }
            _gone = &mut cancelled => {
                // What was asked for is done, whether or not somebody hears of it.
                stops.detach_all();
                return Err(Refusal::Cancelled);
            }
        }
    }
    stops.detach_all();
    Ok(results)
}

/// Says how a task ended.
fn tell(
    host: &Host,
    id: TaskId,
    answer: &mut Answer,
    result: &mut StopResult,
) -> Result<(), Refusal> {
    let standing = host.state(id)?;
    let view = host.view(&standing, ViewDetail::Brief);
    answer.said.push(advice::format_task_line(&view, LINE));
    answer.said.extend(view.stop_report.as_ref().and_then(text::survivors));
    result.task = Some(TaskSummary::from(&view));
    result.stop_report = view.stop_report;
    answer.receipts.push(Receipt::Told(Box::new(standing.state), Coverage::Status));
    Ok(())
}
