//! Determines which processes belong to a task.

mod leader_command;
mod other_task;
mod rate_limited_scan;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use siding_model::id::{Birthmark, TaskId};
use siding_model::journal::TaskState;
use siding_model::process::{MonotonicMs, ProcRef};

use crate::processes::cgroup::TaskGroup;
use crate::store::StateDir;
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, procfs};

use other_task::{is_shim_of_other_task, is_terminal_holder};

pub use leader_command::leader_command_for_report;
pub use other_task::{is_of_other_task, is_of_other_task_by_status};
pub use rate_limited_scan::RateLimitedScan;

/// The processes of the whole system at one moment, by birthmark.
///
/// Only identities are kept, not pidfds, because a thousand tasks have more processes than a
/// program may have descriptors. A process that is omitted because no descriptor is free would be
/// treated as dead.
#[derive(Debug)]
pub struct BirthmarkScan {
    found: HashMap<u64, Vec<ProcRef>>,
    is_complete: bool,
}

impl BirthmarkScan {
    /// Scans all processes for those with a birthmark for which `wanted` returns true. `wanted`
    /// receives the process id and the task of the birthmark. Shims carry birthmarks too, so
    /// `wanted` must reject unwanted shims. Takes 2 µs for each process, and 15 µs more for each
    /// wanted one.
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

    /// Scans for the processes of one task, excluding the process `except` and the shims of other
    /// tasks.
    #[must_use]
    pub fn scan_for(root: &StateDir, id: TaskId, except: i32) -> Self {
        Self::scan(|pid, task| task == id && pid != except && is_member(root, id, pid))
    }

    /// Returns whether every process could be inspected. If not, the absence of a process proves
    /// nothing.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the processes of a task that were alive during the scan.
    #[must_use]
    pub fn processes_of(&self, id: TaskId) -> &[ProcRef] {
        self.found.get(&id.birthmark().0).map_or(&[], Vec::as_slice)
    }

    /// Removes and returns the processes of a task.
    #[must_use]
    pub fn take_processes_of(&mut self, id: TaskId) -> Vec<ProcRef> {
        self.found.remove(&id.birthmark().0).unwrap_or_default()
    }

    /// Returns the tasks for which the scan found processes.
    #[must_use]
    pub fn tasks_with_processes(&self) -> Vec<TaskId> {
        self.found.keys().filter_map(|mark| Birthmark(*mark).task_id()).collect()
    }
}

/// The last process scan, shared by concurrent and successive callers.
#[derive(Debug, Default)]
pub struct SharedScan(Mutex<Option<(MonotonicMs, BirthmarkScan)>>);

impl SharedScan {
    /// Returns the processes of a task. These are the processes that had the task's birthmark
    /// during the shared scan (the task's own shim may be one of them, another task's shim is not),
    /// and those that are in the task's control group now. The scan is repeated if it is older than
    /// the task, or was incomplete.
    ///
    /// # Errors
    ///
    /// An error if a process could not be inspected, because that process may belong to the task.
    pub fn processes_of(&self, root: &StateDir, task: &TaskState) -> io::Result<Vec<ProcRef>> {
        let id = task.spec.task_id;
        let mut marked = self.marked_processes(id, task.started)?;
        marked.retain(|process| is_member(root, id, process.pid));
        Ok(add_cgroup_members(root, task, marked))
    }

    fn marked_processes(&self, id: TaskId, started: MonotonicMs) -> io::Result<Vec<ProcRef>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A scan from before the task's start does not contain its processes.
        let (_, marks) = match last.take() {
            Some((looked, marks)) if looked > started && marks.is_complete() => {
                last.insert((looked, marks))
            }
            _ => last.insert((clock::monotonic_now(), BirthmarkScan::scan(|_, _| true))),
        };
        if marks.is_complete() {
            Ok(marks.processes_of(id).to_vec())
        } else {
            let why = "not every process could be inspected: /proc is unreadable, no descriptor \
                       is left (`ulimit -n`), or processes start faster than they are inspected";
            Err(io::Error::other(why))
        }
    }
}

/// Returns the living processes of a task, found without its shim: by its birthmark and by its
/// control group. Excludes the process `except`, and misses processes that cannot be inspected.
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

/// Adds the members of the task's control group.
fn add_cgroup_members(root: &StateDir, task: &TaskState, mut found: Vec<ProcRef>) -> Vec<ProcRef> {
    if let Some(group) = TaskGroup::from_task(task) {
        let marked: HashSet<ProcRef> = found.iter().copied().collect();
        found.extend(group.members(root).into_iter().filter(|process| !marked.contains(process)));
    }
    found
}

/// Returns the proof, in words, that a task without a shim has no process left.
#[must_use]
pub fn proof_without_shim(task: &TaskState) -> &'static str {
    match task.cgroup {
        Some(_) => "no process carries its mark or is in its control group",
        None => "no process carries its mark",
    }
}

