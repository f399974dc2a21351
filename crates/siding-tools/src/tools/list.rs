//! `list`.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::listing;
use siding_core::session;
use siding_model::advice;
use siding_model::task_view::TaskView;

use crate::answer::{Answer, Refusal};
use crate::caller::Caller;
use crate::host::Host;
use crate::sleep::block;
use crate::structured::{self, ListDetails, TaskSummary};
use crate::text::{self, LINE};

pub(super) const ABOUT: &str = "\
List this session's tasks: all that run, and those that ended last.";

/// Ended tasks that are listed.
const RECENT: usize = 10;
/// Ended tasks that are looked at, of all sessions, or kept, of one.
const LOOKED_AT: usize = 64;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Tasks of other sessions of this user too.
    #[serde(default)]
    all_sessions: bool,
}

pub(super) async fn call<C: Caller>(
    host: &Host,
    _call: &mut C,
    args: Args,
) -> Result<Answer, Refusal> {
    let whose = if args.all_sessions { Whose::All } else { Whose::Session };
    let views = block(|| views(host, whose))?;
    let (running, ended): (Vec<_>, Vec<_>) =
        views.into_iter().partition(|view| view.outcome.is_none());
    let shown = running.iter().chain(ended.iter().take(RECENT)).map(TaskSummary::from);
    let details = structured::details(&ListDetails { tasks: shown.collect() });
    if running.is_empty() && ended.is_empty() {
        let said = format!("no tasks; {} starts one", host.dialect.format_tool("run"));
        return Ok(Answer { details, ..Answer::say(said) });
    }
    let mut answer = Answer { details, ..Answer::default() };
    for view in &running {
        answer.said.push(advice::format_task_line(view, LINE));
    }
    if let [view] = running.as_slice() {
        answer.said.extend(text::next(host, view));
    }
    answer.said.extend(ended.iter().take(RECENT).map(|view| advice::format_task_line(view, LINE)));
    Ok(answer)
}

/// Whose tasks are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Those of this server's session, and of its subagents.
    Session,
    /// Those of this user.
    All,
}

/// Returns what runs, the newest first, then what has ended, the last first.
///
/// # Errors
///
/// [`Refusal::Store`] when the state directory cannot be read.
pub fn views(host: &Host, whose: Whose) -> Result<Vec<TaskView>, Refusal> {
    let live = host.root.live_tasks()?;
    // Nothing is said to run that does not.
    for id in &live {
        let _listed_as_it_stands = host.state(*id);
    }
    let mut ids = host.root.all_tasks()?;
    if whose == Whose::All {
        // Most journals need not even be opened. Which are a session's stands in them.
        ids = listing::most_recent(&host.root, ids, LOOKED_AT);
    }
    ids.extend(live);
    ids.sort_unstable();
    ids.dedup();
    let sessions = session::session_tree(&host.root, &host.session)?;
    let is_wanted = |view: &TaskView| whose == Whose::All || sessions.contains(&view.session_id);
    let found = listing::read_views(&host.root, &ids, |view| is_wanted(&view).then_some(view))?;
    let found = found.into_iter().filter_map(|(_, view)| view.ok().flatten().flatten());
    let (mut running, mut ended): (Vec<_>, Vec<_>) = found.partition(|view| view.outcome.is_none());
    running.sort_by(|a, b| b.started_at.cmp(&a.started_at));
    ended.sort_by(|a, b| b.ended_at.cmp(&a.ended_at));
    ended.truncate(LOOKED_AT);
    running.append(&mut ended);
    Ok(running)
}
