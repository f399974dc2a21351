//! The task's processes: descendants of the shim that started the task, or, after a takeover or an
//! adoption, processes that carry the task's birthmark or are in its control group.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use siding_core::processes::cgroup::TaskGroup;
use siding_core::processes::tree::{self, HeldProcesses, RateLimitedScan};
use siding_core::store::StateDir;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::process::{self, ReapResult};
use siding_core::sys::{clock, procfs};
use siding_model::id::Birthmark;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TreeLiveness;
use siding_model::outcome::LeaderEnd;
use siding_model::process::{LeaderRef, MonotonicMs, ProcRef};

/// Maximum number of processes of a task for which a pidfd is open. The scan after the end of one
/// of these processes finds the processes without a pidfd.
const MAX_HELD_PIDFDS: usize = 256;
/// The same limit for each of the tasks that share a shim: together the tasks must not exhaust the
/// shim's descriptors.
const MAX_HELD_PIDFDS_SHARED: usize = 4;
/// Time until the next scan, in milliseconds, while no descriptor reports the end of a process: no
/// pidfd could be opened, or `/proc` did not show the children.
const RESCAN_MS: u64 = 2_000;

/// The processes of a task, by the way in which the shim finds them.
#[derive(Debug)]
pub(crate) enum ProcessTree {
    /// The descendants of this process, which is a subreaper.
    Descendants {
        /// The leader, until it is reaped.
        leader: Option<LeaderRef>,
        /// The time of the next scan, if `/proc` did not show the children.
        rescan_at: Option<MonotonicMs>,
        /// Whether this process had children at the last check. If the tree is empty, these are
        /// shims of nested tasks.
        has_children: bool,
    },
    /// Processes that are not descendants of this process.
    Discovered {
        /// The leader, or what is known about its end.
        leader: LeaderHandle,
        /// Pidfds of some of the other processes. May be empty although such processes live: while
        /// the leader lives, before the first shared scan, or while no descriptor is free.
        held: Vec<PidFd>,
        /// The scans that the tasks of this shim share, if it has several.
        shared_scan: Option<Rc<RateLimitedScan>>,
        /// The time of the next scan, if no descriptor reports the end of the processes or a scan
        /// was postponed.
        rescan_at: Option<MonotonicMs>,
    },
}

/// A leader that is not a child of this process.
#[derive(Debug)]
pub(crate) enum LeaderHandle {
    /// The recorded leader, which was alive or not yet reaped when its pidfd was opened.
    Held(PidFd),
    /// Like [`Self::Held`], for a process that this shim adopted, and that was never a shim's
    /// child.
    Adopted(PidFd),
    /// The process that is most likely the leader: the shim died before it recorded the leader. The
    /// exit status of this process does not prove how the leader ended.
    Guessed(PidFd),
    /// The leader ended while no shim supervised it. This end is not recorded yet.
    EndMissed,
    /// There is no end to report: it is known, the leader is unknown, or the caller needs no
    /// report.
    Finished,
}

impl LeaderHandle {
    /// Opens a pidfd of the recorded leader. Returns [`Self::EndMissed`] if the leader no longer
    /// exists.
    ///
    /// # Errors
    ///
    /// The error of pidfd_open(2), for example because no descriptor is free. The leader may live.
    pub(crate) fn from_record(
        root: &StateDir,
        task: &TaskState,
        leader: LeaderRef,
    ) -> io::Result<Self> {
        let found = match leader {
            LeaderRef::Identified(process) => PidFd::open_if_present(process)?,
            LeaderRef::Unidentified { pid } => hold_member_by_pid(root, task, pid)?,
        };
        Ok(found.map_or(Self::EndMissed, Self::Held))
    }

    const fn pidfd(&self) -> Option<&PidFd> {
        match self {
            Self::Held(held) | Self::Adopted(held) | Self::Guessed(held) => Some(held),
            Self::EndMissed | Self::Finished => None,
        }
    }

    /// Returns the leader's end, once; `None` while the leader lives.
    fn take_end(&mut self) -> Option<LeaderEnd> {
        if self.pidfd().is_some_and(|held| !held.is_dead()) {
            return None;
        }
        let unknown = |why: &str| LeaderEnd::Unknown { why: why.to_owned() };
        match std::mem::replace(self, Self::Finished) {
            Self::Held(dead) => Some(dead.exit_status().unwrap_or_else(|| {
                unknown(
                    "its first shim was killed, and the new shim could not read the exit status of a \
                     process that is not its child",
                )
            })),
            Self::Adopted(dead) => Some(dead.exit_status().unwrap_or_else(|| {
                unknown(
                    "it was adopted, and this kernel reports the exit status of a process only to \
                     its parent",
                )
            })),
            Self::Guessed(_) => {
                Some(unknown("its first shim was killed before it recorded the task's leader"))
            }
            Self::EndMissed => Some(unknown(
                "its shim was killed, and the command ended before another shim could take over",
            )),
            Self::Finished => None,
        }
    }
}

