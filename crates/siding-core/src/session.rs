//! Sessions: agent conversations that own tasks, and the process whose life is their lease.

use std::io;
use std::os::fd::AsFd;

pub use turns::{Begun, begin_turn, hold};

use serde::{Deserialize, Serialize};
use siding_model::id::SessionId;
use siding_model::journal::JournalError;
use siding_model::process::{BootId, ProcRef, Wall};
use siding_model::record;

use crate::journal_file::{self, NAME};
use crate::store::{Root, StoreError};
use crate::sys::{clock, file, procfs};
use crate::tree;

mod turns;

/// Format of a session's journal.
const FORMAT: u32 = 1;

/// One line of a session's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum SessionRecord {
    /// Opened, or opened again by another owner.
    Opened { format: u32, boot: BootId, owner: ProcRef, wall: Wall },
    /// Closed for good.
    Closed { wall: Wall },
}

/// What is known about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// Boot in which it was last opened.
    pub boot: BootId,
    /// The process whose end is its end.
    pub owner: ProcRef,
    /// When it was last opened.
    pub opened: Wall,
    /// When something of it was last recorded.
    pub last: Wall,
    /// Whether it was closed on purpose.
    pub closed: bool,
}

impl Session {
    /// Whether it still owns tasks: not closed, this boot, its owner alive.
    #[must_use]
    pub fn is_live(&self, boot: &BootId) -> bool {
        !self.closed && self.boot == *boot && tree::lives(self.owner)
    }
}

/// Why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It was never opened.
    #[error("session `{id}` is not open; open it with `siding session open {id} --owner-pid PID`")]
    Unknown {
        /// Its name.
        id: SessionId,
    },
    /// Its owner has ended, or it was closed.
    #[error(
        "session `{id}` is over ({why}); open it again with `siding session open {id} --owner-pid PID`"
    )]
    Over {
        /// Its name.
        id: SessionId,
        /// What ended it.
        why: &'static str,
    },
    /// The process that is to own it does not run.
    #[error("no process {pid} runs, so it cannot own session `{id}`")]
    NoOwner {
        /// The session.
        id: SessionId,
        /// The process.
        pid: i32,
    },
    /// The implicit session has no owner and never ends.
    #[error("session `cli` is siding's own and never ends; choose another name")]
    Implicit,
    /// Its journal cannot be read.
    #[error("session `{id}`: {source}")]
    Damaged {
        /// Its name.
        id: SessionId,
        /// What is wrong.
        source: JournalError,
    },
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system refused.
    #[error("session `{id}`: could not {doing}: {source}")]
    Io {
        /// Its name.
        id: SessionId,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Opens a session, or hands it to a new owner.
///
/// # Errors
///
/// [`SessionError`].
pub fn open(root: &Root, id: &SessionId, owner_pid: i32) -> Result<Session, SessionError> {
    if id.is_implicit() {
        return Err(SessionError::Implicit);
    }
    let no_owner = || SessionError::NoOwner { id: id.clone(), pid: owner_pid };
    let owner = procfs::identify(owner_pid).filter(|owner| tree::lives(*owner));
    let owner = owner.ok_or_else(no_owner)?;
    let boot = procfs::boot_id().map_err(|source| io_error(id, "read the boot id", source))?;
    let record = SessionRecord::Opened { format: FORMAT, boot, owner, wall: clock::wall() };
    append(root, id, &record)?;
    read(root, id)?.ok_or_else(|| SessionError::Unknown { id: id.clone() })
}

/// Closes a session for good. Its tasks are the caller's to stop.
///
/// # Errors
///
/// [`SessionError`].
pub fn close(root: &Root, id: &SessionId) -> Result<(), SessionError> {
    if id.is_implicit() {
        return Err(SessionError::Implicit);
    }
    if read(root, id)?.is_none() {
        return Err(SessionError::Unknown { id: id.clone() });
    }
    append(root, id, &SessionRecord::Closed { wall: clock::wall() })
}

/// Closes a session that nobody owns any more, unless somebody has opened or closed it since it was
/// `seen` so. Returns whether this closed it.
///
/// # Errors
///
/// [`SessionError`].
pub fn close_over(root: &Root, seen: &Session) -> Result<bool, SessionError> {
    let id = &seen.id;
    append_if(root, id, &SessionRecord::Closed { wall: clock::wall() }, || {
        Ok(read(root, id)?.as_ref() == Some(seen))
    })
}

/// Returns a session that may own a new task.
///
/// # Errors
///
/// [`SessionError::Unknown`], [`SessionError::Over`], and what reading gives.
pub fn live(root: &Root, id: &SessionId) -> Result<Session, SessionError> {
    let session = read(root, id)?.ok_or_else(|| SessionError::Unknown { id: id.clone() })?;
    let boot = procfs::boot_id().map_err(|source| io_error(id, "read the boot id", source))?;
    let over = |why| SessionError::Over { id: id.clone(), why };
    if session.closed {
        return Err(over("it was closed"));
    }
    if !session.is_live(&boot) {
        return Err(over("its owner has ended"));
    }
    Ok(session)
}

/// Whether two sessions are of one program: the same one, or both its own.
#[must_use]
pub fn share_owner(root: &Root, one: &SessionId, other: &SessionId) -> bool {
    let owner = |id| read(root, id).ok().flatten().map(|session| (session.boot, session.owner));
    one == other || owner(one).is_some_and(|owner_of_one| owner(other) == Some(owner_of_one))
}

/// Whether nobody owns the tasks of a session any more. One that cannot be read has no owner either.
#[must_use]
pub fn is_over(root: &Root, id: &SessionId, boot: &BootId) -> bool {
    !read(root, id).ok().flatten().is_some_and(|session| session.is_live(boot))
}

/// Reads a session, `None` when it was never opened.
///
/// # Errors
///
/// [`SessionError`].
pub fn read(root: &Root, id: &SessionId) -> Result<Option<Session>, SessionError> {
    let dir = match root.session_dir(id.as_str(), false) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        result => result?,
    };
    let bytes = match journal_file::bytes(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(|source| io_error(id, "read its journal", source))?,
    };
    fold(id, &bytes).map_err(|source| SessionError::Damaged { id: id.clone(), source })
}

