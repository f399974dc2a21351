//! Which processes belong to a task.

mod other_task;
mod rate_limited_scan;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use siding_model::id::{Birthmark, TaskId};
use siding_model::journal::TaskState;
use siding_model::process::{MonotonicMs, ProcRef};

use crate::cgroup::TaskGroup;
use crate::store::StateDir;
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, procfs};

use other_task::is_shim_of_other_task;

pub use other_task::{is_of_other_task, is_of_other_task_by_status};
pub use rate_limited_scan::RateLimitedScan;

/// Every marked process of the machine at one moment, by its mark.
///
/// Only identities are kept: a thousand tasks have more processes than a program may have
/// descriptors, and a process that is left out for want of one would be taken for dead.
#[derive(Debug)]
pub struct BirthmarkScan {
    found: HashMap<u64, Vec<ProcRef>>,
    is_complete: bool,
}

impl BirthmarkScan {
    /// Looks at every process of the machine: 2 µs for each, and 15 µs more for each that is
    /// `wanted`. That is asked with a process's number and the task whose mark it carries. Shims
    /// are marked too.
    #[must_use]
    pub fn scan(wanted: impl Fn(i32, TaskId) -> bool) -> Self {
        let mut found: HashMap<u64, Vec<ProcRef>> = HashMap::new();
        let is_whole = scan_all(wanted, |mark, seen| {
            let known = found.entry(mark.0).or_default();
            if !known.contains(&seen.process()) {
                known.push(seen.process());
            }
        });
        Self { found, is_complete: is_whole }
    }

    /// Looks for the processes of one task, and leaves `except` out.
    #[must_use]
    pub fn scan_for(root: &StateDir, id: TaskId, except: i32) -> Self {
        Self::scan(|pid, task| task == id && pid != except && !is_shim_of_other_task(root, id, pid))
    }

    /// Whether everybody could be looked at. What is not found proves nothing otherwise.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the processes of a task that lived at that moment.
    #[must_use]
    pub fn processes_of(&self, id: TaskId) -> &[ProcRef] {
        self.found.get(&id.birthmark().0).map_or(&[], Vec::as_slice)
    }

    /// Takes out the processes of a task.
    #[must_use]
    pub fn take_processes_of(&mut self, id: TaskId) -> Vec<ProcRef> {
        self.found.remove(&id.birthmark().0).unwrap_or_default()
    }

    /// Returns the tasks that have living processes.
    #[must_use]
    pub fn tasks_with_processes(&self) -> Vec<TaskId> {
        self.found.keys().filter_map(|mark| Birthmark(*mark).task_id()).collect()
    }
}

/// One look at the machine, shared by many who ask at once or one after the other.
#[derive(Debug, Default)]
pub struct SharedScan(Mutex<Option<(MonotonicMs, BirthmarkScan)>>);

impl SharedScan {
    /// Returns the processes, the shim among them, that a task had at some moment since it was
    /// started: those with its mark as they were then, those in its control group as they are now.
    ///
    /// # Errors
    ///
    /// When there may be others that could not be looked at.
    pub fn processes_of(&self, root: &StateDir, task: &TaskState) -> io::Result<Vec<ProcRef>> {
        let id = task.spec.task_id;
        let mut marked = self.marked_processes(id, task.started)?;
        marked.retain(|process| !is_shim_of_other_task(root, id, process.pid));
        Ok(add_cgroup_members(root, task, marked))
    }

    fn marked_processes(&self, id: TaskId, started: MonotonicMs) -> io::Result<Vec<ProcRef>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An earlier look says nothing about a task that was started since.
        let (_, marks) = match last.take() {
            Some((looked, marks)) if looked > started && marks.is_complete() => {
                last.insert((looked, marks))
            }
            _ => last.insert((clock::monotonic_now(), BirthmarkScan::scan(|_, _| true))),
        };
        if marks.is_complete() {
            Ok(marks.processes_of(id).to_vec())
        } else {
            let why = "not every process could be looked at: /proc cannot be read, or no \
                       descriptor is left (`ulimit -n`)";
            Err(io::Error::other(why))
        }
    }
}

/// Returns the living processes of a task as they are known without its shim: whoever carries its
/// mark, and whoever is in its control group. `except` is left out.
#[must_use]
pub fn processes_without_shim(root: &StateDir, task: &TaskState, except: i32) -> Vec<ProcRef> {
    let id = task.spec.task_id;
    let mut found = add_cgroup_members(
        root,
        task,
        BirthmarkScan::scan_for(root, id, except).processes_of(id).to_vec(),
    );
    found.retain(|process| process.pid != except);
    found
}

