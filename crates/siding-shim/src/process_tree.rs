//! The task's processes as this shim knows them: as its own children, or, after a rescue, as
//! strangers that carry the mark or are in its control group.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use siding_core::cgroup::TaskGroup;
use siding_core::store::StateDir;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::process::{self, ReapResult};
use siding_core::sys::{clock, procfs};
use siding_core::tree::{self, HeldProcesses, RateLimitedScan};
use siding_model::id::Birthmark;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TreeLiveness;
use siding_model::outcome::LeaderEnd;
use siding_model::process::{LeaderRef, MonotonicMs, ProcRef};

/// Strays held by descriptor at once. More are found again when these have ended.
const MAX_HELD_PIDFDS: usize = 256;
/// The same for each of many tasks: together they must not need more descriptors than there are.
const MAX_HELD_PIDFDS_SHARED: usize = 4;
/// Time between two looks while nobody can be held, in milliseconds.
const RESCAN_MS: u64 = 2_000;

/// How the task's processes are known.
#[derive(Debug)]
pub(crate) enum ProcessTree {
    /// They live below this process, a subreaper.
    Descendants {
        /// The leader, until it was reaped.
        leader: Option<LeaderRef>,
        /// When to look again, where `/proc` did not show who lives below.
        rescan_at: Option<MonotonicMs>,
    },
    /// They live below somebody else.
    Discovered {
        /// The leader, until it has ended.
        leader: LeaderHandle,
        /// Some of the others, at least one while any lives.
        held: Vec<PidFd>,
        /// The looks that are shared with the other tasks of this shim, where it has more.
        shared_scan: Option<Rc<RateLimitedScan>>,
        /// When a look may be taken that is due.
        rescan_at: Option<MonotonicMs>,
    },
}

/// A leader that is nobody's child here.
#[derive(Debug)]
pub(crate) enum LeaderHandle {
    /// It lives, or has left its status.
    Held(PidFd),
    /// The same, of a process that was adopted: it never was a child here.
    Adopted(PidFd),
    /// Most likely it: the shim died before it had noted who the leader is. What this process ends
    /// with is no evidence.
    Guessed(PidFd),
    /// It ended while nobody looked, and that has not been told yet.
    EndMissed,
    /// Its end is known, or there never was one.
    Finished,
}

impl LeaderHandle {
    /// Returns the leader on record.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being held, for want of a descriptor, say: it may live.
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

    /// Returns its end, once.
    fn take_end(&mut self) -> Option<LeaderEnd> {
        if self.pidfd().is_some_and(|held| !held.is_dead()) {
            return None;
        }
        let unknown = |why: &str| LeaderEnd::Unknown { why: why.to_owned() };
        match std::mem::replace(self, Self::Finished) {
            Self::Held(dead) => Some(dead.exit_status().unwrap_or_else(|| {
                unknown(
                    "its first shim was killed, and the status of a process that is not one's child \
                     could not be read",
                )
            })),
            Self::Adopted(dead) => Some(dead.exit_status().unwrap_or_else(|| {
                unknown(
                    "it was adopted, and this kernel tells only its parent with which status a \
                     process has ended",
                )
            })),
            Self::Guessed(_) => {
                Some(unknown("its first shim was killed before it had noted who its leader is"))
            }
            Self::EndMissed => {
                Some(unknown("its shim was killed, and it ended before another could take over"))
            }
            Self::Finished => None,
        }
    }
}

/// What a look at the tree found.
#[derive(Debug)]
pub(crate) struct TreeStatus {
    /// The leader's end, in the look that saw it.
    pub(crate) leader: Option<LeaderEnd>,
    /// What is left.
    pub(crate) tree: TreeLiveness,
}

impl ProcessTree {
    /// Returns what lives below this process, led by `leader`.
    pub(crate) const fn from_descendants(leader: Option<LeaderRef>) -> Self {
        Self::Descendants { leader, rescan_at: None }
    }

    /// Returns the strays of a task whose shim died. `known` are some of them, as somebody found
    /// them a moment ago.
    ///
    /// While one of those lives the machine need not be looked at: who is not held is found when a
    /// holder dies, and nothing is called empty before.
    pub(crate) fn discovered(
        root: &StateDir,
        task: &TaskState,
        leader: LeaderHandle,
        known: &[ProcRef],
        shared_scan: Option<Rc<RateLimitedScan>>,
    ) -> Self {
        let most = max_held_pidfds(shared_scan.as_deref());
        let known = &known[..known.len().min(most)];
        let mut held = tree::hold_processes(
            root,
            task.spec.task_id,
            TaskGroup::from_task(task).as_ref(),
            known,
        );
        held.retain(|held| held.process.pid != current_pid());
        if held.is_empty() && shared_scan.is_none() {
            // One that is not held is found by the look that comes before any verdict.
            held = HeldProcesses::hold_task(root, task, current_pid(), most).pidfds;
        }
        Self::Discovered { leader, held, shared_scan, rescan_at: None }
    }

    /// Returns the strays of a task whose leader has just been adopted.
    pub(crate) const fn adopted(leader: PidFd) -> Self {
        let leader = LeaderHandle::Adopted(leader);
        Self::Discovered { leader, held: Vec::new(), shared_scan: None, rescan_at: None }
    }

