//! Parent sessions: a subagent's session is below that of its starter.
//!
//! ```text
//! agent-4711-99  ─  a-1  ─  a-2
//!     live         ended    live
//! ```
//!
//! The tasks of an ended session belong to the nearest live session above it: the tasks of `a-1` to
//! `agent-4711-99`, and also the tasks of `a-2` once `a-2` has ended. No file changes when the
//! owner changes. Shims, outboxes and the reaper compute the owner from the session journals, which
//! are only appended to, so a crash cannot lose the owner. A session whose state is unknown, such
//! as one of another machine, passes on no tasks.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::os::fd::OwnedFd;

use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::journal::JournalError;
use siding_model::process::BootId;

use super::{Session, SessionError, io_error, read};
use crate::store::{StateDir, StoreError};
use crate::sys::file;

/// Maximum number of sessions in a chain, including the first. siding never creates a chain of this
/// length or a cycle; only modified files can contain one.
const MAX_ANCESTORS: usize = 32;
/// File whose lock is held while a subagent is started, so that concurrent starts cannot exceed the
/// limit on subagents.
const SPAWN_LOCK_FILE: &str = "spawning";

/// The state of a session in an ancestor chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Live,
    Ended,
    /// This process cannot determine the state, for example because the owner is on another
    /// machine.
    Unknown,
}

impl SessionState {
    fn from_session(session: &Session, boot: &BootId) -> Self {
        match (session.is_live(boot), session.is_ended(boot)) {
            (true, _) => Self::Live,
            (false, true) => Self::Ended,
            (false, false) => Self::Unknown,
        }
    }
}

/// Returns the index of the first session in the chain that has not ended. If that session is live,
/// it owns the tasks of the first session of the chain.
fn first_open_index(row: &[SessionState]) -> Option<usize> {
    row.iter().position(|one| *one != SessionState::Ended)
}

/// Returns whether the session at this index has inherited the tasks of the first session.
fn is_held_by_index(row: &[SessionState], place: usize) -> bool {
    place > 0 && row[..place].iter().all(|one| *one == SessionState::Ended)
}

/// Returns a session and its ancestors, in this order, up to the first that `find` does not find
/// and at most [`MAX_ANCESTORS`] sessions.
fn ancestor_chain<S, E>(
    first: &SessionId,
    mut find: impl FnMut(&SessionId) -> Result<Option<S>, E>,
    under: impl Fn(&S) -> Option<&SessionId>,
) -> Result<Vec<S>, E> {
    let mut row = Vec::new();
    let mut next = Some(first.clone());
    while let Some(id) = next.take().filter(|_| row.len() < MAX_ANCESTORS) {
        let Some(found) = find(&id)? else { break };
        next = under(&found).cloned();
        row.push(found);
    }
    Ok(row)
}

/// Returns a session and its ancestors. The chain ends before an unreadable session.
fn read_chain(root: &StateDir, id: &SessionId) -> Vec<Session> {
    let Ok(row) =
        ancestor_chain(id, |id| Ok::<_, Infallible>(read(root, id).ok().flatten()), parent_session);
    row
}

const fn parent_session(one: &Session) -> Option<&SessionId> {
    one.parent.as_ref()
}

/// Reads a session as a possible owner. A damaged session owns nothing. A session that cannot be
/// read now, or that only a newer siding can read, may own tasks, so it causes an error.
fn read_owner(root: &StateDir, id: &SessionId) -> Result<Option<Session>, SessionError> {
    match read(root, id) {
        Err(SessionError::Damaged {
            source: JournalError::Corrupt { .. } | JournalError::Empty,
            ..
        }) => Ok(None),
        result => result,
    }
}

fn chain_states(row: &[Session], boot: &BootId) -> Vec<SessionState> {
    row.iter().map(|one| SessionState::from_session(one, boot)).collect()
}

/// Returns the id of the session of a subagent or teammate, which is the id of its task.
///
/// # Panics
///
/// Never: every task id is a valid session id.
#[must_use]
pub fn subagent_session_id(task: TaskId) -> SessionId {
    task.to_string().parse().expect("a task id is a valid session id")
}

/// Returns whether the id is that of a subagent's or teammate's session.
#[must_use]
pub fn is_subagent_id(id: &SessionId) -> bool {
    id.as_str().parse().is_ok_and(|task: TaskId| task.kind().has_session())
}

/// Returns whether the session is that of a subagent, which ends with its answer, and not that of a
/// teammate, which continues after an answer.
#[must_use]
pub fn is_subagent(id: &SessionId) -> bool {
    id.as_str().parse().is_ok_and(|task: TaskId| task.kind() == TaskKind::LocalAgent)
}

/// Returns the session that owns the tasks of `id`: the session itself while it is live; once it
/// has ended, its nearest ancestor that has not ended. `None` if all of them have ended.
///
/// # Errors
///
/// [`SessionError`] if the session or an ancestor cannot be read, so that the owner is unknown;
/// [`SessionError::Elsewhere`] if this process cannot see whether the session that has not ended is
/// live.
pub fn inheriting_session(
    root: &StateDir,
    id: &SessionId,
    boot: &BootId,
) -> Result<Option<Session>, SessionError> {
    let mut row = ancestor_chain(id, |id| read_owner(root, id), parent_session)?;
    let states = chain_states(&row, boot);
    let Some(first) = first_open_index(&states) else { return Ok(None) };
    let session = row.swap_remove(first);
    match states[first] {
        SessionState::Unknown => Err(SessionError::Elsewhere { id: session.id }),
        SessionState::Live | SessionState::Ended => Ok(Some(session)),
    }
}

