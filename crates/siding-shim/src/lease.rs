//! The lease of a task: the pidfd of the newest live owner of the task's session. When the last
//! owner of a subagent's session has ended and a parent session has inherited the task, an owner of
//! the parent session takes that owner's place.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{clock, procfs};
use siding_model::process::{MonotonicMs, ProcRef};
use siding_model::spec::TaskSpec;

/// Time between two searches for an owner while the search fails, in milliseconds.
const OWNER_RETRY_MS: u64 = 5_000;
/// Maximum number of owners that one search tries to open. A search needs more than one try only if
/// owners end while it runs.
const MAX_OWNER_TRIES: u32 = 8;

/// The process that a task must not outlive.
#[derive(Debug)]
pub(crate) enum Lease {
    /// No process: the task belongs to the implicit session, the task was started with `--keep`, or
    /// the lease has expired and the task is being stopped.
    Free,
    /// The pidfd of a live owner of the session, or of the session that inherited the task.
    Held(PidFd),
    /// No live owner was found, or the search failed. The task is not stopped if the session gets a
    /// new owner within the grace.
    Lost {
        /// The time of the next search for an owner. If this search succeeds and finds none, the
        /// task is stopped.
        until: MonotonicMs,
    },
}

impl Lease {
    /// Acquires the lease of a task with this specification.
    pub(crate) fn acquire(root: &StateDir, spec: &TaskSpec) -> Self {
        if spec.keep || spec.session_id.is_implicit() {
            return Self::Free;
        }
        Self::query_owner(root, spec)
    }

    fn query_owner(root: &StateDir, spec: &TaskSpec) -> Self {
        match find_live_owner(root, spec) {
            Ok(Some(owner)) => Self::Held(owner),
            // The search is repeated when the grace is over.
            Ok(None) | Err(_) => {
                Self::Lost { until: clock::monotonic_now().plus_ms(spec.session_grace_ms) }
            }
        }
    }

    /// Returns the descriptor to poll for the owner's end; `None` without a live owner.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Held(owner) => Some(owner.as_fd()),
            Self::Free | Self::Lost { .. } => None,
        }
    }

    /// Returns whether the last search failed or found no live owner, and the lease has not expired
    /// yet.
    pub(crate) const fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns the time at which to call [`Self::has_expired`]; `None` unless the lease is lost.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        match self {
            Self::Lost { until } => Some(*until),
            Self::Free | Self::Held(_) => None,
        }
    }

    /// Searches for another live owner after the process of [`Self::Held`] has ended.
    pub(crate) fn on_owner_ended(&mut self, root: &StateDir, spec: &TaskSpec) {
        *self = Self::query_owner(root, spec);
    }

    /// Searches again once the grace is over. Returns true, once, if that search finds no owner.
    /// While the search fails, the lease does not expire: no task is stopped on a guess.
    pub(crate) fn has_expired(
        &mut self,
        root: &StateDir,
        spec: &TaskSpec,
        now: MonotonicMs,
    ) -> bool {
        let Self::Lost { until } = self else { return false };
        if now < *until {
            return false;
        }
        match find_live_owner(root, spec) {
            Ok(Some(owner)) => {
                *self = Self::Held(owner);
                false
            }
            Ok(None) => {
                *self = Self::Free;
                true
            }
            Err(_) => {
                *until = now.plus_ms(OWNER_RETRY_MS);
                false
            }
        }
    }
}

/// Returns a live owner of the task's session, or of the session that inherited the task, if there
/// is one. Fails while the owner cannot be determined, for example because a network file system
/// does not respond or no descriptor is free.
fn find_live_owner(root: &StateDir, spec: &TaskSpec) -> io::Result<Option<PidFd>> {
    let boot = procfs::boot_id()?;
    let find = || -> io::Result<Option<ProcRef>> {
        let holder =
            session::inheriting_session(root, &spec.session_id, &boot).map_err(io::Error::other)?;
        Ok(holder.and_then(|session| session.living_owner(&boot)))
    };
    open_owner(find, PidFd::open_if_alive)
}

/// Opens the owner that `find` returns. If this owner ends before it is opened, asks `find` again:
/// another owner, or the parent session, may still own the task.
fn open_owner<P>(
    mut find: impl FnMut() -> io::Result<Option<ProcRef>>,
    open: impl Fn(ProcRef) -> io::Result<Option<P>>,
) -> io::Result<Option<P>> {
    for _ in 0..MAX_OWNER_TRIES {
        let Some(owner) = find()? else { return Ok(None) };
        if let Some(opened) = open(owner)? {
            return Ok(Some(opened));
        }
    }
    Err(io::Error::other("each owner ended before its pidfd could be opened"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_owner_is_found_when_one_ends_before_it_is_opened() {
        let owner = |pid| ProcRef { pid, start_ticks: 1 };
        let mut alive = vec![owner(1), owner(2)];
        // The newest owner ends between the search and the opening.
        let open = |found: ProcRef| Ok((found.pid == 1).then_some(found.pid));
        assert_eq!(open_owner(|| Ok(alive.pop()), open).expect("searched"), Some(1));
        assert_eq!(open_owner(|| Ok(None), open).expect("searched"), None);
        let restless = open_owner(|| Ok(Some(owner(2))), open);
        assert!(restless.is_err(), "an owner may live, so the task is not stopped");
    }
}
