//! Who is below a task, or carries its mark, and belongs to another.

use siding_model::id::{Birthmark, TaskId};

use crate::siding_process::{SHIM_ARGUMENT, SHIM_NAME};
use crate::store::StateDir;
use crate::sys::procfs;
use crate::sys::threads::ProcessStatus;

/// Whether a process below a task belongs to another task, started inside it by `siding run`, or
/// keeps one.
///
/// Such a process carries the other task's birthmark, and the other task is on record as not
/// ended. A mark that nobody registered makes no difference: a program cannot leave its task by
/// lowering its own limit.
#[must_use]
pub fn is_of_other_task(root: &StateDir, own: Birthmark, pid: i32) -> bool {
    has_mark_of_other_task(root, own, pid)
        || own.task_id().is_some_and(|own| is_shim_of_other_task(root, own, pid))
}

/// The same of a process whose status was just read: its name need not be read again.
#[must_use]
pub fn is_of_other_task_by_status(
    root: &StateDir,
    own: Birthmark,
    pid: i32,
    status: &ProcessStatus,
) -> bool {
    let is_shim = status.is_named(SHIM_NAME.to_bytes());
    has_mark_of_other_task(root, own, pid)
        || is_shim
            && own.task_id().is_some_and(|own| is_recorded_shim_of_other_task(root, own, pid))
}

fn has_mark_of_other_task(root: &StateDir, own: Birthmark, pid: i32) -> bool {
    procfs::birthmark(pid)
        .filter(|mark| *mark != own)
        .and_then(Birthmark::task_id)
        .is_some_and(|other| root.is_marked_live(other))
}

/// Whether a process is the shim of another task than `own`, whatever mark it carries.
///
/// A siding command inside a task may find that another task has lost its shim. The one that it starts
/// in its place has the mark of the task around it: a mark can only be lowered. And a shim stays one
/// for the moment between the end of its task and its own.
///
/// Which task it is about is asked of the process, and whether that is so of the task's journal: no
/// program leaves its task by taking a shim's name.
pub(super) fn is_shim_of_other_task(root: &StateDir, own: TaskId, pid: i32) -> bool {
    procfs::process_name(pid).is_some_and(|name| name.as_bytes() == SHIM_NAME.to_bytes())
        && is_recorded_shim_of_other_task(root, own, pid)
}

/// Whether a process with a shim's name is another task's on record.
fn is_recorded_shim_of_other_task(root: &StateDir, own: TaskId, pid: i32) -> bool {
    supervised_task(pid).filter(|kept| *kept != own).is_some_and(|kept| {
        let folded = root.task_dir(kept).ok().and_then(|dir| dir.read().ok());
        folded.is_some_and(|folded| procfs::identify(pid) == Some(folded.state.shim))
    })
}

/// Returns the task that a shim says it keeps, the first if there are several.
fn supervised_task(pid: i32) -> Option<TaskId> {
    const MAX_TITLE_BYTES: usize = 256;
    let title = procfs::command_line(pid, MAX_TITLE_BYTES)?;
    let (_program, task) = title.split_once(SHIM_ARGUMENT)?;
    task.trim().parse().ok()
}
