//! `wait`.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::settings::{self, Environment};
use siding_core::view::ViewDetail;
use siding_core::wait::{MetCondition, WaitResult as Waited, Waiter};
use siding_model::advice;
use siding_model::duration::format_duration;
use siding_model::id::TaskId;
use siding_model::notice::{Coverage, MAX_SUMMARY_BYTES};
use siding_model::settings::{Key, RawValue};
use siding_model::task_view::WaitDetail;
use siding_model::text::one_line;
use siding_model::wait::{
    Condition, Quantifier, SatisfiedCondition, WaitVerdict, format_conditions,
};

use crate::answer::{Answer, Refusal};
use crate::caller::Caller;
use crate::host::{Host, PROGRAM, Standing};
use crate::receipt::Receipt;
use crate::sleep::{self, Sources, block};
use crate::structured::{self, RunDetails, TaskSummary, WaitDetails};
use crate::text::{self, LINE, millis};

pub(super) const ABOUT: &str = "\
Wait for tasks to end, or for what they do. Answers the moment it is so, at once when a task has \
ended so that it can no longer come, and at the latest after `timeout`: the tasks go on then, and \
you can call it again. Do not poll; do not write sleep loops.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Task ids, or their beginnings.
    ids: Vec<String>,
    /// Until one of them has, instead of all.
    #[serde(default)]
    any: bool,
    /// What to wait for: `exit` (default), `output:REGEX`, `port:N`, `http:URL`, `file:PATH`.
    #[serde(default, rename = "for")]
    conditions: Vec<String>,
    /// Seconds to wait at most.
    #[serde(default)]
    timeout: Option<f64>,
}

pub(super) async fn call<C: Caller>(
    host: &Host,
    call: &mut C,
    args: Args,
) -> Result<Answer, Refusal> {
    let quantifier = if args.any { Quantifier::Any } else { Quantifier::All };
    let mut conditions = conditions(&args.conditions)?;
    if conditions.is_empty() {
        conditions.push(Condition::Exit);
    }
    let (ids, wanted) = block(|| Ok::<_, Refusal>((distinct(host, &args.ids)?, bound(&args)?)))?;
    if ids.is_empty() {
        return Err(Refusal::Arguments(format!(
            "`ids` is empty; {} shows the ids",
            host.dialect.format_tool("list")
        )));
    }
    until(host, call, &ids, conditions, quantifier, call.bearable(wanted)).await
}

/// Reads conditions.
pub(super) fn conditions(texts: &[String]) -> Result<Vec<Condition>, Refusal> {
    let read = |text: &String| text.parse().map_err(|error| Refusal::Arguments(format!("{error}")));
    texts.iter().map(read).collect()
}

/// Waits, and says what came of it.
pub(super) async fn until<C: Caller>(
    host: &Host,
    call: &mut C,
    ids: &[TaskId],
    conditions: Vec<Condition>,
    quantifier: Quantifier,
    bound: Duration,
) -> Result<Answer, Refusal> {
    let wanted: Vec<String> = conditions.iter().map(ToString::to_string).collect();
    let wanted = one_line(&wanted.join(", "), LINE);
    // The limit of open descriptors stays as it is: what is run from here inherits it.
    let begin = || Waiter::new(&host.root, PROGRAM, ids, conditions, quantifier, millis(bound));
    let mut waiter = block(begin)?;
    let mut cancelled = pin!(call.cancelled());
    let mut sent_away = pin!(call.sent_away());
    let waited = loop {
        if let Some(waited) = block(|| waiter.poll_once())? {
            break waited;
        }
        let sources = Sources::new(&waiter.sources())
            .map_err(|source| Refusal::Io { doing: "wait", source })?;
        tokio::select! {
            ready = sources.readable() => {
                ready.map_err(|source| Refusal::Io { doing: "wait", source })?;
            }
            () = sleep::until(waiter.wake_at()) => {}
            () = call.due() => {
                let standing = match ids {
                    [id] => block(|| host.state(*id)).ok(),
                    _ => None,
                };
                call.tell(host, standing.as_ref(), bound).await;
            }
            () = &mut sent_away => {
                return Ok(Answer::say(format!(
                    "not waited for any longer, since a person wants something else to be done \
                     meanwhile ({wanted}); what ends later is reported"
                )));
            }
            _gone = &mut cancelled => return Err(Refusal::Cancelled),
        }
    };
    block(|| words(host, ids, &waited, &wanted, bound))
}