/// Returns the ended sessions of subagents and teammates whose tasks `to` has inherited: all
/// sessions between them and `to` have ended too.
///
/// # Errors
///
/// [`StoreError`] if the sessions cannot be listed.
pub fn inherited_sessions(
    root: &StateDir,
    to: &SessionId,
    boot: &BootId,
) -> Result<Vec<SessionId>, StoreError> {
    let rows = subagent_chains(root)?;
    let inherited = rows.into_iter().filter(|(_, row)| chain_is_inherited_by(row, to, boot));
    Ok(inherited.map(|(id, _)| id).collect())
}

/// Returns whether a session is one of [`inherited_sessions`].
#[must_use]
pub fn is_inherited_by(root: &StateDir, id: &SessionId, to: &SessionId, boot: &BootId) -> bool {
    is_subagent_id(id) && chain_is_inherited_by(&read_chain(root, id), to, boot)
}

fn chain_is_inherited_by(row: &[Session], to: &SessionId, boot: &BootId) -> bool {
    let place = row.iter().position(|one| one.id == *to);
    place.is_some_and(|place| is_held_by_index(&chain_states(row, boot), place))
}

/// Returns a session and all its descendants, whatever their state.
///
/// # Errors
///
/// [`StoreError`] if the sessions cannot be listed.
pub fn session_tree(root: &StateDir, id: &SessionId) -> Result<HashSet<SessionId>, StoreError> {
    let rows = subagent_chains(root)?;
    let under = rows.into_iter().filter(|(_, row)| row.iter().any(|one| one.id == *id));
    Ok(under.map(|(id, _)| id).chain([id.clone()]).collect())
}

/// Returns the ids of the sessions of subagents and teammates, each with the session and its
/// ancestors as far as they are readable.
fn subagent_chains(root: &StateDir) -> Result<Vec<(SessionId, Vec<Session>)>, StoreError> {
    let names = root.session_names()?.into_iter();
    // siding creates only entries with valid names.
    let ids = names.filter_map(|name| name.parse().ok()).filter(is_subagent_id);
    let mut known: HashMap<SessionId, Option<Session>> = HashMap::new();
    let mut find = |id: &SessionId| {
        let read = || read(root, id).ok().flatten();
        Ok::<_, Infallible>(known.entry(id.clone()).or_insert_with(read).clone())
    };
    let row = |id: SessionId| {
        let Ok(row) = ancestor_chain(&id, &mut find, parent_session);
        (id, row)
    };
    Ok(ids.map(row).collect())
}

/// Returns the number of ancestors of a session.
#[must_use]
pub fn depth(root: &StateDir, id: &SessionId) -> usize {
    read_chain(root, id).len().saturating_sub(1)
}

/// Returns the topmost ancestor of a session; the session itself if it has none.
#[must_use]
pub fn root_session(root: &StateDir, id: &SessionId) -> SessionId {
    read_chain(root, id).pop().map_or_else(|| id.clone(), |one| one.id)
}

/// The exclusive right to start a subagent below a session. A caller holds it while it counts the
/// subagents and starts another one, so that two callers cannot both take the last slot.
#[derive(Debug)]
#[must_use]
pub struct SpawnLock(#[expect(dead_code, reason = "held for its lock only")] OwnedFd);

/// Waits for the right to start a subagent anywhere below the topmost ancestor of `id`.
///
/// # Errors
///
/// [`SessionError`].
pub fn lock_spawning(root: &StateDir, id: &SessionId) -> Result<SpawnLock, SessionError> {
    let top = root_session(root, id);
    let dir = root.session_dir(top.as_str(), false)?;
    let locked = file::open_or_create(&dir, SPAWN_LOCK_FILE).and_then(|fd| {
        file::lock_exclusive(&fd)?;
        Ok(SpawnLock(fd))
    });
    locked.map_err(|source| io_error(&top, "lock the start of subagents", source))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(number: usize) -> SessionId {
        format!("s{number}").parse().expect("a name")
    }

    proptest! {
        #[test]
        fn the_ancestor_chain_is_finite_even_with_cycles(under in prop::collection::vec(prop::option::of(0..8_usize), 1..8)) {
            let under: Vec<Option<SessionId>> = under.iter().map(|it| it.map(name)).collect();
            let find = |id: &SessionId| {
                let at: usize = id.as_str()[1..].parse().expect("a number");
                Ok::<_, Infallible>(under.get(at).cloned())
            };
            let Ok(row) = ancestor_chain(&name(0), find, Option::as_ref);
            prop_assert!(!row.is_empty() && row.len() <= MAX_ANCESTORS);
        }

        /// `is_held_by_index` and `first_open_index` agree on the owner of the tasks of the first
        /// session.
        #[test]
        fn inherited_tasks_have_at_most_one_holder(
            row in prop::collection::vec(
                prop::sample::select(vec![SessionState::Live, SessionState::Ended, SessionState::Unknown]), 1..6,
            ),
        ) {
            let reported: Vec<usize> = (0..row.len())
                .filter(|at| *at == 0 || is_held_by_index(&row, *at))
                .filter(|at| row[*at] == SessionState::Live)
                .collect();
            prop_assert!(reported.len() <= 1, "{reported:?}");
            let holder = first_open_index(&row).filter(|at| row[*at] == SessionState::Live);
            prop_assert_eq!(reported.first().copied(), holder);
            // Inheritance never passes a session of unknown state.
            let unknown = row.iter().position(|one| *one == SessionState::Unknown);
            if let (Some(unknown), Some(holder)) = (unknown, holder) {
                prop_assert!(holder < unknown);
            }
        }
    }
}