/// Returns every session that was ever opened, in the order of their names. One that cannot be read
/// is left out: it owns nothing.
///
/// # Errors
///
/// [`SessionError::Store`].
pub fn all(root: &Root) -> Result<Vec<Session>, SessionError> {
    let names = root.sessions()?.into_iter();
    // What cannot name a session was not made by siding.
    let ids = names.filter_map(|name| name.parse::<SessionId>().ok());
    Ok(ids.filter_map(|id| read(root, &id).ok().flatten()).collect())
}

/// Returns the sessions that a process owns now.
///
/// # Errors
///
/// [`SessionError::Store`]; [`SessionError::Io`] when `/proc` does not tell which boot this is.
pub fn owned_by(root: &Root, owner: ProcRef) -> Result<Vec<Session>, SessionError> {
    let boot = procfs::boot_id()
        .map_err(|source| io_error(&SessionId::implicit(), "read the boot id", source))?;
    let mut sessions = all(root)?;
    sessions.retain(|session| session.owner == owner && session.is_live(&boot));
    Ok(sessions)
}

/// Folds a session's journal. A torn line at the end, or before a whole one, was a crash.
fn fold(id: &SessionId, bytes: &[u8]) -> Result<Option<Session>, JournalError> {
    let mut session = None;
    for (seq, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let Ok((_, json)) = record::frame(line) else { continue };
        let parsed = serde_json::from_slice(json).map_err(|error| JournalError::Corrupt {
            seq: seq as u64,
            offset: 0,
            why: error.to_string(),
        })?;
        match parsed {
            SessionRecord::Opened { format, .. } if format > FORMAT => {
                return Err(JournalError::TooNew { found: format });
            }
            SessionRecord::Opened { boot, owner, wall, .. } => {
                let (id, opened, last) = (id.clone(), wall, wall);
                session = Some(Session { id, boot, owner, opened, last, closed: false });
            }
            SessionRecord::Closed { wall } => {
                if let Some(session) = &mut session {
                    session.closed = true;
                    session.last = session.last.max(wall);
                }
            }
        }
    }
    Ok(session)
}

/// Appends a record under the lock of the session's directory, which makes the writer the only one.
fn append(root: &Root, id: &SessionId, record: &SessionRecord) -> Result<(), SessionError> {
    append_if(root, id, record, || Ok(true)).map(drop)
}

/// Appends a record if it is to be, which is asked while nobody else can write.
fn append_if(
    root: &Root,
    id: &SessionId,
    record: &SessionRecord,
    is_to_be: impl FnOnce() -> Result<bool, SessionError>,
) -> Result<bool, SessionError> {
    let io = |doing| move |source| io_error(id, doing, source);
    let (dir, _lock) = loop {
        let dir = root.session_dir(id.as_str(), true)?;
        let lock = root.lock_session(&dir)?;
        // The reaper may have removed it while the lock was waited for.
        if file::is_linked(&dir).map_err(io("look at its directory"))? {
            break (dir, lock);
        }
    };
    if !is_to_be()? {
        return Ok(false);
    }
    let fd = match file::open_at(&dir, NAME, file::Open::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            file::open_at(&dir, NAME, file::Open::ReadWrite)
        }
        result => result,
    }
    .map_err(io("open its journal"))?;
    let before = journal_file::bytes(&dir).map_err(io("read its journal"))?;
    let mut line = Vec::new();
    if !before.is_empty() && !before.ends_with(b"\n") {
        line.push(b'\n');
    }
    let seq = before.iter().filter(|&&byte| byte == b'\n').count() as u64;
    record::write_line(&mut line, seq, record);
    file::write_all_at(&fd, &line, before.len() as u64).map_err(io("write its journal"))?;
    file::sync_data(fd.as_fd()).map_err(io("write its journal"))?;
    Ok(true)
}

fn io_error(id: &SessionId, doing: &'static str, source: io::Error) -> SessionError {
    SessionError::Io { id: id.clone(), doing, source }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_session_that_was_resumed_meanwhile_is_not_closed() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Root::open(&temporary.path().join("state")).expect("a state directory");
        let id: SessionId = "chat".parse().expect("a name");
        let mut owner = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts");
        let pid = |owner: u32| i32::try_from(owner).expect("small");
        let seen = open(&root, &id, pid(owner.id())).expect("opened");
        drop(owner.stdin.take());
        let _ended = owner.wait().expect("its child");
        assert!(live(&root, &id).is_err(), "over");
        open(&root, &id, pid(std::process::id())).expect("resumed");
        assert!(!close_over(&root, &seen).expect("asked"));
        let seen = live(&root, &id).expect("still open");
        assert!(close_over(&root, &seen).expect("asked"));
        assert!(matches!(live(&root, &id), Err(SessionError::Over { .. })));
        assert!(!close_over(&root, &seen).expect("asked"), "once");
    }
}
