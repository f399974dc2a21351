//! A session's hold on its tasks: the pidfd of one of its owners, the newest that lives. When the last
//! owner of a subagent's session has ended, one of the session above it holds them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{clock, procfs};
use siding_model::process::MonotonicMs;
use siding_model::spec::TaskSpec;

/// Time between two questions for the owner where nobody can tell, in milliseconds.
const OWNER_RETRY_MS: u64 = 5_000;

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
        until: MonotonicMs,
    },
}

impl Lease {
    /// Takes the lease that the specification asks for.
    pub(crate) fn acquire(root: &StateDir, spec: &TaskSpec) -> Self {
        if spec.keep || spec.session_id.is_implicit() {
            return Self::Free;
        }
        Self::query_owner(root, spec)
    }

    fn query_owner(root: &StateDir, spec: &TaskSpec) -> Self {
        match find_live_owner(root, spec) {
            Ok(Some(owner)) => Self::Held(owner),
            // Who cannot be found out is asked for once more when the time is up.
            Ok(None) | Err(_) => {
                Self::Lost { until: clock::monotonic_now().plus_ms(spec.session_grace_ms) }
            }
        }
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

    /// Returns when to come back to [`Self::has_expired`].
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        match self {
            Self::Lost { until } => Some(*until),
            Self::Free | Self::Held(_) => None,
        }
    }

    /// Notes that the owner that was held has ended: another may live.
    pub(crate) fn on_owner_ended(&mut self, root: &StateDir, spec: &TaskSpec) {
        *self = Self::query_owner(root, spec);
    }

    /// Whether nobody took over in time. Asks when the time is up, and again as long as that cannot be
    /// told: no task is ended on a guess.
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

/// Returns an owner that lives: of the task's session, or of the one that has its tasks since it is
/// over. Fails while that cannot be told: a disk of the network does not answer, or no descriptor is left.
fn find_live_owner(root: &StateDir, spec: &TaskSpec) -> io::Result<Option<PidFd>> {
    let boot = procfs::boot_id()?;
    let holder =
        session::inheriting_session(root, &spec.session_id, &boot).map_err(io::Error::other)?;
    let owner = holder.and_then(|session| session.living_owner(&boot));
    owner.map_or(Ok(None), PidFd::open_if_alive)
}
