//! Releases programs that a person opened through an adopted command, such as an editor.

use siding_core::store::StateDir;
use siding_core::sys::{birthmark, procfs};
use siding_model::host::is_excluded_program;
use siding_model::id::Birthmark;
use siding_model::journal::TaskState;
use siding_model::process::ProcRef;

use crate::process_tree::ProcessTree;

/// Maximum number of bytes that are read from a command line.
const MAX_COMMAND_LINE_BYTES: usize = 16 << 10;

/// Releases the excluded programs of an adopted task, such as an editor. The task's record lists
/// them. A listed program is released if it has left the command's kernel session (setsid(2)),
/// together with those of its descendants that carry the task's birthmark. If that kernel session
/// is unknown, every listed program counts as outside it. The released processes get a birthmark
/// that belongs to no task.
pub(crate) fn release_excluded(tree: &mut ProcessTree, root: &StateDir, state: &TaskState) {
    let Some(adopted) = &state.adopted else { return };
    if adopted.spare_programs.is_empty() {
        return;
    }
    let is_excluded = |process: &ProcRef| {
        let Some(stat) = procfs::stat(process.pid) else { return false };
        let has_left = adopted.process_session.is_none_or(|session| stat.session != session);
        let words = || procfs::command_words(process.pid, MAX_COMMAND_LINE_BYTES);
        has_left
            && words().is_some_and(|(words, name)| {
                is_excluded_program(&name, &words, &adopted.spare_programs)
            })
    };
    let members = tree.scan_members(root, state);
    let birthmark = state.spec.task_id.birthmark();
    for process in members.iter().filter(|process| is_excluded(process)) {
        mark_excluded(process.pid, birthmark);
    }
    tree.drop_unmarked(birthmark);
}

/// Replaces the task's birthmark in a process and in its descendants, as far as they carry it.
fn mark_excluded(pid: i32, task_birthmark: Birthmark) {
    let below = procfs::descendants(pid, |_| false);
    for pid in std::iter::once(pid).chain(below) {
        if procfs::birthmark(pid) == Some(task_birthmark) {
            // A process whose birthmark cannot be replaced ends with the task.
            let _best_effort = birthmark::set_birthmark_of(pid, Birthmark::RELEASED);
        }
    }
}
