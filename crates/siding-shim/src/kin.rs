//! The task's processes as this shim knows them: as its own children, or, after a rescue, as
//! strangers that carry the mark.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};

use siding_core::store::Root;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::process::{self, Reaped};
use siding_core::sys::procfs;
use siding_core::tree::{self, Marks};
use siding_model::id::{Birthmark, TaskId};
use siding_model::lifecycle::Tree;
use siding_model::outcome::LeaderEnd;
use siding_model::process::ProcRef;

/// Strays held by descriptor at once. More are found again when these have ended.
const HELD: usize = 256;

/// How the task's processes are known.
#[derive(Debug)]
pub(crate) enum Kin {
    /// They live below this process, a subreaper.
    Below {
        /// The leader, until it was reaped.
        leader: Option<ProcRef>,
    },
    /// They live below somebody else.
    Strays {
        /// The leader, until it has ended.
        leader: Option<PidFd>,
        /// Some of the others, at least one while any lives.
        held: Vec<PidFd>,
    },
}

/// What a look at the tree found.
#[derive(Debug)]
pub(crate) struct Look {
    /// The leader's end, in the look that saw it.
    pub(crate) leader: Option<LeaderEnd>,
    /// Processes that are gone.
    pub(crate) gone: Vec<i32>,
    /// What is left.
    pub(crate) tree: Tree,
}

impl Kin {
    /// Returns the strays of a task whose shim died.
    pub(crate) fn strays(id: TaskId, leader: Option<ProcRef>) -> Self {
        let leader = leader.and_then(|leader| PidFd::open(leader).ok());
        Self::Strays { leader, held: held_strays(id) }
    }

    /// Returns what to poll beside SIGCHLD.
    pub(crate) fn sources(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Below { .. } => Vec::new(),
            Self::Strays { leader, held } => {
                leader.iter().map(AsFd::as_fd).chain(tree::descriptors(held)).collect()
            }
        }
    }

    /// Whether this is a rescue.
    pub(crate) const fn are_strays(&self) -> bool {
        matches!(self, Self::Strays { .. })
    }

    /// Takes away what has died and says what is left.
    pub(crate) fn look(&mut self, root: &Root, id: TaskId) -> Look {
        match self {
            Self::Below { leader } => look_below(leader, root, id.birthmark()),
            Self::Strays { leader, held } => look_at_strays(leader, held, id),
        }
    }

    /// Returns all living members now.
    pub(crate) fn members(&self, root: &Root, id: TaskId) -> Vec<i32> {
        match self {
            Self::Below { .. } => below(root, id.birthmark()),
            Self::Strays { .. } => with_mark_and_below(id),
        }
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}

/// Returns what lives below this shim and is the task's.
fn below(root: &Root, mark: Birthmark) -> Vec<i32> {
    procfs::descendants(own_pid(), |pid| tree::is_foreign(root, mark, pid))
}

fn look_below(leader: &mut Option<ProcRef>, root: &Root, mark: Birthmark) -> Look {
    let mut look = Look { leader: None, gone: Vec::new(), tree: Tree::Alive };
    loop {
        match process::reap_one() {
            Ok(Reaped::Child { pid, end }) => {
                look.gone.push(pid);
                if leader.is_some_and(|leader| leader.pid == pid) {
                    *leader = None;
                    look.leader = Some(end);
                }
            }
            Ok(Reaped::NoChildren) => {
                look.tree = Tree::Empty;
                return look;
            }
            // Shims of tasks started inside this one are its children too, and none of its own.
            Ok(Reaped::NoneDead) | Err(_) => {
                if leader.is_none() && below(root, mark).is_empty() {
                    look.tree = Tree::Empty;
                }
                return look;
            }
        }
    }
}

fn look_at_strays(leader: &mut Option<PidFd>, held: &mut Vec<PidFd>, id: TaskId) -> Look {
    let mut look = Look { leader: None, gone: Vec::new(), tree: Tree::Alive };
    if leader.as_ref().is_some_and(PidFd::is_dead)
        && let Some(dead) = leader.take()
    {
        look.gone.push(dead.process.pid);
        look.leader = Some(dead.end().unwrap_or_else(|| LeaderEnd::Unknown {
            why: "its first shim was killed, and this kernel does not tell a stranger's status"
                .to_owned(),
        }));
    }
    let before = held.len();
    held.retain(|held| {
        let dead = held.is_dead();
        if dead {
            look.gone.push(held.process.pid);
        }
        !dead
    });
    // Only the death of a holder can leave somebody unheld.
    if held.len() < before || held.is_empty() {
        *held = held_strays(id);
    }
    if leader.is_none() && held.is_empty() {
        look.tree = Tree::Empty;
    }
    look
}

fn held_strays(id: TaskId) -> Vec<PidFd> {
    let own = own_pid();
    let mut held = Marks::scan(|pid| pid == own).take(id);
    held.truncate(HELD);
    held
}

/// Returns everything with the mark, and everything below it, whatever mark it has.
fn with_mark_and_below(id: TaskId) -> Vec<i32> {
    let own = own_pid();
    let mut found = BTreeSet::new();
    for held in Marks::scan(|pid| pid == own).of(id) {
        found.insert(held.process.pid);
        found.extend(procfs::descendants(held.process.pid, |_| false));
    }
    found.into_iter().collect()
}