/// Adds whoever is in the task's control group to those that carry its mark.
fn add_cgroup_members(root: &StateDir, task: &TaskState, mut found: Vec<ProcRef>) -> Vec<ProcRef> {
    if let Some(group) = TaskGroup::from_task(task) {
        let marked: HashSet<ProcRef> = found.iter().copied().collect();
        found.extend(group.members(root).into_iter().filter(|process| !marked.contains(process)));
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

/// Holds those of `known` that still live and are the task's, by their mark or by its control group
/// where it has one. A number that has become another process's is left out.
#[must_use]
pub fn hold_processes(
    root: &StateDir,
    id: TaskId,
    group: Option<&TaskGroup>,
    known: &[ProcRef],
) -> Vec<PidFd> {
    let mark = id.birthmark();
    let is_grouped =
        |pid| group.is_some_and(|group| group.contains(pid) && !is_of_other_task(root, mark, pid));
    let is_member = |held: &PidFd| {
        let pid = held.process.pid;
        let is_marked =
            || procfs::birthmark(pid) == Some(mark) && !is_shim_of_other_task(root, id, pid);
        // Its start time was compared while it was held, so both are its own unless it is dead.
        (is_marked() || is_grouped(pid)) && !held.is_dead()
    };
    known.iter().filter_map(|process| PidFd::open(*process).ok()).filter(is_member).collect()
}

/// Whether exactly this process lives. One whose first thread has left looks like a zombie and
/// still does.
#[must_use]
pub fn is_alive(process: ProcRef) -> bool {
    match PidFd::open_if_alive(process) {
        Ok(held) => held.is_some(),
        // No descriptor is left to hold it by, and perhaps none to read what it is: then it lives
        // until somebody can say otherwise.
        Err(_) => procfs::stat(process.pid)
            .is_none_or(|stat| stat.start_ticks == process.start_ticks && stat.state != 'Z'),
    }
}

/// The processes of one task as one look found them.
#[derive(Debug, Default)]
pub struct HeldProcesses {
    /// Those that are held. Some may have died since: whatever they started before is found by a
    /// look that begins after that.
    pub pidfds: Vec<PidFd>,
    /// Whether others were seen for which no descriptor was left, or might have been.
    pub has_more: bool,
}

impl HeldProcesses {
    /// Holds the processes of one task, known by mark or by control group, at most `most` of them,
    /// and leaves `except` out.
    #[must_use]
    pub fn hold_task(root: &StateDir, task: &TaskState, except: i32, most: usize) -> Self {
        let id = task.spec.task_id;
        let mut grip = Self::default();
        let is_whole = scan_all(
            |pid, task| task == id && pid != except && !is_shim_of_other_task(root, id, pid),
            |_, seen| match seen {
                ScannedProcess::Held(held) => grip.insert(held, most),
                ScannedProcess::Unheld(_) => grip.has_more = true,
            },
        );
        grip.has_more |= !is_whole;
        grip.add_group(root, task, except, most);
        grip
    }

    /// Adds whoever is in the task's control group, where it has one.
    fn add_group(&mut self, root: &StateDir, task: &TaskState, except: i32, most: usize) {
        let Some(group) = TaskGroup::from_task(task) else { return };
        let members = || {
            let mut members = group.members(root);
            members.retain(|process| process.pid != except);
            members
        };
        self.add_group_members(members, most);
    }

    /// Adds whoever `members` finds in the task's control group, and asks again while all of those
    /// were gone before they could be held: they may have started others.
    fn add_group_members(&mut self, members: impl Fn() -> Vec<ProcRef>, most: usize) {
        const MAX_GROUP_SCANS: u32 = 100;
        for _ in 0..MAX_GROUP_SCANS {
            let found = members();
            let mut is_settled = found.is_empty();
            for process in found {
                match PidFd::open_if_alive(process) {
                    Ok(Some(held)) => self.insert(held, most),
                    Ok(None) => continue,
                    Err(_) => self.has_more = true,
                }
                is_settled = true;
            }
            if is_settled {
                return;
            }
        }
        self.has_more = true;
    }

    fn insert(&mut self, held: PidFd, most: usize) {
        let is_known = self.pidfds.iter().any(|known| known.process == held.process);
        if !is_known && self.pidfds.len() < most {
            self.pidfds.push(held);
        } else if !is_known {
            self.has_more = true;
        }
    }

    /// Whether nothing lived at the end of the look.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pidfds.is_empty() && !self.has_more
    }
}

/// A process that lived when it was looked at.
enum ScannedProcess {
    Held(PidFd),
    /// No descriptor was left to hold it by.
    Unheld(ProcRef),
}

impl ScannedProcess {
    const fn process(&self) -> ProcRef {
        match self {
            Self::Held(held) => held.process,
            Self::Unheld(process) => *process,
        }
    }
}

/// Looks at every process of the machine and passes on the marked and `wanted` ones that live, some
/// of them twice. Returns whether nobody had to be left out.
///
/// The list of processes is not atomic: one on it may start another and be gone before it is
/// looked at. So the numbers that were given out meanwhile are looked at too, until there are
/// no new ones: then nothing that lives was missed.
fn scan_all(
    wanted: impl Fn(i32, TaskId) -> bool,
    mut found: impl FnMut(Birthmark, ScannedProcess),
) -> bool {
    /// Rounds after which the rest is left to the next look. Each is as short as the time in
    /// which a machine starts a few processes.
    const MAX_SCAN_ROUNDS: u32 = 100;
    /// A number is given out a moment before its process can be seen, and on a busy machine a
    /// moment is long: so many numbers before the newest are looked at once more.
    const RECHECKED_PIDS: i32 = 512;
    let mut is_whole = true;
    let mut look_at = |pid| {
        let Ok(mark) = procfs::read_birthmark(pid) else {
            // It may be one of them.
            is_whole = false;
            return;
        };
        if let Some(mark) = mark
            && mark.task_id().is_some_and(|task| wanted(pid, task))
        {
            match open_marked(pid, mark) {
                Ok(seen) => seen.into_iter().for_each(|seen| found(mark, seen)),
                Err(ScanError) => is_whole = false,
            }
        }
    };
    let mut newest = procfs::newest_pid().map(|pid| (pid - RECHECKED_PIDS).max(1));
    // This process at least is there.
    let (mut is_listed, mut is_told) = (true, true);
    let mut listed = || {
        let pids = procfs::all_pids();
        is_listed &= !pids.is_empty();
        pids
    };
    listed().into_iter().for_each(&mut look_at);
    for _ in 0..MAX_SCAN_ROUNDS {
        // Where `/proc` has processes alone, it never says.
        let Some(before) = newest else { break };
        let Some(now) = procfs::newest_pid() else {
            is_told = false;
            break;
        };
        if now == before {
            break;
        } else if now > before {
            (before + 1..=now).for_each(&mut look_at);
        } else {
            // The numbers begin again from below.
            listed().into_iter().for_each(&mut look_at);
        }
        newest = Some(now);
    }
    is_whole && is_listed && is_told
}

/// A process that carries the mark, and no more can be found out about it.
struct ScanError;

/// Returns the process of this number if it lives and has this mark.
fn open_marked(pid: i32, mark: Birthmark) -> Result<Option<ScannedProcess>, ScanError> {
    match PidFd::open_pid(pid) {
        // The number may have changed hands since the mark was read; while the process is held and
        // not dead, what is read under its number is its own.
        Ok(held) => {
            let lives = procfs::birthmark(pid) == Some(mark) && !held.is_dead();
            Ok(lives.then_some(ScannedProcess::Held(held)))
        }
        // The number of a thread.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
            Ok(None)
        }
        // It is gone, or no descriptor is left to hold it by: then better to count it in than to
        // call it dead.
        Err(_) => match procfs::stat(pid) {
            Some(stat) => {
                let process = ProcRef { pid, start_ticks: stat.start_ticks };
                Ok((stat.state != 'Z').then_some(ScannedProcess::Unheld(process)))
            }
            // Its mark is read without a descriptor.
            None if procfs::birthmark(pid) == Some(mark) => Err(ScanError),
            None => Ok(None),
        },
    }
}