/// The state of the tree and the leader, as a check found them.
#[derive(Debug)]
pub(crate) struct TreeStatus {
    /// The leader's end, if this check found it.
    pub(crate) leader: Option<LeaderEnd>,
    /// Whether any process is left.
    pub(crate) tree: TreeLiveness,
}

impl ProcessTree {
    /// Returns the tree of a task whose `leader` is a child of this process.
    pub(crate) const fn from_descendants(leader: Option<LeaderRef>) -> Self {
        Self::Descendants { leader, rescan_at: None, has_children: false }
    }

    /// Returns the tree of a task whose processes are not children of this shim. `known` are the
    /// processes of the task that the starter of this shim has found, if any.
    ///
    /// While all processes with an open pidfd live, no scan of the whole system is necessary: the
    /// tree cannot be empty, and the scan after the end of one of them finds the others.
    pub(crate) fn discovered(
        root: &StateDir,
        task: &TaskState,
        leader: LeaderHandle,
        known: &[ProcRef],
        shared_scan: Option<Rc<RateLimitedScan>>,
    ) -> Self {
        let max_held = max_held_pidfds(shared_scan.as_deref());
        let known = &known[..known.len().min(max_held)];
        let mut held = tree::hold_processes(
            root,
            task.spec.task_id,
            TaskGroup::from_task(task).as_ref(),
            known,
        );
        held.retain(|held| held.process.pid != current_pid());
        if held.is_empty() && shared_scan.is_none() {
            // A process that is missed here is found by the scan before the tree is called empty.
            held = HeldProcesses::hold_task(root, task, current_pid(), max_held).pidfds;
        }
        Self::Discovered { leader, held, shared_scan, rescan_at: None }
    }

    /// Returns the tree of a task whose leader has just been adopted.
    pub(crate) const fn adopted(leader: PidFd) -> Self {
        let leader = LeaderHandle::Adopted(leader);
        Self::Discovered { leader, held: Vec::new(), shared_scan: None, rescan_at: None }
    }

    /// Sets the leader of a task whose shim died before it recorded the leader.
    pub(crate) fn set_leader(&mut self, found: LeaderHandle) {
        if let Self::Discovered { leader, .. } = self {
            *leader = found;
        }
    }

    /// Drops the pidfds of live processes that no longer carry this birthmark.
    pub(crate) fn drop_unmarked(&mut self, birthmark: Birthmark) {
        if let Self::Discovered { held, .. } = self {
            held.retain(|held| {
                held.is_dead() || procfs::birthmark(held.process.pid) == Some(birthmark)
            });
        }
    }

