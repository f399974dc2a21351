//! Which processes belong to a task.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;

use siding_model::id::{Birthmark, TaskId};
use siding_model::journal::TaskState;
use siding_model::process::ProcRef;

use crate::cgroup::Group;
use crate::store::Root;
use crate::sys::pidfd::PidFd;
use crate::sys::procfs;

/// Whether a process below a task belongs to another task, started inside it by `siding run`.
///
/// Such a process carries the other task's birthmark, and the other task is on record as not
/// ended. A mark that nobody registered makes no difference: a program cannot leave its task by
/// lowering its own limit.
#[must_use]
pub fn is_foreign(root: &Root, own: Birthmark, pid: i32) -> bool {
    procfs::birthmark(pid)
        .filter(|mark| *mark != own)
        .and_then(Birthmark::task)
        .is_some_and(|other| root.is_marked_live(other))
}

/// Every marked process of the machine at one moment, by its mark.
///
/// Only identities are kept: a thousand tasks have more processes than a program may have
/// descriptors, and a process that is left out for want of one would be taken for dead.
#[derive(Debug, Default)]
pub struct Marks(HashMap<u64, Vec<ProcRef>>);

impl Marks {
    /// Looks at every process of the machine, 12 µs each. Shims are marked too; `except` names
    /// those that are to be left out.
    #[must_use]
    pub fn scan(except: impl Fn(i32) -> bool) -> Self {
        let mut marks = Self::default();
        for pid in procfs::all_pids() {
            let Some(mark) = procfs::birthmark(pid).filter(|mark| mark.task().is_some()) else {
                continue;
            };
            if let Some(process) = living(pid, mark).filter(|_| !except(pid)) {
                marks.0.entry(mark.0).or_default().push(process);
            }
        }
        marks
    }

    /// Returns the processes of a task that lived at that moment.
    #[must_use]
    pub fn of(&self, id: TaskId) -> &[ProcRef] {
        self.0.get(&id.birthmark().0).map_or(&[], Vec::as_slice)
    }

    /// Takes out the processes of a task that still live, each held by a descriptor.
    #[must_use]
    pub fn take(&mut self, id: TaskId) -> Vec<PidFd> {
        let found = self.0.remove(&id.birthmark().0).unwrap_or_default();
        let held = found.into_iter().filter_map(|process| PidFd::open(process).ok());
        held.filter(|held| !held.is_dead()).collect()
    }

    /// Returns the tasks that have living processes.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskId> {
        self.0.keys().filter_map(|mark| Birthmark(*mark).task()).collect()
    }
}

/// Returns the living processes of a task as they are known without its shim: whoever carries its
/// mark, and whoever is in its control group. `except` names those that are to be left out, as in
/// [`Marks::scan`].
#[must_use]
pub fn strays(
    root: &Root,
    task: &TaskState,
    marks: &Marks,
    except: impl Fn(i32) -> bool,
) -> Vec<ProcRef> {
    let mut found = marks.of(task.spec.task_id).to_vec();
    if let Some(group) = Group::of(task) {
        let marked: HashSet<ProcRef> = found.iter().copied().collect();
        let mut others = group.members(root);
        others.retain(|process| !marked.contains(process) && !except(process.pid));
        found.extend(others);
    }
    found
}

/// Returns how it is known that nothing of a task is left that had lost its shim.
#[must_use]
pub fn proof_without_shim(task: &TaskState) -> &'static str {
    match task.cgroup {
        Some(_) => "no process carries its mark or is in its control group",
        None => "no process carries its mark",
    }
}

/// Whether exactly this process lives. One whose first thread has left looks like a zombie and
/// still does.
#[must_use]
pub fn lives(process: ProcRef) -> bool {
    match PidFd::open(process) {
        Ok(held) => !held.is_dead(),
        // It is gone, or no descriptor is left to ask by.
        Err(_) => procfs::is_running(process),
    }
}

/// Returns the process of this number if it lives and has this mark.
fn living(pid: i32, mark: Birthmark) -> Option<ProcRef> {
    let process = procfs::identify(pid)?;
    match PidFd::open(process) {
        // The number may have changed hands since the mark was read; while the process is held and
        // not dead, what is read under its number is its own.
        Ok(held) => (procfs::birthmark(pid) == Some(mark) && !held.is_dead()).then_some(process),
        // It is gone, or no descriptor is left to hold it by: then better to count it in than to
        // call it dead.
        Err(_) => procfs::is_running(process).then_some(process),
    }
}

/// Returns the living processes of a task: what lives below its shim and, once a shim was lost,
/// its [`strays`].
#[must_use]
pub fn members(root: &Root, state: &TaskState) -> Vec<i32> {
    if !state.is_live() {
        return Vec::new();
    }
    let own = state.spec.task_id.birthmark();
    let mut pids = if procfs::is_running(state.shim) {
        procfs::descendants(state.shim.pid, |pid| is_foreign(root, own, pid))
    } else {
        Vec::new()
    };
    if state.rescues > 0 || pids.is_empty() {
        let is_shim = |pid| pid == state.shim.pid;
        for process in strays(root, state, &Marks::scan(is_shim), is_shim) {
            if !pids.contains(&process.pid) {
                pids.push(process.pid);
            }
        }
    }
    pids.retain(|pid| procfs::identify(*pid).is_some_and(lives));
    pids
}

/// Beginning of the path under which a task's shell finds its command, before the descriptor's
/// number. It stands in the shell's arguments, where the command itself must not.
pub const TEXT_FILE: &str = "/proc/self/fd/";

/// Returns the command line of a process for a report, on one line and not long.
#[must_use]
pub fn command_of(pid: i32) -> String {
    const MAX: usize = 160;
    let text = procfs::command_line(pid, MAX).unwrap_or_else(|| "?".to_owned());
    // A task's shell, and what it forks until that calls exec, have siding's constant text as
    // their argument. It would tell a person nothing.
    match text.split_once(" -c ") {
        Some((shell, constant)) if constant.contains(TEXT_FILE) => {
            format!("{shell} (the task's shell)")
        }
        _ => siding_model::text::one_line(&text, MAX),
    }
}

/// Borrowed descriptors of held processes, for a poll.
pub fn descriptors(held: &[PidFd]) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
    held.iter().map(AsFd::as_fd)
}
