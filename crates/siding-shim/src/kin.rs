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
const HELD: usize = 256;
/// The same for each of many tasks: together they must not need more descriptors than there are.
const HELD_OF_MANY: usize = 4;
/// Time between two looks while nobody can be held, in milliseconds.
const UNHELD_MS: u64 = 2_000;

/// How the task's processes are known.
#[derive(Debug)]
pub(crate) enum Kin {
    /// They live below this process, a subreaper.
    Below {
        /// The leader, until it was reaped.
        leader: Option<LeaderRef>,
        /// When to look again, where `/proc` did not show who lives below.
        look_at: Option<MonotonicMs>,
    },
    /// They live below somebody else.
    Strays {
        /// The leader, until it has ended.
        leader: Stranger,
        /// Some of the others, at least one while any lives.
        held: Vec<PidFd>,
        /// The looks that are shared with the other tasks of this shim, where it has more.
        looks: Option<Rc<RateLimitedScan>>,
        /// When a look may be taken that is due.
        look_at: Option<MonotonicMs>,
    },
}

/// A leader that is nobody's child here.
#[derive(Debug)]
pub(crate) enum Stranger {
    /// It lives, or has left its status.
    Held(PidFd),
    /// The same, of a process that was adopted: it never was a child here.
    Adopted(PidFd),
    /// Most likely it: the shim died before it had noted who the leader is. What this process ends
    /// with is no evidence.
    Guessed(PidFd),
    /// It ended while nobody looked, and that has not been told yet.
    Missed,
    /// Its end is known, or there never was one.
    Gone,
}

impl Stranger {
    /// Returns the leader on record.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being held, for want of a descriptor, say: it may live.
    pub(crate) fn of_record(
        root: &StateDir,
        task: &TaskState,
        leader: LeaderRef,
    ) -> io::Result<Self> {
        let found = match leader {
            LeaderRef::Identified(process) => PidFd::open_if_present(process)?,
            LeaderRef::Unidentified { pid } => member_of_number(root, task, pid)?,
        };
        Ok(found.map_or(Self::Missed, Self::Held))
    }

    const fn held(&self) -> Option<&PidFd> {
        match self {
            Self::Held(held) | Self::Adopted(held) | Self::Guessed(held) => Some(held),
            Self::Missed | Self::Gone => None,
        }
    }

    /// Returns its end, once.
    fn take_end(&mut self) -> Option<LeaderEnd> {
        if self.held().is_some_and(|held| !held.is_dead()) {
            return None;
        }
        let unknown = |why: &str| LeaderEnd::Unknown { why: why.to_owned() };
        match std::mem::replace(self, Self::Gone) {
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
            Self::Missed => {
                Some(unknown("its shim was killed, and it ended before another could take over"))
            }
            Self::Gone => None,
        }
    }
}

/// What a look at the tree found.
#[derive(Debug)]
pub(crate) struct Look {
    /// The leader's end, in the look that saw it.
    pub(crate) leader: Option<LeaderEnd>,
    /// What is left.
    pub(crate) tree: TreeLiveness,
}

impl Kin {
    /// Returns what lives below this process, led by `leader`.
    pub(crate) const fn below(leader: Option<LeaderRef>) -> Self {
        Self::Below { leader, look_at: None }
    }

    /// Returns the strays of a task whose shim died. `known` are some of them, as somebody found
    /// them a moment ago.
    ///
    /// While one of those lives the machine need not be looked at: who is not held is found when a
    /// holder dies, and nothing is called empty before.
    pub(crate) fn strays(
        root: &StateDir,
        task: &TaskState,
        leader: Stranger,
        known: &[ProcRef],
        looks: Option<Rc<RateLimitedScan>>,
    ) -> Self {
        let most = most_held(looks.as_deref());
        let known = &known[..known.len().min(most)];
        let mut held = tree::hold_processes(
            root,
            task.spec.task_id,
            TaskGroup::from_task(task).as_ref(),
            known,
        );
        held.retain(|held| held.process.pid != own_pid());
        if held.is_empty() && looks.is_none() {
            // One that is not held is found by the look that comes before any verdict.
            held = HeldProcesses::hold_task(root, task, own_pid(), most).pidfds;
        }
        Self::Strays { leader, held, looks, look_at: None }
    }

