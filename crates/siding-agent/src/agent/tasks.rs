//! The session's tasks that have not ended.

use siding_core::session;
use siding_core::store::StoreError;
use siding_core::sys::procfs;
use siding_model::id::TaskId;
use siding_tools::{TaskSnapshot, ToolContext};

/// Returns them, and what subagents have left to the session, as they stand on record. One that cannot be
/// read is told of by its notice.
pub(super) fn list_recorded(host: &ToolContext) -> Result<Vec<TaskSnapshot>, StoreError> {
    let live = host.root.live_tasks()?.into_iter();
    Ok(live.filter_map(|id| read_live(host, id)).filter(|task| is_of_session(host, task)).collect())
}

/// Returns them and those of all subagents under the session, after another shim was put in place where
/// one was killed, so that nothing is said to run that does not.
pub(super) fn list_running(host: &ToolContext) -> Result<Vec<TaskSnapshot>, StoreError> {
    let family = session::session_tree(&host.root, &host.session)?;
    let live = host.root.live_tasks()?.into_iter().filter_map(|id| read_live(host, id));
    let all = live.filter(|task| family.contains(&task.state.spec.session_id));
    let stands = |task: TaskSnapshot| host.snapshot(task.dir.id()).unwrap_or(task);
    Ok(all.map(stands).filter(|task| task.state.is_live()).collect())
}

/// Returns a task of any session as it stands on record, if it has not ended.
pub(super) fn read_live(host: &ToolContext, id: TaskId) -> Option<TaskSnapshot> {
    let dir = host.root.task_dir(id).ok()?;
    let state = dir.read().ok()?.state;
    state.is_live().then_some(TaskSnapshot { dir, state })
}

/// Whether a task is the session's, or was left to it by a subagent.
pub(super) fn is_of_session(host: &ToolContext, task: &TaskSnapshot) -> bool {
    let of = &task.state.spec.session_id;
    let was_left = || {
        procfs::boot_id()
            .is_ok_and(|boot| session::is_inherited_by(&host.root, of, &host.session, &boot))
    };
    *of == host.session || may_be_handed_up(task) && was_left()
}

/// Whether a task is a subagent's, which may be left to another session.
pub(super) fn may_be_handed_up(task: &TaskSnapshot) -> bool {
    session::is_subagent_id(&task.state.spec.session_id)
}
