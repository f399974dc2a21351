//! The tool `wait`, which waits for tasks or conditions.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::settings::{self, Environment};
use siding_core::task::view::ViewDetail;
use siding_core::task::wait::{MetCondition, WaitResult as Waited, Waiter};
use siding_model::advice;
use siding_model::duration::format_duration;
use siding_model::id::TaskId;
use siding_model::notice::{Coverage, MAX_SUMMARY_BYTES};
use siding_model::settings::{Key, RawValue};
use siding_model::size::size_in_words;
use siding_model::text::one_line;
use siding_model::wait::{
    Condition, Quantifier, SatisfiedCondition, WaitDetail, WaitVerdict, format_conditions,
};

use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::{self, ReadableFds, run_blocking};
use crate::call_context::CallContext;
use crate::context::{SHIM_PROGRAM, TaskSnapshot, ToolContext};
use crate::delivery::DeliveryAck;
use crate::structured::{self, RunDetails, TaskSummary, WaitDetails};
use crate::text::{self, LINE_COLUMNS, millis};

pub(super) const DESCRIPTION: &str = "\
Wait for tasks to end, or for other conditions. Answers as soon as they hold, immediately when a \
task has ended and they can no longer hold, and at the latest after `timeout`: the tasks then \
continue, and you can call it again. Do not poll; do not write sleep loops.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitArgs {
    /// Task ids, prefixes or names.
    ids: Vec<String>,
    /// Wait for one of the tasks instead of all.
    #[serde(default)]
    any: bool,
    /// Conditions: `exit` (default), `output:REGEX`, `port:N`, `http:URL`, `file:PATH`.
    #[serde(default, rename = "for")]
    conditions: Vec<String>,
    /// Maximum seconds to wait.
    #[serde(default)]
    timeout: Option<f64>,
}

pub(super) async fn call<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    args: WaitArgs,
) -> Result<ToolAnswer, ToolError> {
    let quantifier = if args.any { Quantifier::Any } else { Quantifier::All };
    let mut conditions = parse_conditions(&args.conditions)?;
    if conditions.is_empty() {
        conditions.push(Condition::Exit);
    }
    let (ids, wanted) = run_blocking(|| {
        Ok::<_, ToolError>((distinct_task_ids(context, &args.ids)?, wait_bound(&args)?))
    })?;
    if ids.is_empty() {
        return Err(ToolError::Arguments(format!(
            "`ids` is empty; {} lists the ids",
            context.dialect.format_tool("list")
        )));
    }
    wait_until(context, call, &ids, conditions, quantifier, call.limit_wait(wanted)).await
}

pub(super) fn parse_conditions(texts: &[String]) -> Result<Vec<Condition>, ToolError> {
    let read =
        |text: &String| text.parse().map_err(|error| ToolError::Arguments(format!("{error}")));
    texts.iter().map(read).collect()
}

/// Waits for conditions of tasks, and returns the answer with the result of the wait.
pub(super) async fn wait_until<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    ids: &[TaskId],
    conditions: Vec<Condition>,
    quantifier: Quantifier,
    bound: Duration,
) -> Result<ToolAnswer, ToolError> {
    let wanted: Vec<String> = conditions.iter().map(ToString::to_string).collect();
    let wanted = one_line(&wanted.join(", "), LINE_COLUMNS);
    // A wait for many tasks may reach RLIMIT_NOFILE. This limit is not raised, because commands
    // that this process starts would inherit the raised limit.
    let start =
        || Waiter::new(&context.root, SHIM_PROGRAM, ids, conditions, quantifier, millis(bound));
    let mut waiter = run_blocking(start)?;
    let mut cancelled = pin!(call.cancelled());
    let mut sent_to_background = pin!(call.sent_to_background());
    let waited = loop {
        if let Some(waited) = run_blocking(|| waiter.poll_once())? {
            break waited;
        }
        let sources = ReadableFds::new(&waiter.sources())
            .map_err(|source| ToolError::Io { doing: "wait", source })?;
        tokio::select! {
            ready = sources.readable() => {
                ready.map_err(|source| ToolError::Io { doing: "wait", source })?;
            }
            () = async_fd::sleep_until(waiter.wake_at()) => {}
            () = call.progress_due() => {
                let snapshot = match ids {
                    [id] => run_blocking(|| context.snapshot(*id)).ok(),
                    _ => None,
                };
                call.report_progress(context, snapshot.as_ref(), bound).await;
            }
            () = &mut sent_to_background => {
                return Ok(ToolAnswer::from_line(format!(
                    "no longer waiting for {wanted}, because the user wants you to do something \
                     else first; a task that ends later is reported"
                )));
            }
            _gone = &mut cancelled => return Err(ToolError::Cancelled),
        }
    };
    run_blocking(|| build_answer(context, ids, &waited, &wanted, bound))
}