/// Opens pidfds of those processes of `known` that are still alive and belong to the task, by
/// birthmark or by control group. Skips a process whose id was reused, or for which no pidfd can be
/// opened.
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
        let is_marked = || procfs::birthmark(pid) == Some(mark) && is_member(root, id, pid);
        // PidFd::open has compared the start time, so both checks concern the recorded process
        // unless it has died.
        (is_marked() || is_grouped(pid)) && !held.is_dead()
    };
    known.iter().filter_map(|process| PidFd::open(*process).ok()).filter(is_member).collect()
}

/// Returns whether a process with the birthmark of a task is a process of its command: not the shim
/// of another task, and not the holder of the task's terminal.
fn is_member(root: &StateDir, id: TaskId, pid: i32) -> bool {
    !is_shim_of_other_task(root, id, pid) && !is_terminal_holder(root, id, pid)
}

/// Returns whether exactly this process is alive. A process whose main thread has exited looks like
/// a zombie in /proc, but other threads of it may run, so /proc decides only if no pidfd can be
/// opened.
#[must_use]
pub fn is_alive(process: ProcRef) -> bool {
    match PidFd::open_if_alive(process) {
        Ok(held) => held.is_some(),
        // Without a free descriptor there is no pidfd, and /proc may be unreadable too. In that
        // case, the process is treated as alive.
        Err(_) => procfs::stat(process.pid)
            .is_none_or(|stat| stat.start_ticks == process.start_ticks && stat.state != 'Z'),
    }
}

/// The processes of one task, as found by one scan and held by pidfds.
#[derive(Debug, Default)]
pub struct HeldProcesses {
    /// The pidfds of the processes. A process may have started another one and died since the scan;
    /// a later scan finds the new process.
    pub pidfds: Vec<PidFd>,
    /// Whether the task has or may have other living processes, for which no pidfd was opened. Once
    /// the maximum number of pidfds is open, it may be false although others live.
    pub has_more: bool,
}

impl HeldProcesses {
    /// Scans for the processes of one task, by birthmark and control group, and opens pidfds for up
    /// to `most` of them. Excludes the process `except`.
    #[must_use]
    pub fn hold_task(root: &StateDir, task: &TaskState, except: i32, most: usize) -> Self {
        let id = task.spec.task_id;
        let mut grip = Self::default();
        let is_whole = scan_all(
            |pid, task| task == id && pid != except && is_member(root, id, pid),
            |_, seen| match seen {
                ScannedProcess::Held(held) => grip.insert(held, most),
                ScannedProcess::Unheld(_) => grip.has_more = true,
            },
        );
        grip.has_more |= !is_whole;
        grip.add_group(root, task, except, most);
        grip
    }

    /// Adds the members of the task's control group, if it has one.
    fn add_group(&mut self, root: &StateDir, task: &TaskState, except: i32, most: usize) {
        let Some(group) = TaskGroup::from_task(task) else { return };
        let members = || {
            let mut members = group.members(root);
            members.retain(|process| process.pid != except);
            members
        };
        self.add_group_members(members, most);
    }

    /// Adds the living ones of the processes that `members` returns. If all of them had exited
    /// before their pidfds were opened, calls `members` again, since they may have started others.
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

    /// Returns whether it is certain that no process was alive at the end of the scan.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pidfds.is_empty() && !self.has_more
    }
}