    /// Notes who the leader is, where that was not on record.
    pub(crate) fn set_leader(&mut self, found: LeaderHandle) {
        if let Self::Discovered { leader, .. } = self {
            *leader = found;
        }
    }

    /// Lets go of strays that carry this mark no more.
    pub(crate) fn drop_unmarked(&mut self, birthmark: Birthmark) {
        if let Self::Discovered { held, .. } = self {
            held.retain(|held| {
                held.is_dead() || procfs::birthmark(held.process.pid) == Some(birthmark)
            });
        }
    }

    /// Returns what to poll beside SIGCHLD.
    pub(crate) fn sources(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            // Who has died stays readable, and has been noticed.
            Self::Descendants { .. } | Self::Discovered { rescan_at: Some(_), .. } => Vec::new(),
            Self::Discovered { leader, held, .. } => leader
                .pidfd()
                .map(AsFd::as_fd)
                .into_iter()
                .chain(tree::as_borrowed_fds(held))
                .collect(),
        }
    }

    /// Whether this is a rescue.
    pub(crate) const fn is_discovered(&self) -> bool {
        matches!(self, Self::Discovered { .. })
    }

    /// Returns when to come back to [`Self::check`] whatever happens.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        match self {
            Self::Discovered { rescan_at: look_at, .. }
            | Self::Descendants { rescan_at: look_at, .. } => *look_at,
        }
    }

    /// Takes away what has died and says what is left. Nothing is new before [`Self::wake_at`],
    /// where there is such a moment afterwards.
    pub(crate) fn check(&mut self, root: &StateDir, task: &TaskState) -> TreeStatus {
        match self {
            Self::Descendants { leader, rescan_at } => {
                let (status, is_seen) = check_descendants(leader, root, task_birthmark(task));
                *rescan_at = (!is_seen).then(|| clock::monotonic_now().plus_ms(RESCAN_MS));
                status
            }
            Self::Discovered { leader, held, shared_scan, rescan_at } => {
                let found = match shared_scan {
                    Some(looks) => check_with_shared_scan(leader, held, looks, root, task),
                    None => Ok(check_discovered(leader, held, root, task, MAX_HELD_PIDFDS)),
                };
                let is_unheld = leader.pidfd().is_none() && held.is_empty();
                *rescan_at = match &found {
                    Err(at) => Some(*at),
                    // Somebody lives whom no descriptor could be had for: nothing tells of the end.
                    Ok(TreeStatus { tree: TreeLiveness::Alive, .. }) if is_unheld => {
                        Some(clock::monotonic_now().plus_ms(RESCAN_MS))
                    }
                    Ok(_) => None,
                };
                found.unwrap_or(TreeStatus { leader: None, tree: TreeLiveness::Alive })
            }
        }
    }

    /// The same without regard to others, for the kill.
    pub(crate) fn check_now(&mut self, root: &StateDir, task: &TaskState) -> TreeStatus {
        match self {
            Self::Descendants { .. } => self.check(root, task),
            Self::Discovered { leader, held, shared_scan, .. } => {
                let most = max_held_pidfds(shared_scan.as_deref());
                check_discovered(leader, held, root, task, most)
            }
        }
    }

    /// Returns the numbers of all living members, as [`Self::members`] finds them, for who only
    /// looks at them.
    pub(crate) fn member_pids(&self, root: &StateDir, task: &TaskState) -> Vec<i32> {
        self.members(root, task).into_iter().map(|process| process.pid).collect()
    }

    /// Returns all living members now, or a moment ago where looks are shared.
    pub(crate) fn members(&self, root: &StateDir, task: &TaskState) -> Vec<ProcRef> {
        match self {
            Self::Discovered { shared_scan: Some(looks), .. } => with_descendants(
                root,
                MemberFilter::for_task(task),
                looks.processes_without_shim(root, task, current_pid()),
            ),
            Self::Descendants { .. } | Self::Discovered { shared_scan: None, .. } => {
                self.scan_members(root, task)
            }
        }
    }

    /// Returns all living members now.
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

/// Returns the number of this process.
pub(crate) fn current_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}

const fn task_birthmark(task: &TaskState) -> Birthmark {
    task.spec.task_id.birthmark()
}

/// Whether nothing of the task lives below this shim, though others do. `None` where `/proc` does not
/// show the children that there are, because no descriptor is left, for example.
fn has_no_descendants(root: &StateDir, mark: Birthmark) -> Option<bool> {
    let mut are_shown = false;
    let own = procfs::descendants(current_pid(), |pid| {
        are_shown = true;
        tree::is_of_other_task(root, mark, pid)
    });
    are_shown.then_some(own.is_empty())
}

/// Returns what lives below this shim and is the task's.
fn task_descendants(root: &StateDir, mark: Birthmark) -> Vec<i32> {
    procfs::descendants(current_pid(), |pid| tree::is_of_other_task(root, mark, pid))
}