    /// Returns the strays of a task whose leader has just been adopted.
    pub(crate) const fn adopted(leader: PidFd) -> Self {
        let leader = Stranger::Adopted(leader);
        Self::Strays { leader, held: Vec::new(), looks: None, look_at: None }
    }

    /// Notes who the leader is, where that was not on record.
    pub(crate) fn led_by(&mut self, found: Stranger) {
        if let Self::Strays { leader, .. } = self {
            *leader = found;
        }
    }

    /// Lets go of strays that carry this mark no more.
    pub(crate) fn forget_unmarked(&mut self, mark: Birthmark) {
        if let Self::Strays { held, .. } = self {
            held.retain(|held| held.is_dead() || procfs::birthmark(held.process.pid) == Some(mark));
        }
    }

    /// Returns what to poll beside SIGCHLD.
    pub(crate) fn sources(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            // Who has died stays readable, and has been noticed.
            Self::Below { .. } | Self::Strays { look_at: Some(_), .. } => Vec::new(),
            Self::Strays { leader, held, .. } => leader
                .held()
                .map(AsFd::as_fd)
                .into_iter()
                .chain(tree::as_borrowed_fds(held))
                .collect(),
        }
    }

    /// Whether this is a rescue.
    pub(crate) const fn are_strays(&self) -> bool {
        matches!(self, Self::Strays { .. })
    }

    /// Returns when to come back to [`Self::look`] whatever happens.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        match self {
            Self::Strays { look_at, .. } | Self::Below { look_at, .. } => *look_at,
        }
    }

    /// Takes away what has died and says what is left. Nothing is new before [`Self::wake_at`],
    /// where there is such a moment afterwards.
    pub(crate) fn look(&mut self, root: &StateDir, task: &TaskState) -> Look {
        match self {
            Self::Below { leader, look_at } => {
                let (look, is_seen) = look_below(leader, root, mark_of(task));
                *look_at = (!is_seen).then(|| clock::monotonic_now().plus_ms(UNHELD_MS));
                look
            }
            Self::Strays { leader, held, looks, look_at } => {
                let found = match looks {
                    Some(looks) => look_with_others(leader, held, looks, root, task),
                    None => Ok(look_at_strays(leader, held, root, task, HELD)),
                };
                let is_unheld = leader.held().is_none() && held.is_empty();
                *look_at = match &found {
                    Err(at) => Some(*at),
                    // Somebody lives whom no descriptor could be had for: nothing tells of the end.
                    Ok(Look { tree: TreeLiveness::Alive, .. }) if is_unheld => {
                        Some(clock::monotonic_now().plus_ms(UNHELD_MS))
                    }
                    Ok(_) => None,
                };
                found.unwrap_or(Look { leader: None, tree: TreeLiveness::Alive })
            }
        }
    }

    /// The same without regard to others, for the kill.
    pub(crate) fn look_now(&mut self, root: &StateDir, task: &TaskState) -> Look {
        match self {
            Self::Below { .. } => self.look(root, task),
            Self::Strays { leader, held, looks, .. } => {
                let most = most_held(looks.as_deref());
                look_at_strays(leader, held, root, task, most)
            }
        }
    }

    /// Returns the numbers of all living members, as [`Self::members`] finds them, for who only
    /// looks at them.
    pub(crate) fn numbers(&self, root: &StateDir, task: &TaskState) -> Vec<i32> {
        self.members(root, task).into_iter().map(|process| process.pid).collect()
    }

    /// Returns all living members now, or a moment ago where looks are shared.
    pub(crate) fn members(&self, root: &StateDir, task: &TaskState) -> Vec<ProcRef> {
        match self {
            Self::Strays { looks: Some(looks), .. } => with_all_below(
                root,
                Whose::of(task),
                looks.processes_without_shim(root, task, own_pid()),
            ),
            Self::Below { .. } | Self::Strays { looks: None, .. } => self.members_now(root, task),
        }
    }

    /// Returns all living members now.
    pub(crate) fn members_now(&self, root: &StateDir, task: &TaskState) -> Vec<ProcRef> {
        match self {
            Self::Below { .. } => identified(own_pid(), below(root, mark_of(task))),
            Self::Strays { .. } => with_all_below(
                root,
                Whose::of(task),
                tree::processes_without_shim(root, task, own_pid()),
            ),
        }
    }
}

