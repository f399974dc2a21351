//! Sessions under others: a subagent's is under that of whoever started it.
//!
//! ```text
//! agent-4711-99  ─  a-1  ─  a-2
//!     live         over     live
//! ```
//! What a session has left when it is over is had by the next one above it: the tasks of `a-1` are
//! `agent-4711-99`'s now, those of `a-2` would be when it ends. Nothing is moved for that. It
//! follows from the journals of the sessions, which are only ever added to, so no crash can lose it, and
//! it is the same for everybody who asks: a shim, an outbox, the reaper.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::os::fd::OwnedFd;

use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::journal::JournalError;
use siding_model::process::BootId;

use super::{Session, SessionError, io_error, read};
use crate::store::{StateDir, StoreError};
use crate::sys::file;

/// Most sessions above one another that are looked at. As many are never made: only files that
/// somebody has changed are like that.
const MAX_ANCESTORS: usize = 32;
/// The file whose lock is held while a subagent is started.
const SPAWN_LOCK_FILE: &str = "spawning";

/// How a session in a row of those above one another stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Live,
    Ended,
    /// Nobody here can tell.
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

/// Returns which one of a row has what the first has, if one that lives does.
fn holder_index(row: &[SessionState]) -> Option<usize> {
    let first = row.iter().position(|one| *one != SessionState::Ended)?;
    (row[first] == SessionState::Live).then_some(first)
}

/// Whether what the first of a row had has come up to the one at this place.
fn is_held_by_index(row: &[SessionState], place: usize) -> bool {
    place > 0 && row[..place].iter().all(|one| *one == SessionState::Ended)
}

/// Returns a session and those above it, in this order, as far as they can be read.
fn ancestor_chain<S, E>(
    first: &SessionId,
    mut look: impl FnMut(&SessionId) -> Result<Option<S>, E>,
    under: impl Fn(&S) -> Option<&SessionId>,
) -> Result<Vec<S>, E> {
    let mut row = Vec::new();
    let mut next = Some(first.clone());
    while let Some(id) = next.take().filter(|_| row.len() < MAX_ANCESTORS) {
        let Some(found) = look(&id)? else { break };
        next = under(&found).cloned();
        row.push(found);
    }
    Ok(row)
}

/// Returns a session and those above it, for who can do without one that cannot be read.
fn read_chain(root: &StateDir, id: &SessionId) -> Vec<Session> {
    let Ok(row) =
        ancestor_chain(id, |id| Ok::<_, Infallible>(read(root, id).ok().flatten()), parent_session);
    row
}

const fn parent_session(one: &Session) -> Option<&SessionId> {
    one.parent.as_ref()
}

/// Reads a session that may own something. One that is damaged owns nothing; one that cannot be read
/// now, or only by a newer siding, may.
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

/// Returns the name of the session of a subagent, or of a teammate: that of its task.
///
/// # Panics
///
/// Never: what names a task can name a session.
#[must_use]
pub fn subagent_session_id(task: TaskId) -> SessionId {
    task.to_string().parse().expect("the name of a task can name a session")
}

/// Whether a session is named as that of a subagent is.
#[must_use]
pub fn is_subagent_id(id: &SessionId) -> bool {
    id.as_str().parse().is_ok_and(|task: TaskId| task.kind().has_session())
}

/// Returns whether a session is that of a subagent, which ends with its answer. A teammate stays.
#[must_use]
pub fn is_subagent(id: &SessionId) -> bool {
    id.as_str().parse().is_ok_and(|task: TaskId| task.kind() == TaskKind::LocalAgent)
}

/// Returns the session that has the tasks of this one: itself while it lives, and else the first above
/// it that does. `None` when nobody has them.
///
/// # Errors
///
/// [`SessionError`] when one of them cannot be read, and nobody can tell.
pub fn inheriting_session(
    root: &StateDir,
    id: &SessionId,
    boot: &BootId,
) -> Result<Option<Session>, SessionError> {
    let mut row = ancestor_chain(id, |id| read_owner(root, id), parent_session)?;
    Ok(holder_index(&chain_states(&row, boot)).map(|at| row.swap_remove(at)))
}

/// Returns the subagents' sessions that have come to `to`: they are over, and all between them too.
///
/// # Errors
///
/// [`StoreError`] when the sessions cannot be listed.
pub fn inherited_sessions(
    root: &StateDir,
    to: &SessionId,
    boot: &BootId,
) -> Result<Vec<SessionId>, StoreError> {
    let rows = subagent_chains(root)?;
    let handed_up = rows.into_iter().filter(|(_, row)| chain_is_inherited_by(row, to, boot));
    Ok(handed_up.map(|(id, _)| id).collect())
}

