//! The tool `list`, which lists tasks.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::session;
use siding_core::task::listing;
use siding_model::advice;
use siding_model::task_view::TaskView;

use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::run_blocking;
use crate::call_context::CallContext;
use crate::context::ToolContext;
use crate::structured::{self, ListDetails, TaskSummary};
use crate::text::{self, LINE_COLUMNS};

pub(super) const DESCRIPTION: &str = "\
List this session's tasks: the running ones and the most recently ended ones.";

/// Maximum number of ended tasks in an answer.
const MAX_SHOWN_ENDED_TASKS: usize = 10;
/// Maximum number of ended tasks whose journals are read for a list of all sessions, or that are
/// collected for a list of one session.
const MAX_READ_ENDED_TASKS: usize = 64;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArgs {
    /// Include tasks of this user's other sessions.
    #[serde(default)]
    all_sessions: bool,
}

pub(super) async fn call<C: CallContext>(
    context: &ToolContext,
    _call: &mut C,
    args: ListArgs,
) -> Result<ToolAnswer, ToolError> {
    let scope = if args.all_sessions { TaskScope::All } else { TaskScope::Session };
    let views = run_blocking(|| task_views(context, scope))?;
    let (running, ended): (Vec<_>, Vec<_>) =
        views.into_iter().partition(|view| view.outcome.is_none());
    let shown =
        running.iter().chain(ended.iter().take(MAX_SHOWN_ENDED_TASKS)).map(TaskSummary::from);
    let details = structured::to_fields(&ListDetails { tasks: shown.collect() });
    if running.is_empty() && ended.is_empty() {
        let text = format!("no tasks; {} starts one", context.dialect.format_tool("run"));
        return Ok(ToolAnswer { details, ..ToolAnswer::from_line(text) });
    }
    let mut answer = ToolAnswer { details, ..ToolAnswer::default() };
    for view in &running {
        answer.lines.push(advice::format_task_line(view, LINE_COLUMNS));
    }
    if let [view] = running.as_slice() {
        answer.lines.extend(text::next_step(context, view));
    }
    answer.lines.extend(
        ended
            .iter()
            .take(MAX_SHOWN_ENDED_TASKS)
            .map(|view| advice::format_task_line(view, LINE_COLUMNS)),
    );
    Ok(answer)
}

/// Selects the tasks of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskScope {
    /// The tasks of the context's session and of the session's subagents.
    Session,
    /// All tasks of this user.
    All,
}

/// Returns the running tasks, the newest first, then at most 64 ended tasks, the most recently
/// ended first. Tasks that cannot be read are omitted.
///
/// # Errors
///
/// Returns [`ToolError::Store`] when the state directory cannot be read.
pub fn task_views(context: &ToolContext, scope: TaskScope) -> Result<Vec<TaskView>, ToolError> {
    let live = context.root.live_tasks()?;
    // The snapshot starts a new shim for a task whose shim was killed. Without the new shim, an
    // ended task could be listed as running.
    for id in &live {
        let _best_effort = context.snapshot(*id);
    }
    let mut ids = context.root.all_tasks()?;
    if scope == TaskScope::All {
        // For all sessions, only the journals of the most recent tasks are opened. For one session,
        // every journal is opened, because only the journal says which session a task has.
        ids = listing::most_recent(&context.root, ids, MAX_READ_ENDED_TASKS);
    }
    ids.extend(live);
    ids.sort_unstable();
    ids.dedup();
    let sessions = session::session_tree(&context.root, &context.session)?;
    let is_wanted =
        |view: &TaskView| scope == TaskScope::All || sessions.contains(&view.session_id);
    let found = listing::read_views(&context.root, &ids, |view| is_wanted(&view).then_some(view))?;
    let found = found.into_iter().filter_map(|(_, view)| view.ok().flatten().flatten());
    let (mut running, mut ended): (Vec<_>, Vec<_>) = found.partition(|view| view.outcome.is_none());
    running.sort_by(|a, b| b.started_at.cmp(&a.started_at));
    ended.sort_by(|a, b| b.ended_at.cmp(&a.ended_at));
    ended.truncate(MAX_READ_ENDED_TASKS);
    running.append(&mut ended);
    Ok(running)
}