/// Returns the number of this process.
pub(crate) fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}

const fn mark_of(task: &TaskState) -> Birthmark {
    task.spec.task_id.birthmark()
}

/// Whether nothing of the task lives below this shim, though others do. `None` where `/proc` does not
/// show the children that there are, because no descriptor is left, for example.
fn is_none_below(root: &StateDir, mark: Birthmark) -> Option<bool> {
    let mut are_shown = false;
    let own = procfs::descendants(own_pid(), |pid| {
        are_shown = true;
        tree::is_of_other_task(root, mark, pid)
    });
    are_shown.then_some(own.is_empty())
}

/// Returns what lives below this shim and is the task's.
fn below(root: &StateDir, mark: Birthmark) -> Vec<i32> {
    procfs::descendants(own_pid(), |pid| tree::is_of_other_task(root, mark, pid))
}

/// Returns what is left below, and whether that could be seen: if not, no signal tells when it ends.
fn look_below(leader: &mut Option<LeaderRef>, root: &StateDir, mark: Birthmark) -> (Look, bool) {
    let mut look = Look { leader: None, tree: TreeLiveness::Alive };
    loop {
        match process::reap_one() {
            Ok(ReapResult::Child { pid, end }) => {
                if leader.is_some_and(|leader| leader.pid() == pid) {
                    *leader = None;
                    look.leader = Some(end);
                }
            }
            Ok(ReapResult::NoChildren) => {
                look.tree = TreeLiveness::Empty;
                return (look, true);
            }
            // Shims of tasks started inside this one are its children too, and none of its own.
            Ok(ReapResult::NoneExited) | Err(_) => {
                let is_none =
                    if leader.is_none() { is_none_below(root, mark) } else { Some(false) };
                if is_none == Some(true) {
                    look.tree = TreeLiveness::Empty;
                }
                return (look, is_none.is_some());
            }
        }
    }
}

fn look_at_strays(
    leader: &mut Stranger,
    held: &mut Vec<PidFd>,
    root: &StateDir,
    task: &TaskState,
    most: usize,
) -> Look {
    let mut look = Look { leader: leader.take_end(), tree: TreeLiveness::Alive };
    let before = held.len();
    held.retain(|held| !held.is_dead());
    if leader.held().is_some() {
        // It is enough to watch one that lives: when it has ended the others are looked for.
        return look;
    }
    // Only the death of a holder can leave somebody unheld.
    if held.len() < before || held.is_empty() {
        let grip = HeldProcesses::hold_task(root, task, own_pid(), most);
        if grip.is_empty() {
            look.tree = TreeLiveness::Empty;
        }
        // Who has died since is seen at once, and looked for again: it may have moved on.
        *held = grip.pidfds;
    }
    look
}

/// As [`look_at_strays`], by looks that serve other tasks too. Fails with the moment when to ask
/// again.
fn look_with_others(
    leader: &mut Stranger,
    held: &mut Vec<PidFd>,
    looks: &RateLimitedScan,
    root: &StateDir,
    task: &TaskState,
) -> Result<Look, MonotonicMs> {
    let mut tree = TreeLiveness::Alive;
    if held.is_empty() || held.iter().any(PidFd::is_dead) {
        let grip = looks.hold_task(root, task, own_pid(), HELD_OF_MANY)?;
        if grip.is_empty() {
            tree = TreeLiveness::Empty;
        }
        *held = grip.pidfds;
    }
    // Only now: a leader that was seen to end must not be told as one that left others behind
    // while that is not known.
    let end = leader.take_end();
    if leader.held().is_some() {
        tree = TreeLiveness::Alive;
    }
    Ok(Look { leader: end, tree })
}

