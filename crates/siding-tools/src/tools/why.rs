//! The tool `why`, which explains why a task is quiet.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::task::why;
use siding_model::evidence::WhyView;
use siding_model::text::one_line;

use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::run_blocking;
use crate::call_context::CallContext;
use crate::context::{SHIM_PROGRAM, ToolContext};
use crate::structured::{self, WhyDetails};
use crate::text::LINE_COLUMNS;

pub(super) const DESCRIPTION: &str = "\
Explain why a task is quiet, with evidence from the kernel: which of its processes waits, and on \
what (input, a lock, the network, a child, a timer), or that it is busy. Changes nothing.";

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
        let view = why::why_view(&context.root, SHIM_PROGRAM, context.find_task(&args.id)?)?;
        Ok(build_answer(&view))
    })
}

fn build_answer(view: &WhyView) -> ToolAnswer {
    let on = view.waiting_on.map_or_else(String::new, |on| format!(" on {}", on.as_str()));
    let mut lines = vec![format!(
        "{}  {}{on} ({}), silent for {} s, {:.1} % of a core",
        view.task_id,
        view.verdict.as_str(),
        view.certainty.as_str(),
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
        lines.push("its last line of output follows".to_owned());
    }
    let details = structured::to_fields(&WhyDetails { why: view.clone() });
    ToolAnswer { lines, output, details, ..ToolAnswer::default() }
}