/// A process that was alive when it was scanned, or about which this is unknown.
enum ScannedProcess {
    Held(PidFd),
    /// No pidfd could be opened, for example because no descriptor was free.
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

/// Scans all processes and passes the living ones with a birthmark that is `wanted` to `found`,
/// some of them twice. Returns whether every listed process could be inspected and, if `/proc`
/// shows the newest process id, every process that started during the scan.
///
/// Listing /proc is not atomic, so a listed process may start another one and exit before it is
/// inspected. If `/proc` shows the newest process id, the ids that were allocated meanwhile are
/// therefore inspected too, until there are no new ones, so that no living process is missed.
fn scan_all(
    wanted: impl Fn(i32, TaskId) -> bool,
    mut found: impl FnMut(Birthmark, ScannedProcess),
) -> bool {
    /// Number of process ids before the newest that are inspected again. An id is allocated
    /// shortly before its process becomes visible, and a loaded machine prolongs the delay.
    const RECHECKED_PIDS: i32 = 512;
    let mut is_whole = true;
    let mut look_at = |pid| {
        let Ok(mark) = procfs::read_birthmark(pid) else {
            // A process that cannot be inspected may belong to a wanted task.
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
    let newest = procfs::newest_pid().map(|pid| (pid - RECHECKED_PIDS).max(1));
    let mut is_listed = true;
    let mut listed = || {
        let pids = procfs::all_pids();
        is_listed &= pids.is_ok();
        pids.unwrap_or_default()
    };
    listed().into_iter().for_each(&mut look_at);
    // A /proc with `subset=pid` has no loadavg, so the newest id is never known, and the list is
    // inspected once.
    let is_settled = newest.is_none_or(|before| {
        follow_new_pids(before, procfs::newest_pid, |pids| match pids {
            Some(pids) => pids.for_each(&mut look_at),
            None => listed().into_iter().for_each(&mut look_at),
        })
    });
    is_whole && is_listed && is_settled
}

/// Passes the process ids that were allocated after `before` to `look_at`, in rounds, until there
/// are no new ones; `None` stands for all processes, after the ids have wrapped around. Returns
/// false if the newest id became unknown, or if even the last round found new ids: in both cases
/// the scan may have missed a process.
fn follow_new_pids(
    mut before: i32,
    mut newest_pid: impl FnMut() -> Option<i32>,
    mut look_at: impl FnMut(Option<RangeInclusive<i32>>),
) -> bool {
    /// Maximum number of rounds; processes that start later are left to the next scan. A round
    /// inspects only the processes that started during the previous round. These are normally few,
    /// so a scan ends after a few rounds.
    const MAX_SCAN_ROUNDS: u32 = 100;
    for _ in 0..MAX_SCAN_ROUNDS {
        let Some(now) = newest_pid() else { return false };
        if now == before {
            return true;
        }
        look_at((now > before).then_some(before + 1..=now));
        before = now;
    }
    false
}

/// The error for a process that has the birthmark, but cannot be inspected further.
struct ScanError;

/// Returns the process with this id if it is alive and has this birthmark.
fn open_marked(pid: i32, mark: Birthmark) -> Result<Option<ScannedProcess>, ScanError> {
    match PidFd::open_pid_if_present(pid) {
        // The id may have been reused since the birthmark was read. While the pidfd is open and the
        // process is not dead, `/proc` shows exactly this process under the id, so the birthmark is
        // read again.
        Ok(Some(held)) => {
            let lives = procfs::birthmark(pid) == Some(mark) && !held.is_dead();
            Ok(lives.then_some(ScannedProcess::Held(held)))
        }
        // The process has exited, or the id belongs to a thread.
        Ok(None) => Ok(None),
        // For example, no descriptor is free. A process that may be alive is reported without a
        // pidfd.
        Err(_) => match procfs::stat(pid) {
            Some(stat) => {
                let process = ProcRef { pid, start_ticks: stat.start_ticks };
                Ok((stat.state != 'Z').then_some(ScannedProcess::Unheld(process)))
            }
            // Reading the birthmark of a process of the same user needs no descriptor (prlimit(2)).
            None if procfs::birthmark(pid) == Some(mark) => Err(ScanError),
            None => Ok(None),
        },
    }
}

/// Returns the process ids of a task, none if it has ended or runs on another machine: the
/// descendants of its shim and, if there are none or a takeover has happened, the processes that
/// [`processes_without_shim`] finds.
#[must_use]
pub fn task_pids(root: &StateDir, state: &TaskState) -> Vec<i32> {
    if !state.is_live() || state.spec.is_remote() {
        return Vec::new();
    }
    let mut pids = shim_descendants(root, state).unwrap_or_default();
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

/// Returns the process ids of the descendants of a task's shim that belong to the task; `None` if
/// the shim does not run. After a takeover, processes of the task may have other ancestors. The
/// descendants of a mirror belong to its connection, not to the task.
#[must_use]
pub fn shim_descendants(root: &StateDir, state: &TaskState) -> Option<Vec<i32>> {
    if state.spec.is_remote() {
        return procfs::is_running(state.shim).then(Vec::new);
    }
    let own = state.spec.task_id.birthmark();
    procfs::is_running(state.shim)
        .then(|| procfs::descendants(state.shim.pid, |pid| is_of_other_task(root, own, pid)))
}

/// Prefix of the path under which a task's shell reads its command, before the descriptor number.
/// The shell's arguments contain this path instead of the command itself.
pub const COMMAND_FD_PREFIX: &str = "/proc/self/fd/";

/// Maximum width of a command line in a report, in columns.
const MAX_COMMAND_COLUMNS: usize = 160;

/// Returns the command line of a process for a report, shortened to one line; `?` if it cannot be
/// read. For a shell that runs a task's command, returns the shell and a note instead.
#[must_use]
pub fn command_for_report(pid: i32) -> String {
    // For a command with a pipeline, the shell's `-c` argument ends with the path of the command's
    // descriptor, which begins after about 300 bytes.
    const MAX_COMMAND_BYTES: usize = 1024;
    let text = procfs::command_line(pid, MAX_COMMAND_BYTES).unwrap_or_else(|| "?".to_owned());
    match text.split_once(" -c ") {
        Some((shell, _)) if is_task_shell(&text) => format!("{shell} (the task's shell)"),
        _ => siding_model::text::one_line(&text, MAX_COMMAND_COLUMNS),
    }
}

/// Returns whether a command line is that of a shell that runs a task's command. The arguments of
/// this shell, and of its children until they call execve(2), are a constant text of siding that
/// tells a person nothing about the command.
fn is_task_shell(command_line: &str) -> bool {
    command_line
        .split_once(" -c ")
        .is_some_and(|(_, constant)| constant.contains(COMMAND_FD_PREFIX))
}

/// Borrows pidfds as descriptors, for poll(2).
pub fn as_borrowed_fds(held: &[PidFd]) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
    held.iter().map(AsFd::as_fd)
}