/// Says that a task that was started with something to wait for is ready, or is not yet.
pub(super) fn ready(host: &Host, standing: Standing, bound: Duration) -> Result<Answer, Refusal> {
    let state = &standing.state;
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
    let wanted = one_line(&format_conditions(&state.spec.wait_for), LINE);
    let waited = Waited { verdict, met: hits, waited_ms };
    let mut answer = words(host, &[task_id], &waited, &wanted, bound)?;
    let view = host.view(&standing, ViewDetail::Brief);
    answer.said.extend(text::limits(&view, &standing));
    let task = Some(TaskSummary::from(&view));
    let details = RunDetails { task, duplicate_of: None, output_truncated: false };
    answer.details = structured::details(&details);
    answer.receipts.push(Receipt::Returned(Box::new(standing.state)));
    Ok(answer)
}

fn words(
    host: &Host,
    ids: &[TaskId],
    waited: &Waited,
    wanted: &str,
    bound: Duration,
) -> Result<Answer, Refusal> {
    let mut answer = Answer::default();
    let mut tasks = Vec::new();
    match waited.verdict {
        WaitVerdict::Satisfied => {}
        WaitVerdict::Ended => {
            answer.said.push(format!("ended first; {wanted} can no longer come"));
        }
        WaitVerdict::Timeout => answer.said.push(format!(
            "not yet ({wanted}) after {}; it goes on: call {} again, or do something else \
             meanwhile",
            format_duration(bound),
            host.dialect.format_tool("wait")
        )),
    }
    for hit in &waited.met {
        match &hit.detail {
            Some(detail) if !tells_end(hit) => answer.said.push(seen(hit, detail)),
            _ => tasks.push(tell_end(host, hit.task_id, ids.len() == 1, &mut answer)?),
        }
    }
    if waited.verdict == WaitVerdict::Timeout {
        for id in ids {
            let standing = host.state(*id)?;
            if standing.state.is_live() {
                let view = host.view(&standing, ViewDetail::Brief);
                answer.said.push(advice::format_task_line(&view, LINE));
                tasks.push(TaskSummary::from(&view));
            }
        }
    }
    let details = WaitDetails { wait: waited.view(millis(bound)), tasks };
    answer.details = structured::details(&details);
    Ok(answer)
}

/// Says how a task ended, with the gist of its output when it is the only one.
fn tell_end(
    host: &Host,
    id: TaskId,
    alone: bool,
    answer: &mut Answer,
) -> Result<TaskSummary, Refusal> {
    let standing = host.state(id)?;
    let view = host.view(&standing, ViewDetail::Brief);
    answer.said.push(advice::format_task_line(&view, LINE));
    answer.said.extend(text::next(host, &view));
    if alone {
        let (dir, spec) = (&standing.dir, &standing.state.spec);
        answer.output = siding_core::output::task_summary(dir, spec, MAX_SUMMARY_BYTES).ok();
        answer.said.push(format!(
            "{} shows all {} bytes it wrote",
            host.dialect.format_tool("output"),
            view.output.bytes
        ));
    }
    answer.receipts.push(Receipt::Told(Box::new(standing.state), Coverage::Status));
    Ok(TaskSummary::from(&view))
}

/// Whether this says how the task ended.
const fn tells_end(hit: &MetCondition) -> bool {
    matches!(hit.detail, Some(WaitDetail::Outcome(_)) | None)
}

fn seen(hit: &MetCondition, detail: &WaitDetail) -> String {
    one_line(&format!("{}  {}  {detail}", hit.task_id, hit.condition), LINE)
}

/// Returns how long to wait. A bound that an administrator has locked is not passed.
fn bound(args: &Args) -> Result<Duration, Refusal> {
    let mut sources = Environment::from_process();
    if let Some(timeout) = args.timeout {
        let timeout = text::seconds("timeout", timeout)?;
        if timeout.is_zero() {
            // A look, and no wait at all.
            return Ok(timeout);
        }
        let text = format!("{}ms", millis(timeout).max(1));
        sources = sources.with_call(Key::WaitBound, "timeout", RawValue::Text(text));
    }
    Ok(settings::load(&sources)?.wait_bound)
}

/// Returns the tasks, each once, in the order in which they were named.
fn distinct(host: &Host, texts: &[String]) -> Result<Vec<TaskId>, Refusal> {
    let mut known = HashSet::new();
    let ids = texts.iter().map(|text| host.find(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(ids.into_iter().filter(|id| known.insert(*id)).collect())
}
