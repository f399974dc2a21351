//! The tool `why`, which explains why a task is quiet, or how it ended.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::task::view::ViewDetail;
use siding_core::task::why::{self, WhyError};
use siding_model::evidence::WhyView;
use siding_model::id::TaskId;
use siding_model::notice::Coverage;
use siding_model::text::one_line;

use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::run_blocking;
use crate::call_context::CallContext;
use crate::context::{SHIM_PROGRAM, ToolContext};
use crate::delivery::DeliveryAck;
use crate::structured::{self, WhyDetails};
use crate::text::{self, LINE_COLUMNS};

pub(super) const DESCRIPTION: &str = "\
Explain why a task is quiet, or how it ended, with evidence: which of its processes waits, and on \
what (input, a lock, the network, a child, a timer), or that it is busy. Changes nothing.";

/// The line that announces the last line of a task's output, which follows as a separate block.
const LAST_LINE_FOLLOWS: &str = "its last line of output follows";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhyArgs {
    /// Task id, prefix or name.
    id: String,
}

pub(super) async fn call<C: CallContext>(
    context: &ToolContext,
    _call: &mut C,
    args: WhyArgs,
) -> Result<ToolAnswer, ToolError> {
    run_blocking(|| {
        let id = context.find_task(&args.id)?;
        match why::why_view(&context.root, SHIM_PROGRAM, id) {
            Ok(view) => Ok(build_answer(&view)),
            Err(WhyError::Ended(_)) => describe_end(context, id),
            Err(WhyError::Queued { status, .. }) => describe_queued(context, id, &status),
            Err(error) => Err(error.into()),
        }
    })
}

/// Returns how a task ended, the recorded facts about its end, and the last line of its output.
fn describe_end(context: &ToolContext, id: TaskId) -> Result<ToolAnswer, ToolError> {
    let snapshot = context.snapshot(id)?;
    let view = context.view(&snapshot, ViewDetail::Brief);
    let tail = text::last_line(&snapshot);
    let mut answer = text::status_answer(context, &snapshot, &view);
    answer.lines.extend(text::passed_limits(&view, &snapshot));
    if tail.is_some() {
        answer.lines.push(LAST_LINE_FOLLOWS.to_owned());
    }
    let why = WhyView::ended(id, view.outcome.as_ref(), tail.clone().unwrap_or_default());
    answer.details = structured::to_fields(&WhyDetails { why });
    answer.output = tail;
    answer
        .delivery_acks
        .push(DeliveryAck::TaskReported(Box::new(snapshot.state), Coverage::Status));
    Ok(answer)
}

/// Returns the state of a task whose job waits in the queue of a cluster.
fn describe_queued(
    context: &ToolContext,
    id: TaskId,
    status: &str,
) -> Result<ToolAnswer, ToolError> {
    let snapshot = context.snapshot(id)?;
    let view = context.view(&snapshot, ViewDetail::Brief);
    let mut answer = text::status_answer(context, &snapshot, &view);
    answer.details = structured::to_fields(&WhyDetails { why: WhyView::queued(id, status) });
    Ok(answer)
}

fn build_answer(view: &WhyView) -> ToolAnswer {
    let mut lines = vec![format!(
        "{}  {}, silent for {} s, {:.1} % of a core",
        view.task_id,
        view.verdict.phrase_with_certainty(view.waiting_on, view.awaited_input, view.certainty),
        view.silent_ms / 1000,
        view.cpu_percent
    )];
    for link in &view.chain {
        let wait = [&link.syscall, &link.object, &link.detail];
        let wait: Vec<&str> = wait.into_iter().flatten().map(String::as_str).collect();
        let text = format!("{} {}  {}: {}", link.pid, link.state, link.command, wait.join(", "));
        lines.push(one_line(&text, LINE_COLUMNS));
    }
    lines.push(view.advice.clone());
    let output = (!view.tail.is_empty()).then(|| view.tail.clone());
    if output.is_some() {
        lines.push(LAST_LINE_FOLLOWS.to_owned());
    }
    let details = structured::to_fields(&WhyDetails { why: view.clone() });
    ToolAnswer { lines, output, details, ..ToolAnswer::default() }
}