/// Holds the process that has this number now, if it is the task's. `None` when it is not, or there is
/// none.
fn member_of_number(root: &StateDir, task: &TaskState, pid: i32) -> io::Result<Option<PidFd>> {
    let Some(found) = PidFd::open_pid_if_present(pid)? else { return Ok(None) };
    let group = TaskGroup::from_task(task);
    Ok(tree::hold_processes(root, task.spec.task_id, group.as_ref(), &[found.process]).pop())
}

const fn most_held(looks: Option<&RateLimitedScan>) -> usize {
    if looks.is_some() { HELD_OF_MANY } else { HELD }
}

/// The task that processes are looked for.
#[derive(Debug, Clone, Copy)]
struct Whose {
    mark: Birthmark,
    /// Whether it was adopted: programs that a person wants to keep are let go of. No other task's
    /// program may leave it by taking their mark.
    lets_go: bool,
}

impl Whose {
    const fn of(task: &TaskState) -> Self {
        Self { mark: mark_of(task), lets_go: task.adopted.is_some() }
    }
}

/// Adds to processes everything below them that is the task's. This process may be below one that
/// takes orphans in.
fn with_all_below(root: &StateDir, whose: Whose, strays: Vec<ProcRef>) -> Vec<ProcRef> {
    let Whose { mark, lets_go } = whose;
    let is_let_go = |pid| lets_go && procfs::birthmark(pid) == Some(Birthmark::RELEASED);
    let is_spared =
        |pid| pid == own_pid() || is_let_go(pid) || tree::is_of_other_task(root, mark, pid);
    let mut found = BTreeMap::new();
    for process in strays {
        let below = identified(process.pid, procfs::descendants(process.pid, is_spared));
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
fn identified(top: i32, below: Vec<i32>) -> Vec<ProcRef> {
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
    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ended_already = self.0.kill();
            let _status = self.0.wait();
        }
    }

    fn id(number: u64) -> TaskId {
        TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS + number).expect("small")
    }

    /// Tasks inside are below where something in the tree takes orphans in, as PID 1 of a container.
    #[test]
    fn a_task_inside_is_not_counted_in() {
        let (outer, inner, unknown) = (id(92), id(91), id(90));
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
        let mut shell = Ended(command.spawn().expect("there is a bash"));
        let out = shell.0.stdout.take().expect("is piped");
        let told: Vec<i32> = BufReader::new(out)
            .lines()
            .take(3)
            .map(|line| line.expect("text").parse().expect("a process"))
            .collect();
        let top = procfs::identify(i32::try_from(shell.0.id()).expect("fits")).expect("it lives");
        let whose = Whose { mark: outer.birthmark(), lets_go: false };
        let has = |one: &ProcRef, id: TaskId| procfs::birthmark(one.pid) == Some(id.birthmark());
        let found = with_all_below(&root, whose, vec![top]);
        assert!(found.contains(&top) && !found.iter().any(|one| has(one, inner)), "{found:?}");
        let other = found.iter().filter(|one| has(one, unknown)).count();
        assert_eq!((other, found.len(), told.len()), (1, 2, 3), "a mark alone spares nobody");
        // Its number was another's when it was seen: those below are not this one's.
        let earlier = ProcRef { start_ticks: top.start_ticks - 1, ..top };
        assert_eq!(with_all_below(&root, whose, vec![earlier]), [earlier]);
        assert!(matches!(PidFd::open_if_alive(earlier), Ok(None)), "nobody is signalled for it");
        let stranger = procfs::self_ref().expect("this process");
        let below = found.iter().map(|one| one.pid).filter(|pid| *pid != top.pid);
        let listed: Vec<i32> = below.chain([stranger.pid]).collect();
        assert!(!identified(top.pid, listed).contains(&stranger), "no more below it");
    }
}
