//! Who is below a task, or carries its mark, and belongs to another.

use siding_model::id::{Birthmark, TaskId};

use crate::launch::{SHIM_ARGUMENT, SHIM_NAME};
use crate::store::Root;
use crate::sys::procfs;
use crate::sys::threads::Status;

/// Whether a process below a task belongs to another task, started inside it by `siding run`, or
/// keeps one.
///
/// Such a process carries the other task's birthmark, and the other task is on record as not
/// ended. A mark that nobody registered makes no difference: a program cannot leave its task by
/// lowering its own limit.
#[must_use]
pub fn is_foreign(root: &Root, own: Birthmark, pid: i32) -> bool {
    is_of_another(root, own, pid) || own.task_id().is_some_and(|own| keeps_another(root, own, pid))
}

/// The same of a process whose status was just read: its name need not be read again.
#[must_use]
pub fn is_foreign_by(root: &Root, own: Birthmark, pid: i32, status: &Status) -> bool {
    let is_shim = status.is_named(SHIM_NAME.to_bytes());
    is_of_another(root, own, pid)
        || is_shim && own.task_id().is_some_and(|own| is_on_record(root, own, pid))
}

fn is_of_another(root: &Root, own: Birthmark, pid: i32) -> bool {
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
pub(super) fn keeps_another(root: &Root, own: TaskId, pid: i32) -> bool {
    procfs::name(pid).is_some_and(|name| name.as_bytes() == SHIM_NAME.to_bytes())
        && is_on_record(root, own, pid)
}

/// Whether a process with a shim's name is another task's on record.
fn is_on_record(root: &Root, own: TaskId, pid: i32) -> bool {
    kept_by(pid).filter(|kept| *kept != own).is_some_and(|kept| {
        let folded = root.task(kept).ok().and_then(|dir| dir.read().ok());
        folded.is_some_and(|folded| procfs::identify(pid) == Some(folded.state.shim))
    })
}

/// Returns the task that a shim says it keeps, the first if there are several.
fn kept_by(pid: i32) -> Option<TaskId> {
    const ENOUGH: usize = 256;
    let title = procfs::command_line(pid, ENOUGH)?;
    let (_program, task) = title.split_once(SHIM_ARGUMENT)?;
    task.trim().parse().ok()
}
