//! Lists the running tasks of a conversation, one a line.

use std::fmt::Write as _;
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::task::view::ViewDetail;
use siding_model::duration::format_duration;
use siding_model::id::{SessionId, TaskId};
use siding_model::task_view::{PhaseName, PlacementKind, TaskView};
use siding_model::text::one_line;

use crate::context::Task;
use crate::failure::Failure;

/// Maximum number of tasks to name. A last line states how many more there are.
const MAX_NAMED_TASKS: usize = 10;
/// Maximum width in columns of a command.
const COMMAND_COLUMNS: usize = 60;

/// Returns the running tasks of these sessions that satisfy `is_wanted`, oldest first.
pub(super) fn running_tasks(
    root: &StateDir,
    sessions: &[SessionId],
    is_wanted: impl Fn(&Task) -> bool,
) -> Result<Vec<TaskView>, Failure> {
    let view = |id: TaskId| {
        let task = Task::read(root, id).ok()?;
        let is_ours = task.state.is_live() && sessions.contains(&task.state.spec.session_id);
        (is_ours && is_wanted(&task)).then(|| task.view(root, ViewDetail::Brief))
    };
    let mut views: Vec<TaskView> = root.live_tasks()?.into_iter().filter_map(view).collect();
    views.sort_by(|a, b| a.started_at.cmp(&b.started_at));
    Ok(views)
}

/// Returns the running background tasks that satisfy `is_wanted`. [`is_background_task`] defines
/// which tasks these are.
pub(super) fn background_tasks(
    root: &StateDir,
    sessions: &[SessionId],
    is_wanted: impl Fn(&Task) -> bool,
) -> Result<Vec<TaskView>, Failure> {
    let mut views = running_tasks(root, sessions, is_wanted)?;
    views.retain(is_background_task);
    Ok(views)
}

/// Returns whether a task is listed as a background task: it lingers, or siding started it and no
/// caller waits for it. An adopted task that does not linger is omitted, because the host waits for
/// it or lists it.
pub(super) fn is_background_task(task: &TaskView) -> bool {
    let lingers = task.phase == PhaseName::Lingering;
    lingers || (!task.adopted && task.placement.kind == PlacementKind::Background)
}

/// Formats tasks, one a line; `None` if there are none.
pub(super) fn format_lines(views: &[TaskView]) -> Option<String> {
    let mut text: String = views.iter().take(MAX_NAMED_TASKS).map(format_line).collect();
    if views.len() > MAX_NAMED_TASKS {
        let more = views.len() - MAX_NAMED_TASKS;
        let _writing_to_string = writeln!(text, "- and {more} more: siding ps");
    }
    (!text.is_empty()).then_some(text)
}

fn format_line(task: &TaskView) -> String {
    let elapsed = format_duration(Duration::from_millis(task.state_time_ms() / 1000 * 1000));
    let command = one_line(&task.command, COMMAND_COLUMNS);
    let state = match task.phase {
        PhaseName::Lingering => ", its shell has ended",
        PhaseName::Starting if task.queued.is_some() => ", in the queue of its cluster",
        PhaseName::Starting | PhaseName::Running | PhaseName::Stopping | PhaseName::Ended => "",
    };
    format!("- {} for {elapsed}{state}: {command}\n", task.task_id)
}