    /// Returns the descriptors to poll in addition to SIGCHLD.
    pub(crate) fn sources(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            // SIGCHLD reports the end of a child. While a scan is scheduled, no pidfd is polled:
            // that of a process that has ended stays readable, and would wake the shim without a
            // pause.
            Self::Descendants { .. } | Self::Discovered { rescan_at: Some(_), .. } => Vec::new(),
            Self::Discovered { leader, held, .. } => leader
                .pidfd()
                .map(AsFd::as_fd)
                .into_iter()
                .chain(tree::as_borrowed_fds(held))
                .collect(),
        }
    }

    /// Returns whether the processes are not descendants of this shim.
    pub(crate) const fn is_discovered(&self) -> bool {
        matches!(self, Self::Discovered { .. })
    }

    /// Returns the proof, in words, that the tree is empty, if the last check found it empty.
    pub(crate) fn proof(&self, task: &TaskState) -> &'static str {
        match self {
            Self::Descendants { has_children: false, .. } => "ECHILD",
            Self::Descendants { .. } => "no descendant of its shim belongs to it",
            Self::Discovered { .. } => tree::proof_without_shim(task),
        }
    }

    /// Returns the time of the next [`Self::check`]; `None` if the sources or SIGCHLD report when a
    /// check is due.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        match self {
            Self::Discovered { rescan_at, .. } | Self::Descendants { rescan_at, .. } => *rescan_at,
        }
    }

    /// Returns the status of the leader and the tree. If the processes are descendants of this
    /// shim, first reaps the children that have ended. The tree counts as alive while this is
    /// unknown. If [`Self::wake_at`] returns a time afterwards, the sources may not report the next
    /// end, and the next check is due at that time.
    pub(crate) fn check(&mut self, root: &StateDir, task: &TaskState) -> TreeStatus {
        match self {
            Self::Descendants { leader, rescan_at, has_children } => {
                let mark = task_birthmark(task);
                let (status, is_seen) = check_descendants(leader, has_children, root, mark);
                *rescan_at = (!is_seen).then(|| clock::monotonic_now().plus_ms(RESCAN_MS));
                status
            }
            Self::Discovered { leader, held, shared_scan, rescan_at } => {
                let found = match shared_scan {
                    Some(scan) => check_with_shared_scan(leader, held, scan, root, task),
                    None => Ok(check_discovered(leader, held, root, task, MAX_HELD_PIDFDS)),
                };
                let is_unheld = leader.pidfd().is_none() && held.is_empty();
                *rescan_at = match &found {
                    Err(at) => Some(*at),
                    // No pidfd could be opened for a live process, so no descriptor reports
                    // its end.
                    Ok(TreeStatus { tree: TreeLiveness::Alive, .. }) if is_unheld => {
                        Some(clock::monotonic_now().plus_ms(RESCAN_MS))
                    }
                    Ok(_) => None,
                };
                found.unwrap_or(TreeStatus { leader: None, tree: TreeLiveness::Alive })
            }
        }
    }

    /// Like [`Self::check`], with a scan for this task alone, which is never postponed: a kill
    /// cannot wait for a shared scan.
    pub(crate) fn check_now(&mut self, root: &StateDir, task: &TaskState) -> TreeStatus {
        match self {
            Self::Descendants { .. } => self.check(root, task),
            Self::Discovered { leader, held, shared_scan, .. } => {
                let max_held = max_held_pidfds(shared_scan.as_deref());
                check_discovered(leader, held, root, task, max_held)
            }
        }
    }

    /// Returns the pids of all live members, as [`Self::members`] finds them. Only for
    /// measurements: a pid may be reused.
    pub(crate) fn member_pids(&self, root: &StateDir, task: &TaskState) -> Vec<i32> {
        self.members(root, task).into_iter().map(|process| process.pid).collect()
    }

    /// Returns all live members. With shared scans, the last scan may be a moment old.
    pub(crate) fn members(&self, root: &StateDir, task: &TaskState) -> Vec<ProcRef> {
        match self {
            Self::Discovered { shared_scan: Some(scan), .. } => with_descendants(
                root,
                MemberFilter::for_task(task),
                scan.processes_without_shim(root, task, current_pid()),
            ),
            Self::Descendants { .. } | Self::Discovered { shared_scan: None, .. } => {
                self.scan_members(root, task)
            }
        }
    }

    /// Scans for all live members.
    pub(crate) fn scan_members(&self, root: &StateDir, task: &TaskState) -> Vec<ProcRef> {
        match self {
            Self::Descendants { .. } => {
                identify_descendants(current_pid(), task_descendants(root, task_birthmark(task)))
            }
            Self::Discovered { .. } => with_descendants(
                root,
                MemberFilter::for_task(task),
                tree::processes_without_shim(root, task, current_pid()),
            ),
        }
    }
}

/// Returns the pid of this process.
pub(crate) fn current_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}

const fn task_birthmark(task: &TaskState) -> Birthmark {
    task.spec.task_id.birthmark()
}

/// Returns whether no descendant of this shim is a process of the task. Must be called only for a
/// shim that has children, which may all be shims of nested tasks. Returns `None` if `/proc` does
/// not show the children, for example because no descriptor is free.
fn has_no_descendants(root: &StateDir, mark: Birthmark) -> Option<bool> {
    let mut are_shown = false;
    let own = procfs::descendants(current_pid(), |pid| {
        are_shown = true;
        tree::is_of_other_task(root, mark, pid)
    });
    are_shown.then_some(own.is_empty())
}

/// Returns the descendants of this shim that are processes of the task.
fn task_descendants(root: &StateDir, mark: Birthmark) -> Vec<i32> {
    procfs::descendants(current_pid(), |pid| tree::is_of_other_task(root, mark, pid))
}