/// Whether a session is one of [`inherited_sessions`].
#[must_use]
pub fn is_inherited_by(root: &StateDir, id: &SessionId, to: &SessionId, boot: &BootId) -> bool {
    is_subagent_id(id) && chain_is_inherited_by(&read_chain(root, id), to, boot)
}

fn chain_is_inherited_by(row: &[Session], to: &SessionId, boot: &BootId) -> bool {
    let place = row.iter().position(|one| one.id == *to);
    place.is_some_and(|place| is_held_by_index(&chain_states(row, boot), place))
}

/// Returns a session and all under it, at any depth, however they stand.
///
/// # Errors
///
/// [`StoreError`] when the sessions cannot be listed.
pub fn session_tree(root: &StateDir, id: &SessionId) -> Result<HashSet<SessionId>, StoreError> {
    let rows = subagent_chains(root)?;
    let under = rows.into_iter().filter(|(_, row)| row.iter().any(|one| one.id == *id));
    Ok(under.map(|(id, _)| id).chain([id.clone()]).collect())
}

/// Returns the sessions of subagents, each with those above it.
fn subagent_chains(root: &StateDir) -> Result<Vec<(SessionId, Vec<Session>)>, StoreError> {
    let names = root.session_names()?.into_iter();
    // What cannot name a session was not made by siding.
    let ids = names.filter_map(|name| name.parse().ok()).filter(is_subagent_id);
    let mut known: HashMap<SessionId, Option<Session>> = HashMap::new();
    let mut look = |id: &SessionId| {
        let read = || read(root, id).ok().flatten();
        Ok::<_, Infallible>(known.entry(id.clone()).or_insert_with(read).clone())
    };
    let row = |id: SessionId| {
        let Ok(row) = ancestor_chain(&id, &mut look, parent_session);
        (id, row)
    };
    Ok(ids.map(row).collect())
}

/// Returns how many sessions are above this one.
#[must_use]
pub fn depth(root: &StateDir, id: &SessionId) -> usize {
    read_chain(root, id).len().saturating_sub(1)
}

/// Returns the session that all of these are under: itself where none is above it.
#[must_use]
pub fn root_session(root: &StateDir, id: &SessionId) -> SessionId {
    read_chain(root, id).pop().map_or_else(|| id.clone(), |one| one.id)
}

/// The right to start a subagent under a session: who counts them has it from the count to the start, so
/// that two at once do not start the last one both.
#[derive(Debug)]
#[must_use]
pub struct SpawnLock(#[expect(dead_code, reason = "its lock is what counts")] OwnedFd);

/// Waits for the right to start a subagent anywhere under the topmost session of `id`.
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
        /// Also where files were changed so that sessions stand in a circle.
        #[test]
        fn the_ancestor_chain_is_finite_even_with_cycles(under in prop::collection::vec(prop::option::of(0..8_usize), 1..8)) {
            let under: Vec<Option<SessionId>> = under.iter().map(|it| it.map(name)).collect();
            let look = |id: &SessionId| {
                let at: usize = id.as_str()[1..].parse().expect("a number");
                Ok::<_, Infallible>(under.get(at).cloned())
            };
            let Ok(row) = ancestor_chain(&name(0), look, Option::as_ref);
            prop_assert!(!row.is_empty() && row.len() <= MAX_ANCESTORS);
        }

        /// What a session leaves is had by one session that lives, or by none, and that one is told.
        #[test]
        fn inherited_tasks_have_at_most_one_holder(
            row in prop::collection::vec(
                prop::sample::select(vec![SessionState::Live, SessionState::Ended, SessionState::Unknown]), 1..6,
            ),
        ) {
            let told: Vec<usize> = (0..row.len())
                .filter(|at| *at == 0 || is_held_by_index(&row, *at))
                .filter(|at| row[*at] == SessionState::Live)
                .collect();
            prop_assert!(told.len() <= 1, "{told:?}");
            prop_assert_eq!(told.first().copied(), holder_index(&row));
            // Nothing passes one of which nobody knows whether it lives.
            let unknown = row.iter().position(|one| *one == SessionState::Unknown);
            if let (Some(unknown), Some(holder)) = (unknown, holder_index(&row)) {
                prop_assert!(holder < unknown);
            }
        }
    }
}
