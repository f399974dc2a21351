//! Collects the data for an activity report from the tasks' journals, the history and the reaper's
//! log.

use std::collections::HashSet;

use siding_core::store::StateDir;
use siding_core::task::listing;
use siding_core::upkeep::activity;
use siding_model::activity::{ActivityReport, ActivityTask, Period};
use siding_model::history::Run;
use siding_model::id::TaskId;
use siding_model::size::Bytes;

use crate::failure::Failure;

/// Maximum number of runs to read from the history; a busy week has fewer.
pub(crate) const MAX_HISTORY_RUNS: usize = 20_000;

/// Builds the activity report of a period from the present tasks and from those `history_runs`
/// whose tasks have been removed. A task that cannot be read is reported on stderr and omitted.
pub(crate) fn build_report(
    root: &StateDir,
    period: Period,
    history_runs: &[Run],
    retention_bytes: Bytes,
) -> Result<ActivityReport, Failure> {
    let mut ids = root.all_tasks()?;
    ids.extend(root.live_tasks()?);
    ids.sort_unstable();
    ids.dedup();
    let mut tasks = Vec::new();
    for (id, task) in listing::read_views(root, &ids, |view| ActivityTask::from_view(&view))? {
        match task {
            Ok(task) => tasks.extend(task),
            Err(error) => errln!("siding: task {id} is omitted: {error}"),
        }
    }
    let kept: HashSet<TaskId> = tasks.iter().map(|task| task.task_id).collect();
    let removed = history_runs.iter().filter(|run| !kept.contains(&run.task_id));
    tasks.extend(removed.map(ActivityTask::from_run));
    let disk = activity::disk_use(root, retention_bytes)?;
    Ok(ActivityReport::new(period, tasks, &activity::reaped_processes(root), disk))
}