/// Reaps children. Returns the status of the leader and the tree, and false if the descendants had
/// to be read but could not. In that case, no signal reports the end of the last process.
fn check_descendants(
    leader: &mut Option<LeaderRef>,
    has_children: &mut bool,
    root: &StateDir,
    mark: Birthmark,
) -> (TreeStatus, bool) {
    let mut status = TreeStatus { leader: None, tree: TreeLiveness::Alive };
    *has_children = true;
    loop {
        match process::reap_one() {
            Ok(ReapResult::Child { pid, end }) => {
                if leader.is_some_and(|leader| leader.pid() == pid) {
                    *leader = None;
                    status.leader = Some(end);
                }
            }
            Ok(ReapResult::NoChildren) => {
                status.tree = TreeLiveness::Empty;
                *has_children = false;
                return (status, true);
            }
            // The shims of tasks that were started inside this task are also children of this
            // subreaper, but are not processes of its task.
            Ok(ReapResult::NoneExited) | Err(_) => {
                let is_none =
                    if leader.is_none() { has_no_descendants(root, mark) } else { Some(false) };
                if is_none == Some(true) {
                    status.tree = TreeLiveness::Empty;
                }
                return (status, is_none.is_some());
            }
        }
    }
}

fn check_discovered(
    leader: &mut LeaderHandle,
    held: &mut Vec<PidFd>,
    root: &StateDir,
    task: &TaskState,
    max_held: usize,
) -> TreeStatus {
    let mut status = TreeStatus { leader: leader.take_end(), tree: TreeLiveness::Alive };
    let before = held.len();
    held.retain(|held| !held.is_dead());
    if leader.pidfd().is_some() {
        // While the leader lives, the tree is alive, and needs no scan for other processes.
        return status;
    }
    // While all processes with an open pidfd live, the tree is alive, and needs no scan.
    if held.len() < before || held.is_empty() {
        let found = HeldProcesses::hold_task(root, task, current_pid(), max_held);
        if found.is_empty() {
            status.tree = TreeLiveness::Empty;
        }
        // The pidfd of a process that has ended since the scan is readable, and causes another
        // scan: the process may have forked before it ended.
        *held = found.pidfds;
    }
    status
}

/// Like [`check_discovered`], with scans that also serve the other tasks of this shim. Fails with
/// the time of the next scan if the last scan is too recent.
fn check_with_shared_scan(
    leader: &mut LeaderHandle,
    held: &mut Vec<PidFd>,
    shared_scan: &RateLimitedScan,
    root: &StateDir,
    task: &TaskState,
) -> Result<TreeStatus, MonotonicMs> {
    let mut tree = TreeLiveness::Alive;
    if held.is_empty() || held.iter().any(PidFd::is_dead) {
        let found = shared_scan.hold_task(root, task, current_pid(), MAX_HELD_PIDFDS_SHARED)?;
        if found.is_empty() {
            tree = TreeLiveness::Empty;
        }
        *held = found.pidfds;
    }
    // The leader's end is read after the scan, because the end must not be recorded before it is
    // known whether the leader left processes behind.
    let end = leader.take_end();
    if leader.pidfd().is_some() {
        tree = TreeLiveness::Alive;
    }
    Ok(TreeStatus { leader: end, tree })
}

/// Opens a pidfd of the process that has this pid now. `None` if there is no such process, or if it
/// is not a process of the task.
fn hold_member_by_pid(root: &StateDir, task: &TaskState, pid: i32) -> io::Result<Option<PidFd>> {
    let Some(found) = PidFd::open_pid_if_present(pid)? else { return Ok(None) };
    let group = TaskGroup::from_task(task);
    Ok(tree::hold_processes(root, task.spec.task_id, group.as_ref(), &[found.process]).pop())
}

const fn max_held_pidfds(shared_scan: Option<&RateLimitedScan>) -> usize {
    if shared_scan.is_some() { MAX_HELD_PIDFDS_SHARED } else { MAX_HELD_PIDFDS }
}

/// Decides whether a process is a member of a task.
#[derive(Debug, Clone, Copy)]
struct MemberFilter {
    birthmark: Birthmark,
    /// Whether released programs are skipped. Only adopted tasks have released programs. In every
    /// other task, a program must not be able to leave the task by setting the mark of a released
    /// program.
    skips_excluded: bool,
}

impl MemberFilter {
    const fn for_task(task: &TaskState) -> Self {
        Self { birthmark: task_birthmark(task), skips_excluded: task.adopted.is_some() }
    }
}

