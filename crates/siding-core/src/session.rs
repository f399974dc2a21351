//! Sessions: groups of tasks, usually one for each conversation of an agent. Each session except
//! the implicit one is owned by processes.

mod batches;
mod hierarchy;
mod record;
#[cfg(test)]
mod tests;
mod turns;

use std::io;
use std::os::fd::AsFd;

use siding_model::id::SessionId;
use siding_model::journal::JournalError;
use siding_model::process::{BootId, ProcRef};
use siding_model::record::write_line;

use crate::processes::tree;
use crate::store::journal_file::{self, JOURNAL_FILE};
use crate::store::{StateDir, StoreError};
use crate::sys::{clock, file, procfs};

use record::{
    BASE_SESSION_FORMAT, FORMAT_WITH_PARENT_SESSION, SessionOwner, SessionRecord, replay,
};

pub use batches::{
    claim_reminders, count_batch, record_returned_calls, reminded_tasks, returned_calls,
};
pub use hierarchy::{
    SpawnLock, depth, inherited_sessions, inheriting_session, is_inherited_by, is_subagent,
    is_subagent_id, lock_spawning, root_session, session_tree, subagent_session_id,
};
pub use record::Session;
pub use turns::{
    TRANSCRIPT_FILE, TurnStart, count_hold, has_hooks, has_notice_channel, is_between_turns,
    record_hooks, record_once, record_turn_end, start_turn,
};

/// The reason why an owner cannot be observed (pid_namespaces(7)).
const OWNER_ELSEWHERE: &str =
    "its owner may be running on another machine or in another PID namespace";

/// The reason why a session could not be opened, closed, read or used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The session was never opened, or was removed after it had ended.
    #[error(
        "session `{id}` is not open; `siding session list` shows the sessions, and \
         `siding session open {id} --owner-pid PID` opens it"
    )]
    Unknown {
        /// The id that the caller gave.
        id: SessionId,
    },
    /// The session was closed, its owners have exited, or this process cannot see whether an owner
    /// lives.
    #[error(
        "session `{id}` has ended ({why}); open it again with `siding session open {id} --owner-pid PID`"
    )]
    Ended {
        /// The session that has ended.
        id: SessionId,
        /// The cause of the end as a clause, such as `it was closed`.
        why: &'static str,
    },
    /// The session was not closed, and this process cannot see whether an owner lives.
    #[error("session `{id}`: {OWNER_ELSEWHERE}")]
    Elsewhere {
        /// The session that may be live.
        id: SessionId,
    },
    /// The process that is to own the session does not run.
    #[error("no process {pid} runs, so it cannot own session `{id}`")]
    NoOwner {
        /// The session that was to be opened.
        id: SessionId,
        /// The process id that the caller gave.
        pid: i32,
    },
    /// The caller tried to open or close the implicit session, which has no owner and never ends.
    #[error("session `cli` is siding's own and never ends; choose another name")]
    Implicit,
    /// The session's journal is corrupt or has an unknown format.
    #[error("session `{id}`: {source}")]
    Damaged {
        /// The session with the invalid journal.
        id: SessionId,
        /// The first invalid record, or the unknown format.
        source: JournalError,
    },
    /// The session's directory could not be created, opened or locked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A system call on the session's files or on `/proc` failed.
    #[error("session `{id}`: could not {doing}: {source}")]
    Io {
        /// The session to which the files belong.
        id: SessionId,
        /// The operation that failed; completes the sentence "could not …".
        doing: &'static str,
        /// The kernel's error, which the message contains.
        source: io::Error,
    },
}

/// Opens a session, or adds an owner to an open one. The session ends when it is closed, or when
/// all its owners have exited.
///
/// # Errors
///
/// [`SessionError`].
pub fn open(root: &StateDir, id: &SessionId, owner_pid: i32) -> Result<Session, SessionError> {
    open_with_parent(root, id, owner_pid, None)
}

/// Opens the session of a subagent below the existing session `parent_session`. Once the subagent's
/// session has ended, the parent inherits its tasks. A session that was opened before keeps its
/// parent, or stays without one.
///
/// # Errors
///
/// [`SessionError`].
pub fn open_child(
    root: &StateDir,
    id: &SessionId,
    owner_pid: i32,
    parent_session: &SessionId,
) -> Result<Session, SessionError> {
    if read(root, parent_session)?.is_none() {
        return Err(SessionError::Unknown { id: parent_session.clone() });
    }
    open_with_parent(root, id, owner_pid, Some(parent_session.clone()))
}

fn open_with_parent(
    root: &StateDir,
    id: &SessionId,
    owner_pid: i32,
    parent_session: Option<SessionId>,
) -> Result<Session, SessionError> {
    if id.is_implicit() {
        return Err(SessionError::Implicit);
    }
    let no_owner = || SessionError::NoOwner { id: id.clone(), pid: owner_pid };
    let owner = procfs::identify(owner_pid).filter(|owner| tree::is_alive(*owner));
    let owner = owner.ok_or_else(no_owner)?;
    let boot = procfs::boot_id().map_err(|source| io_error(id, "read the boot id", source))?;
    let owner = SessionOwner::for_local_process(owner, boot);
    let format =
        if parent_session.is_some() { FORMAT_WITH_PARENT_SESSION } else { BASE_SESSION_FORMAT };
    let record = SessionRecord::Opened { format, owner, parent_session, wall: clock::unix_now() };
    append_record(root, id, &record)?;
    read(root, id)?.ok_or_else(|| SessionError::Unknown { id: id.clone() })
}

