//! `list`.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::listing;
use siding_model::advice;
use siding_model::report::TaskView;

use crate::answer::{Answer, Refusal};
use crate::call::Call;
use crate::host::Host;
use crate::sleep::block;
use crate::text::{self, LINE};

pub(super) const ABOUT: &str = "\
List this session's tasks: all that run, and those that ended last.";

/// Ended tasks that are listed.
const RECENT: usize = 10;
/// Ended tasks of which those are chosen.
const LOOKED_AT: usize = 64;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Tasks of other sessions of this user too.
    #[serde(default)]
    all_sessions: bool,
}

pub(super) async fn call(host: &Host, _call: &mut Call, args: Args) -> Result<Answer, Refusal> {
    let mut views = block(|| views(host))?;
    if !args.all_sessions {
        views.retain(|view| view.session_id == host.session);
    }
    let (running, ended): (Vec<_>, Vec<_>) =
        views.into_iter().partition(|view| view.outcome.is_none());
    if running.is_empty() && ended.is_empty() {
        return Ok(Answer::say("no tasks; `run` starts one"));
    }
    let mut answer = Answer::default();
    for view in &running {
        answer.said.push(advice::line(view, LINE));
    }
    if let [view] = running.as_slice() {
        answer.said.extend(text::next(view));
    }
    answer.said.extend(ended.iter().take(RECENT).map(|view| advice::line(view, LINE)));
    Ok(answer)
}

/// Returns what runs and what ended last, the newest first.
pub(crate) fn views(host: &Host) -> Result<Vec<TaskView>, Refusal> {
    let live = host.root.live_tasks()?;
    // Nothing is said to run that does not.
    for id in &live {
        let _listed_as_it_stands = host.state(*id);
    }
    let mut ids = listing::latest(&host.root, host.root.all_tasks()?, LOOKED_AT);
    ids.extend(live);
    ids.sort_unstable();
    ids.dedup();
    let found = listing::views(&host.root, &ids, |view| view)?;
    let mut views: Vec<TaskView> =
        found.into_iter().filter_map(|(_, view)| view.ok().flatten()).collect();
    views.sort_by(|a, b| b.started_at.cmp(&a.started_at));
    Ok(views)
}
