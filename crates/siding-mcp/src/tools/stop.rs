//! `stop`.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::stop::{self, How};
use siding_core::view::Detail;
use siding_model::advice;
use siding_model::id::TaskId;

use crate::answer::{Answer, Refusal};
use crate::call::Call;
use crate::host::{Host, PROGRAM};
use crate::receipts::Receipt;
use crate::sleep::block;
use crate::text::{self, LINE};

pub(super) const ABOUT: &str = "\
End tasks with everything they started: asks, then kills what is left after `grace`, and answers \
when it is proven that nothing is left.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Task ids, or their beginnings.
    #[serde(deserialize_with = "super::arguments::texts", alias = "id")]
    ids: Vec<String>,
    /// Seconds between asking and killing (default 10); 0 kills at once.
    #[serde(default)]
    grace: Option<f64>,
}

pub(super) async fn call(host: &Host, _call: &mut Call, args: Args) -> Result<Answer, Refusal> {
    let grace = args.grace.map(|grace| text::seconds("grace", grace)).transpose()?;
    block(|| {
        let ids = args.ids.iter().map(|text| host.find(text)).collect::<Result<Vec<_>, _>>()?;
        let how = How { by: "client", grace, signal: None };
        let mut answer = Answer::default();
        // All are asked at once: a hundred stops take as long as the slowest.
        let results: Vec<_> = std::thread::scope(|scope| {
            let stop = |id: TaskId| scope.spawn(move || stop::stop(&host.root, PROGRAM, id, how));
            let threads: Vec<_> = ids.iter().map(|id| stop(*id)).collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        for (id, result) in ids.into_iter().zip(results) {
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let standing = host.state(id)?;
            let view = host.view(&standing, Detail::Brief);
            answer.said.push(advice::line(&view, LINE));
            answer.said.extend(view.stop_report.as_ref().and_then(text::survivors));
            answer.receipts.push(Receipt::Told(Box::new(standing.state)));
        }
        Ok(answer)
    })
}
