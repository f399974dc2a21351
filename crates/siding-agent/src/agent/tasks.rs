//! Lists the running tasks of an agent's session and of the agent's subagents.

use siding_core::session;
use siding_core::store::StoreError;
use siding_core::sys::procfs;
use siding_model::id::TaskId;
use siding_tools::{TaskSnapshot, ToolContext};

/// Returns the session's running tasks, including those inherited from subagents, as their journals
/// state them. A task whose shim was killed is not repaired. Tasks that cannot be read are omitted.
pub(super) fn list_recorded(host: &ToolContext) -> Result<Vec<TaskSnapshot>, StoreError> {
    let live = host.root.live_tasks()?.into_iter();
    Ok(live.filter_map(|id| read_live(host, id)).filter(|task| is_of_session(host, task)).collect())
}

/// Returns the running tasks of the session and of all subagents below it. A task whose shim was
/// killed is repaired first, so that no ended task is reported as running.
pub(super) fn list_running(host: &ToolContext) -> Result<Vec<TaskSnapshot>, StoreError> {
    let family = session::session_tree(&host.root, &host.session)?;
    let live = host.root.live_tasks()?.into_iter().filter_map(|id| read_live(host, id));
    let all = live.filter(|task| family.contains(&task.state.spec.session_id));
    let stands = |task: TaskSnapshot| host.snapshot(task.dir.id()).unwrap_or(task);
    Ok(all.map(stands).filter(|task| task.state.is_live()).collect())
}

/// Returns the recorded state of a task of any session, if the task has not ended.
pub(super) fn read_live(host: &ToolContext, id: TaskId) -> Option<TaskSnapshot> {
    let dir = host.root.task_dir(id).ok()?;
    let state = dir.read().ok()?.state;
    state.is_live().then_some(TaskSnapshot { dir, state })
}

/// Returns whether the session owns a task or inherited it from a subagent or teammate.
pub(super) fn is_of_session(host: &ToolContext, task: &TaskSnapshot) -> bool {
    let of = &task.state.spec.session_id;
    let was_left = || {
        procfs::boot_id()
            .is_ok_and(|boot| session::is_inherited_by(&host.root, of, &host.session, &boot))
    };
    *of == host.session || may_be_inherited(task) && was_left()
}

/// Returns whether a task belongs to the session of a subagent or teammate. The parent session
/// inherits such a task when the subagent or teammate ends.
pub(super) fn may_be_inherited(task: &TaskSnapshot) -> bool {
    session::is_subagent_id(&task.state.spec.session_id)
}
