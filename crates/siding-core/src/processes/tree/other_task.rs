//! Recognizes processes of another task among the descendants of a task and the processes with its
//! birthmark.

use siding_model::id::{Birthmark, TaskId};

use crate::processes::siding_process::{SHIM_ARGUMENT, SHIM_NAME};
use crate::store::StateDir;
use crate::sys::procfs;
use crate::sys::terminal_holder::HOLDER_NAME;
use crate::sys::threads::ProcessStatus;

/// Returns whether a descendant of a task belongs to another task, which `siding run` started
/// inside the first, or is the shim of such a task.
///
/// A process of another task carries the birthmark of that task, and that task has a live marker in
/// the state directory. The birthmark is a resource limit, which a program can lower. A birthmark
/// whose task has no live marker has no effect, so a program cannot leave its task in this way.
#[must_use]
pub fn is_of_other_task(root: &StateDir, own: Birthmark, pid: i32) -> bool {
    has_mark_of_other_task(root, own, pid)
        || own.task_id().is_some_and(|own| is_shim_of_other_task(root, own, pid))
}

/// Like [`is_of_other_task`], for a process whose status was just read, so that its name is not
/// read again.
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

/// Returns whether a process is the shim of a task other than `own`, whatever birthmark it carries.
///
/// A siding command inside a task may start a takeover of another task. The new shim has the
/// birthmark of the surrounding task, because an unprivileged process cannot raise a hard limit
/// (setrlimit(2)). A shim is still recognized between the end of its task and its own exit.
///
/// A shim names its task in its command line or, while it exits, by its birthmark. The journal of
/// that task must name the process as its shim. A program therefore cannot leave its task by giving
/// a process the name of a shim.
pub(super) fn is_shim_of_other_task(root: &StateDir, own: TaskId, pid: i32) -> bool {
    procfs::process_name(pid).is_some_and(|name| name.as_bytes() == SHIM_NAME.to_bytes())
        && is_recorded_shim_of_other_task(root, own, pid)
}

/// Returns whether a process with the birthmark of this task is the recorded holder of the task's
/// terminal, which is not a process of the command. The journal names the holder, so a program
/// cannot leave its task by giving a process the name of a holder.
pub(super) fn is_terminal_holder(root: &StateDir, task: TaskId, pid: i32) -> bool {
    procfs::process_name(pid).is_some_and(|name| name.as_bytes() == HOLDER_NAME.to_bytes())
        && root.task_dir(task).ok().and_then(|dir| dir.read().ok()).is_some_and(|replayed| {
            let holder = replayed.state.terminal.and_then(|terminal| terminal.holder);
            holder.is_some() && procfs::identify(pid) == holder
        })
}

/// Returns whether a process with a shim's name is the recorded shim of another task.
fn is_recorded_shim_of_other_task(root: &StateDir, own: TaskId, pid: i32) -> bool {
    // An exiting process frees its memory, and thereby its command line, before it closes its
    // descriptors. The caller of a nested task may have ended by then. Until the process is reaped,
    // it keeps its name and its limits.
    let kept = supervised_task(pid).or_else(|| procfs::birthmark(pid)?.task_id());
    kept.filter(|kept| *kept != own).is_some_and(|kept| {
        let folded = root.task_dir(kept).ok().and_then(|dir| dir.read().ok());
        folded.is_some_and(|folded| procfs::identify(pid) == Some(folded.state.shim))
    })
}

/// Returns the task that a shim names in its command line. A shim of several tasks names the first.
fn supervised_task(pid: i32) -> Option<TaskId> {
    const MAX_TITLE_BYTES: usize = 256;
    let title = procfs::command_line(pid, MAX_TITLE_BYTES)?;
    let (_program, task) = title.split_once(SHIM_ARGUMENT)?;
    task.trim().parse().ok()
}