/// Closes a session, even if an owner lives. The caller must stop the session's tasks.
///
/// # Errors
///
/// [`SessionError`].
pub fn close(root: &StateDir, id: &SessionId) -> Result<(), SessionError> {
    if id.is_implicit() {
        return Err(SessionError::Implicit);
    }
    if read(root, id)?.is_none() {
        return Err(SessionError::Unknown { id: id.clone() });
    }
    append_record(root, id, &SessionRecord::Closed { wall: clock::unix_now() })
}

/// Closes a session, unless it was opened or closed since it was read as `seen`. The caller must
/// have found that `seen` has no living owner. Returns whether this call closed it.
///
/// # Errors
///
/// [`SessionError`].
pub fn close_if_unchanged(root: &StateDir, seen: &Session) -> Result<bool, SessionError> {
    let id = &seen.id;
    append_record_if(root, id, &SessionRecord::Closed { wall: clock::unix_now() }, || {
        Ok(read(root, id)?.as_ref() == Some(seen))
    })
}

/// Returns a session if it is live, so that it may own a new task.
///
/// # Errors
///
/// [`SessionError::Unknown`], [`SessionError::Ended`], and the errors of [`read`].
pub fn require_live(root: &StateDir, id: &SessionId) -> Result<Session, SessionError> {
    let session = read(root, id)?.ok_or_else(|| SessionError::Unknown { id: id.clone() })?;
    let boot = procfs::boot_id().map_err(|source| io_error(id, "read the boot id", source))?;
    let over = |why| SessionError::Ended { id: id.clone(), why };
    if session.is_closed {
        return Err(over("it was closed"));
    }
    if !session.is_live(&boot) {
        return Err(over(if session.may_live_elsewhere(&boot) {
            OWNER_ELSEWHERE
        } else {
            "its owner has exited"
        }));
    }
    Ok(session)
}

/// Returns whether two sessions are the same, or whether the sessions that now own their tasks have
/// the same newest living owner. False if an owner cannot be determined.
#[must_use]
pub fn share_owner(root: &StateDir, one: &SessionId, other: &SessionId) -> bool {
    let owner = |id| {
        let boot = procfs::boot_id().ok()?;
        inheriting_session(root, id, &boot).ok()??.living_owner(&boot)
    };
    one == other || owner(one).is_some_and(|owner_of_one| owner(other) == Some(owner_of_one))
}

/// Returns whether no live session owns the tasks of this session. Returns false if the owner may
/// be alive where this process cannot see it, or if the session or an ancestor cannot be read. A
/// session with a damaged journal owns nothing.
#[must_use]
pub fn is_ended(root: &StateDir, id: &SessionId, boot: &BootId) -> bool {
    matches!(inheriting_session(root, id, boot), Ok(None))
}

/// Reads a session; `None` if it was never opened or has been removed.
///
/// # Errors
///
/// [`SessionError`].
pub fn read(root: &StateDir, id: &SessionId) -> Result<Option<Session>, SessionError> {
    let dir = match root.session_dir(id.as_str(), false) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        result => result?,
    };
    let bytes = match journal_file::read_bytes(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(|source| io_error(id, "read its journal", source))?,
    };
    replay(id, &bytes).map_err(|source| SessionError::Damaged { id: id.clone(), source })
}

/// Returns all sessions that have a directory, ordered by id. Sessions whose journal cannot be read
/// are left out.
///
/// # Errors
///
/// [`SessionError::Store`].
pub fn list_sessions(root: &StateDir) -> Result<Vec<Session>, SessionError> {
    let names = root.session_names()?.into_iter();
    // siding creates only entries with valid names.
    let ids = names.filter_map(|name| name.parse::<SessionId>().ok());
    Ok(ids.filter_map(|id| read(root, &id).ok().flatten()).collect())
}

/// Returns the open sessions whose newest living owner is `owner`.
///
/// # Errors
///
/// [`SessionError::Store`]; [`SessionError::Io`] if the boot id cannot be read.
pub fn list_owned_by(root: &StateDir, owner: ProcRef) -> Result<Vec<Session>, SessionError> {
    let boot = procfs::boot_id()
        .map_err(|source| io_error(&SessionId::implicit(), "read the boot id", source))?;
    let mut sessions = list_sessions(root)?;
    sessions.retain(|session| !session.is_closed && session.living_owner(&boot) == Some(owner));
    Ok(sessions)
}

/// Appends a record under the lock of the session's directory, which excludes other writers.
fn append_record(
    root: &StateDir,
    id: &SessionId,
    record: &SessionRecord,
) -> Result<(), SessionError> {
    append_record_if(root, id, record, || Ok(true)).map(drop)
}

/// Appends a record if `is_to_be` returns true while the session is locked. Returns whether the
/// record was appended.
fn append_record_if(
    root: &StateDir,
    id: &SessionId,
    record: &SessionRecord,
    is_to_be: impl FnOnce() -> Result<bool, SessionError>,
) -> Result<bool, SessionError> {
    let io = |doing| move |source| io_error(id, doing, source);
    let dir = root.open_locked_session(id.as_str())?;
    if !is_to_be()? {
        return Ok(false);
    }
    let fd = file::open_or_create(&dir, JOURNAL_FILE).map_err(io("open its journal"))?;
    let before = journal_file::read_bytes(&dir).map_err(io("read its journal"))?;
    let mut line = Vec::new();
    if !before.is_empty() && !before.ends_with(b"\n") {
        line.push(b'\n');
    }
    let seq = before.iter().filter(|&&byte| byte == b'\n').count() as u64;
    write_line(&mut line, seq, record);
    file::write_all_at(&fd, &line, before.len() as u64).map_err(io("write its journal"))?;
    file::sync_data(fd.as_fd()).map_err(io("write its journal"))?;
    Ok(true)
}

fn io_error(id: &SessionId, doing: &'static str, source: io::Error) -> SessionError {
    SessionError::Io { id: id.clone(), doing, source }
}