/// Returns what is left below, and whether that could be seen: if not, no signal tells when it ends.
fn check_descendants(
    leader: &mut Option<LeaderRef>,
    root: &StateDir,
    mark: Birthmark,
) -> (TreeStatus, bool) {
    let mut status = TreeStatus { leader: None, tree: TreeLiveness::Alive };
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
                return (status, true);
            }
            // Shims of tasks started inside this one are its children too, and none of its own.
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
    most: usize,
) -> TreeStatus {
    let mut status = TreeStatus { leader: leader.take_end(), tree: TreeLiveness::Alive };
    let before = held.len();
    held.retain(|held| !held.is_dead());
    if leader.pidfd().is_some() {
        // It is enough to watch one that lives: when it has ended the others are looked for.
        return status;
    }
    // Only the death of a holder can leave somebody unheld.
    if held.len() < before || held.is_empty() {
        let grip = HeldProcesses::hold_task(root, task, current_pid(), most);
        if grip.is_empty() {
            status.tree = TreeLiveness::Empty;
        }
        // Who has died since is seen at once, and looked for again: it may have moved on.
        *held = grip.pidfds;
    }
    status
}

/// As [`check_discovered`], by looks that serve other tasks too. Fails with the moment when to ask
/// again.
fn check_with_shared_scan(
    leader: &mut LeaderHandle,
    held: &mut Vec<PidFd>,
    shared_scan: &RateLimitedScan,
    root: &StateDir,
    task: &TaskState,
) -> Result<TreeStatus, MonotonicMs> {
    let mut tree = TreeLiveness::Alive;
    if held.is_empty() || held.iter().any(PidFd::is_dead) {
        let grip = shared_scan.hold_task(root, task, current_pid(), MAX_HELD_PIDFDS_SHARED)?;
        if grip.is_empty() {
            tree = TreeLiveness::Empty;
        }
        *held = grip.pidfds;
    }
    // Only now: a leader that was seen to end must not be told as one that left others behind
    // while that is not known.
    let end = leader.take_end();
    if leader.pidfd().is_some() {
        tree = TreeLiveness::Alive;
    }
    Ok(TreeStatus { leader: end, tree })
}

/// Holds the process that has this number now, if it is the task's. `None` when it is not, or there is
/// none.
fn hold_member_by_pid(root: &StateDir, task: &TaskState, pid: i32) -> io::Result<Option<PidFd>> {
    let Some(found) = PidFd::open_pid_if_present(pid)? else { return Ok(None) };
    let group = TaskGroup::from_task(task);
    Ok(tree::hold_processes(root, task.spec.task_id, group.as_ref(), &[found.process]).pop())
}

const fn max_held_pidfds(shared_scan: Option<&RateLimitedScan>) -> usize {
    if shared_scan.is_some() { MAX_HELD_PIDFDS_SHARED } else { MAX_HELD_PIDFDS }
}

/// The task that processes are looked for.
#[derive(Debug, Clone, Copy)]
struct MemberFilter {
    birthmark: Birthmark,
    /// Whether it was adopted: programs that a person wants to keep are let go of. No other task's
    /// program may leave it by taking their mark.
    skips_excluded: bool,
}

impl MemberFilter {
    const fn for_task(task: &TaskState) -> Self {
        Self { birthmark: task_birthmark(task), skips_excluded: task.adopted.is_some() }
    }
}

/// Adds to processes everything below them that is the task's. This process may be below one that
/// takes orphans in.
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
        // What is below a number that has become another's is the other's.
        if procfs::identify(process.pid) == Some(process) {
            found.extend(below.into_iter().map(|one| (one.pid, one)));
        }
    }
    found.into_values().collect()
}

/// Returns who has these numbers, of which a list said that they are below `top`, each behind the one
/// above it. Left out is who is there no more: the number of one that has ended may be anybody's.
fn identify_descendants(top: i32, below: Vec<i32>) -> Vec<ProcRef> {
    let mut known = HashSet::from([top]);
    let mut identify = |pid| {
        // Parent and start time are of one process: they are read at once.
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

    /// A process that ends with this test.
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

    /// Tasks inside are below where something in the tree takes orphans in, as PID 1 of a container.
    #[test]
    fn a_nested_task_is_not_counted_as_a_member() {
        let (outer, inner, unknown) = (task_id(92), task_id(91), task_id(90));
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        root.mark_live(inner).expect("own directory");
        // Each ends with the pipe that it reads from. The innermost carries no mark of a task.
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
        assert_eq!((other, found.len(), pids.len()), (1, 2, 3), "a mark alone spares nobody");
        // Its number was another's when it was seen: those below are not this one's.
        let earlier = ProcRef { start_ticks: top.start_ticks - 1, ..top };
        assert_eq!(with_descendants(&root, filter, vec![earlier]), [earlier]);
        assert!(matches!(PidFd::open_if_alive(earlier), Ok(None)), "nobody is signalled for it");
        let unrelated = procfs::self_ref().expect("this process");
        let below = found.iter().map(|one| one.pid).filter(|pid| *pid != top.pid);
        let listed: Vec<i32> = below.chain([unrelated.pid]).collect();
        assert!(!identify_descendants(top.pid, listed).contains(&unrelated), "no more below it");
    }
}