/// Adds the descendants of `processes`, except those of other tasks. This shim is skipped: it may
/// be a descendant of a member that is a subreaper.
fn with_descendants(
    root: &StateDir,
    filter: MemberFilter,
    processes: Vec<ProcRef>,
) -> Vec<ProcRef> {
    let MemberFilter { birthmark, skips_excluded } = filter;
    let is_excluded = |pid| skips_excluded && procfs::birthmark(pid) == Some(Birthmark::RELEASED);
    let is_skipped = |pid| {
        pid == current_pid() || is_excluded(pid) || tree::is_of_other_task(root, birthmark, pid)
    };
    let mut found = BTreeMap::new();
    for process in processes {
        let below = identify_descendants(process.pid, procfs::descendants(process.pid, is_skipped));
        found.insert(process.pid, process);
        // If the pid was reused, the descendants belong to the new process.
        if procfs::identify(process.pid) == Some(process) {
            found.extend(below.into_iter().map(|one| (one.pid, one)));
        }
    }
    found.into_values().collect()
}

/// Identifies the processes with the pids `below`, the descendants of `top` in an order in which
/// each follows its parent. A pid whose process is no longer a descendant of `top` is omitted,
/// because the pid may have been reused.
fn identify_descendants(top: i32, below: Vec<i32>) -> Vec<ProcRef> {
    let mut known = HashSet::from([top]);
    let mut identify = |pid| {
        // Parent and start time come from the same read, so they belong to the same process.
        let stat = procfs::stat(pid).filter(|stat| known.contains(&stat.ppid))?;
        known.insert(pid);
        Some(ProcRef { pid, start_ticks: stat.start_ticks })
    };
    below.into_iter().filter_map(&mut identify).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use siding_model::id::{TaskId, TaskKind};

    use super::*;

    /// A process that is killed at the end of the test.
    struct KillOnDrop(Child);

    impl Drop for KillOnDrop {
        fn drop(&mut self) {
            let _already_ended = self.0.kill();
            let _best_effort = self.0.wait();
        }
    }

    fn task_id(number: u64) -> TaskId {
        TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS + number).expect("small")
    }

    /// Nested tasks are descendants of a member if the member is a subreaper, such as PID 1 of a
    /// container.
    #[test]
    fn a_nested_task_is_not_counted_as_a_member() {
        let (outer, inner, unknown) = (task_id(92), task_id(91), task_id(90));
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        root.mark_live(inner).expect("own directory");
        // Each process ends when the pipe is closed. One process below the nested task, and one
        // directly below the outer task, have the mark of an unknown task.
        let marked = |id: TaskId, then: &str| {
            let mark = id.birthmark().0;
            format!("(ulimit -R {mark}; echo $BASHPID; {then} read -r _ <&3) & ")
        };
        let below_inner = marked(unknown, "");
        let text = format!(
            "exec 3<&0; ulimit -R {}; {}{}read -r _",
            outer.birthmark().0,
            marked(inner, &below_inner),
            marked(unknown, ""),
        );
        let mut command = Command::new("bash");
        command.args(["-c", &text]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = KillOnDrop(command.spawn().expect("there is a bash"));
        let out = shell.0.stdout.take().expect("is piped");
        let pids: Vec<i32> = BufReader::new(out)
            .lines()
            .take(3)
            .map(|line| line.expect("text").parse().expect("a process"))
            .collect();
        let top = procfs::identify(i32::try_from(shell.0.id()).expect("fits")).expect("it lives");
        let filter = MemberFilter { birthmark: outer.birthmark(), skips_excluded: false };
        let has = |one: &ProcRef, id: TaskId| procfs::birthmark(one.pid) == Some(id.birthmark());
        let found = with_descendants(&root, filter, vec![top]);
        assert!(found.contains(&top) && !found.iter().any(|one| has(one, inner)), "{found:?}");
        let other = found.iter().filter(|one| has(one, unknown)).count();
        assert_eq!((other, found.len(), pids.len()), (1, 2, 3), "a mark alone excludes no process");
        // A pid that was reused since the scan: the descendants are not the task's.
        let earlier = ProcRef { start_ticks: top.start_ticks - 1, ..top };
        assert_eq!(with_descendants(&root, filter, vec![earlier]), [earlier]);
        assert!(
            matches!(PidFd::open_if_alive(earlier), Ok(None)),
            "the new process is not signaled"
        );
        let unrelated = procfs::self_ref().expect("this process");
        let below = found.iter().map(|one| one.pid).filter(|pid| *pid != top.pid);
        let listed: Vec<i32> = below.chain([unrelated.pid]).collect();
        assert!(!identify_descendants(top.pid, listed).contains(&unrelated), "not a descendant");
    }
}