/// Returns the answer for a task that was started with readiness conditions: whether it is ready
/// after the wait.
pub(super) fn ready_answer(
    context: &ToolContext,
    snapshot: TaskSnapshot,
    bound: Duration,
) -> Result<ToolAnswer, ToolError> {
    let state = &snapshot.state;
    let task_id = state.spec.task_id;
    let hit = |met: &SatisfiedCondition| MetCondition {
        task_id,
        condition: met.condition.clone(),
        detail: Some(met.detail.clone()),
    };
    let (verdict, hits, waited_ms) = match &state.ready {
        Some(ready) => (
            WaitVerdict::Satisfied,
            ready.by.iter().map(hit).collect(),
            ready.at.ms_since(state.started),
        ),
        None => (WaitVerdict::Timeout, Vec::new(), millis(bound)),
    };
    let wanted = one_line(&format_conditions(&state.spec.wait_for), LINE_COLUMNS);
    let waited = Waited { verdict, met: hits, waited_ms };
    let mut answer = build_answer(context, &[task_id], &waited, &wanted, bound)?;
    let view = context.view(&snapshot, ViewDetail::Brief);
    answer.lines.extend(text::passed_limits(&view, &snapshot));
    let task = Some(TaskSummary::from(&view));
    let details = RunDetails { task, task_id: None, duplicate_of: None, output_truncated: false };
    answer.details = structured::to_fields(&details);
    answer.delivery_acks.push(DeliveryAck::ResultReturned(Box::new(snapshot.state)));
    Ok(answer)
}

fn build_answer(
    context: &ToolContext,
    ids: &[TaskId],
    waited: &Waited,
    wanted: &str,
    bound: Duration,
) -> Result<ToolAnswer, ToolError> {
    let mut answer = ToolAnswer::default();
    let mut tasks = Vec::new();
    match waited.verdict {
        WaitVerdict::Satisfied => {}
        WaitVerdict::Ended => {
            answer.lines.push(format!("ended first; {wanted} can no longer happen"));
        }
        WaitVerdict::Timeout => answer.lines.push(format!(
            "not yet ({wanted}) after {}; it continues: call {} again, or do something else \
             meanwhile",
            format_duration(bound),
            context.dialect.format_tool("wait")
        )),
    }
    for hit in &waited.met {
        match &hit.detail {
            Some(detail) if !is_end(hit) => answer.lines.push(format_hit(hit, detail)),
            _ => tasks.push(add_ended_task(context, hit.task_id, ids.len() == 1, &mut answer)?),
        }
    }
    if waited.verdict == WaitVerdict::Timeout {
        for id in ids {
            let snapshot = context.snapshot(*id)?;
            if snapshot.state.is_live() {
                let view = context.view(&snapshot, ViewDetail::Brief);
                answer.lines.push(advice::format_task_line(&view, LINE_COLUMNS));
                tasks.push(TaskSummary::from(&view));
            }
        }
    }
    let details = WaitDetails { wait: waited.view(millis(bound)), tasks };
    answer.details = structured::to_fields(&details);
    Ok(answer)
}

/// Adds the outcome of an ended task to the answer. With `alone`, when the call waits for only one
/// task, also adds a summary of the output.
fn add_ended_task(
    context: &ToolContext,
    id: TaskId,
    alone: bool,
    answer: &mut ToolAnswer,
) -> Result<TaskSummary, ToolError> {
    let snapshot = context.snapshot(id)?;
    let view = context.view(&snapshot, ViewDetail::Brief);
    answer.lines.push(advice::format_task_line(&view, LINE_COLUMNS));
    answer.lines.extend(text::next_step_with_port(context, &snapshot, &view));
    if alone {
        let (dir, spec) = (&snapshot.dir, &snapshot.state.spec);
        answer.output = siding_core::output::task_summary(dir, spec, MAX_SUMMARY_BYTES).ok();
        answer.lines.push(format!(
            "{} shows all {} of output",
            context.dialect.format_tool("output"),
            size_in_words(view.output.bytes)
        ));
    }
    answer
        .delivery_acks
        .push(DeliveryAck::TaskReported(Box::new(snapshot.state), Coverage::Status));
    Ok(TaskSummary::from(&view))
}

/// Returns whether the met condition is the end of the task.
const fn is_end(hit: &MetCondition) -> bool {
    matches!(hit.detail, Some(WaitDetail::Outcome(_)) | None)
}

fn format_hit(hit: &MetCondition, detail: &WaitDetail) -> String {
    one_line(&format!("{}  {}  {detail}", hit.task_id, hit.condition), LINE_COLUMNS)
}

/// Returns the bound of the wait: the call's `timeout`, otherwise the setting `wait_bound`. A
/// locked setting bounds the call.
fn wait_bound(args: &WaitArgs) -> Result<Duration, ToolError> {
    let mut sources = Environment::from_process();
    if let Some(timeout) = args.timeout {
        let timeout = text::parse_seconds("timeout", timeout)?;
        if timeout.is_zero() {
            // A timeout of 0 checks the conditions once without waiting.
            return Ok(timeout);
        }
        let text = format!("{}ms", millis(timeout).max(1));
        sources = sources.with_call(Key::WaitBound, "timeout", RawValue::Text(text));
    }
    Ok(settings::load(&sources)?.wait_bound)
}

/// Returns the tasks without duplicates, in the given order.
fn distinct_task_ids(context: &ToolContext, texts: &[String]) -> Result<Vec<TaskId>, ToolError> {
    let mut known = HashSet::new();
    let ids = texts.iter().map(|text| context.find_task(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(ids.into_iter().filter(|id| known.insert(*id)).collect())
}