/// Returns the living processes of a task: what lives below its shim and, once a shim was lost,
/// its [`processes_without_shim`].
#[must_use]
pub fn task_pids(root: &StateDir, state: &TaskState) -> Vec<i32> {
    if !state.is_live() {
        return Vec::new();
    }
    let own = state.spec.task_id.birthmark();
    let mut pids = if procfs::is_running(state.shim) {
        procfs::descendants(state.shim.pid, |pid| is_of_other_task(root, own, pid))
    } else {
        Vec::new()
    };
    if state.takeovers > 0 || pids.is_empty() {
        for process in processes_without_shim(root, state, state.shim.pid) {
            if !pids.contains(&process.pid) {
                pids.push(process.pid);
            }
        }
    }
    pids.retain(|pid| procfs::identify(*pid).is_some_and(is_alive));
    pids
}

/// Beginning of the path under which a task's shell finds its command, before the descriptor's
/// number. It stands in the shell's arguments, where the command itself must not.
pub const COMMAND_FD_PREFIX: &str = "/proc/self/fd/";

/// Returns the command line of a process for a report, on one line and not long.
#[must_use]
pub fn command_for_report(pid: i32) -> String {
    const MAX_COMMAND_BYTES: usize = 160;
    let text = procfs::command_line(pid, MAX_COMMAND_BYTES).unwrap_or_else(|| "?".to_owned());
    // A task's shell, and what it forks until that calls exec, have siding's constant text as
    // their argument. It would tell a person nothing.
    match text.split_once(" -c ") {
        Some((shell, constant)) if constant.contains(COMMAND_FD_PREFIX) => {
            format!("{shell} (the task's shell)")
        }
        _ => siding_model::text::one_line(&text, MAX_COMMAND_BYTES),
    }
}

/// Borrowed descriptors of held processes, for a poll.
pub fn as_borrowed_fds(held: &[PidFd]) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
    held.iter().map(AsFd::as_fd)
}
