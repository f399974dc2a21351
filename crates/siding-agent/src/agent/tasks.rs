//! The session's tasks that have not ended.

use siding_core::store::StoreError;
use siding_model::id::TaskId;
use siding_tools::{Host, Standing};

/// Returns them as they stand on record. One that cannot be read is told of by its notice.
pub(super) fn recorded(host: &Host) -> Result<Vec<Standing>, StoreError> {
    let live = host.root.live_tasks()?.into_iter();
    Ok(live.filter_map(|id| read(host, id)).filter(|task| is_ours(host, task)).collect())
}

/// Returns them after another shim was put in place where one was killed, so that nothing is said to
/// run that does not.
pub(super) fn running(host: &Host) -> Result<Vec<Standing>, StoreError> {
    let stands = |task: Standing| host.state(task.dir.id()).unwrap_or(task);
    let all = recorded(host)?.into_iter().map(stands);
    Ok(all.filter(|task| task.state.is_live()).collect())
}

/// Returns a task of any session as it stands on record, if it has not ended.
pub(super) fn read(host: &Host, id: TaskId) -> Option<Standing> {
    let dir = host.root.task(id).ok()?;
    let state = dir.read().ok()?.state;
    state.is_live().then_some(Standing { dir, state })
}

/// Whether a task is the session's.
pub(super) fn is_ours(host: &Host, task: &Standing) -> bool {
    task.state.spec.session_id == host.session
}
