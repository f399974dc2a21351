//! A session's hold on its tasks: the pidfd of one of its owners, the newest that lives. When the last
//! owner of a subagent's session has ended, one of the session above it holds them.

use std::os::fd::{AsFd, BorrowedFd};

use siding_core::session;
use siding_core::store::Root;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{clock, procfs};
use siding_model::process::Mono;
use siding_model::spec::TaskSpec;

/// What the task's life depends on beside itself.
#[derive(Debug)]
pub(crate) enum Lease {
    /// Nothing: the implicit session, or a task that is kept.
    Free,
    /// This owner lives.
    Held(PidFd),
    /// No owner is left; a resumed session may take over until then.
    Lost {
        /// When the task is stopped.
        until: Mono,
    },
}

impl Lease {
    /// Takes the lease that the specification asks for.
    pub(crate) fn take(root: &Root, spec: &TaskSpec) -> Self {
        if spec.keep || spec.session_id.is_implicit() {
            return Self::Free;
        }
        Self::ask(root, spec)
    }

    fn ask(root: &Root, spec: &TaskSpec) -> Self {
        let lost = || Self::Lost { until: clock::mono().plus_ms(spec.session_grace_ms) };
        owner(root, spec).map_or_else(lost, Self::Held)
    }

    /// Returns what to poll for the owner's end.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Held(owner) => Some(owner.as_fd()),
            Self::Free | Self::Lost { .. } => None,
        }
    }

    /// Whether no owner is left.
    pub(crate) const fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns when to come back to [`Self::is_over`].
    pub(crate) const fn wake_at(&self) -> Option<Mono> {
        match self {
            Self::Lost { until } => Some(*until),
            Self::Free | Self::Held(_) => None,
        }
    }

    /// Notes that the owner that was held has ended: another may live.
    pub(crate) fn owner_ended(&mut self, root: &Root, spec: &TaskSpec) {
        *self = Self::ask(root, spec);
    }

    /// Whether nobody took over in time. Asks once, when the time is up.
    pub(crate) fn is_over(&mut self, root: &Root, spec: &TaskSpec, now: Mono) -> bool {
        let Self::Lost { until } = self else { return false };
        if now < *until {
            return false;
        }
        match owner(root, spec) {
            Some(owner) => {
                *self = Self::Held(owner);
                false
            }
            None => {
                *self = Self::Free;
                true
            }
        }
    }
}

/// Returns an owner that lives: of the task's session, or of the one that has its tasks since it is over.
fn owner(root: &Root, spec: &TaskSpec) -> Option<PidFd> {
    let boot = procfs::boot_id().ok()?;
    let session = session::holder(root, &spec.session_id, &boot)?;
    PidFd::open(session.living_owner(&boot)?).ok()
}
