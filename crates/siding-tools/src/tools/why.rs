//! `why`.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::why;
use siding_model::evidence::WhyView;
use siding_model::text::one_line;

use crate::answer::{Answer, Refusal};
use crate::caller::Caller;
use crate::host::{Host, PROGRAM};
use crate::sleep::block;
use crate::structured::{self, WhyDetails};
use crate::text::LINE;

pub(super) const ABOUT: &str = "\
Say why a task is quiet, from the kernel: which of its processes waits, and on what (input, a \
lock, the network, a child, a timer), or that it is busy. Changes nothing.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Task id, or its beginning.
    id: String,
}

pub(super) async fn call<C: Caller>(
    host: &Host,
    _call: &mut C,
    args: Args,
) -> Result<Answer, Refusal> {
    block(|| {
        let view = why::why_view(&host.root, PROGRAM, host.find(&args.id)?)?;
        Ok(words(&view))
    })
}

fn words(view: &WhyView) -> Answer {
    let on = view.waiting_on.map_or_else(String::new, |on| format!(" on {}", on.as_str()));
    let mut said = vec![format!(
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
        said.push(one_line(&text, LINE));
    }
    said.push(view.advice.clone());
    let output = (!view.tail.is_empty()).then(|| view.tail.clone());
    if output.is_some() {
        said.push("its last line follows".to_owned());
    }
    let details = structured::details(&WhyDetails { why: view.clone() });
    Answer { said, output, details, ..Answer::default() }
}
