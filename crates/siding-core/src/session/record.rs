//! The records of a session's journal, and the state that results from replaying them.

use serde::{Deserialize, Serialize};
use siding_model::id::SessionId;
use siding_model::journal::JournalError;
use siding_model::process::{BootId, ProcRef, UnixMs};
use siding_model::record;

use crate::processes::tree;
use crate::sys::{procfs, system_info};

/// Newest format of a session's journal that this build reads.
pub(super) const SESSION_FORMAT: u32 = FORMAT_WITH_PARENT_SESSION;
/// Format of a record without a parent, which every earlier version reads.
pub(super) const BASE_SESSION_FORMAT: u32 = 1;
/// Format of a record in which the field with the parent is called `parent_session` instead of
/// `under`. An earlier version rejects this format. Otherwise it would miss the parent and stop the
/// tasks when the subagent ends.
pub(super) const FORMAT_WITH_PARENT_SESSION: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum SessionRecord {
    /// The session was opened, or another owner was added.
    Opened {
        format: u32,
        #[serde(flatten)]
        owner: SessionOwner,
        /// The parent: the session of the agent that started the subagent.
        #[serde(default, alias = "under", skip_serializing_if = "Option::is_none")]
        parent_session: Option<SessionId>,
        wall: UnixMs,
    },
    /// The session was closed explicitly. A later `Opened` opens it again.
    Closed { wall: UnixMs },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionOwner {
    boot: BootId,
    #[serde(rename = "owner")]
    process: ProcRef,
    /// The machine on which the owner runs. Earlier versions recorded neither `machine` nor
    /// `pid_ns`, the PID namespace of the owner's process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid_ns: Option<u64>,
}

impl SessionOwner {
    /// Describes an owner that this process can see in `/proc`.
    pub(super) fn for_local_process(process: ProcRef, boot: BootId) -> Self {
        Self {
            boot,
            process,
            machine: Some(system_info::system_id()),
            pid_ns: procfs::pid_namespace(),
        }
    }

    /// Returns whether this process cannot determine if the owner is alive, because the owner is on
    /// another machine or in another PID namespace (pid_namespaces(7)). An equal boot id proves
    /// that the machine is the same, even if its hostname has changed.
    fn is_unobservable(&self, boot: &BootId) -> bool {
        if self.boot == *boot {
            let own = procfs::pid_namespace();
            self.pid_ns.is_some_and(|theirs| own.is_some_and(|own| own != theirs))
        } else {
            self.machine.as_ref().is_some_and(|theirs| *theirs != system_info::system_id())
        }
    }

    fn is_observable(&self, boot: &BootId) -> bool {
        self.boot == *boot && !self.is_unobservable(boot)
    }
}

/// The state of a session, as replayed from its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The name of the session, which is also the name of its directory.
    pub id: SessionId,
    /// The owners, each once, the newest last. An opening after a close replaces the list. The
    /// session ends when it is closed or when all owners have exited. The list is never empty.
    owners: Vec<SessionOwner>,
    /// The parent session, which inherits the tasks of a subagent. Set when the session is first
    /// opened.
    pub parent: Option<SessionId>,
    /// Time at which the session was last opened, or an owner was last added.
    pub opened_at: UnixMs,
    /// Time of the session's last record.
    pub last_activity: UnixMs,
    /// Whether the session was closed explicitly and has not been opened since.
    pub is_closed: bool,
}

impl Session {
    /// Returns whether the session may own tasks: it is not closed, and this process can see that
    /// an owner is alive.
    #[must_use]
    pub fn is_live(&self, boot: &BootId) -> bool {
        !self.is_closed && self.living_owner(boot).is_some()
    }

    /// Returns whether the session may be live where this process cannot see its owner: on another
    /// machine that shares this state directory, or in another PID namespace.
    #[must_use]
    pub fn may_live_elsewhere(&self, boot: &BootId) -> bool {
        !self.is_closed && self.owners.iter().any(|owner| owner.is_unobservable(boot))
    }

    /// Returns whether the session has ended, and cannot be live elsewhere.
    #[must_use]
    pub fn is_ended(&self, boot: &BootId) -> bool {
        !self.is_live(boot) && !self.may_live_elsewhere(boot)
    }

    /// Returns whether `process` is one of the session's owners. A conversation may be open in
    /// several processes.
    #[must_use]
    pub fn is_owned_by(&self, process: ProcRef, boot: &BootId) -> bool {
        self.owners.iter().any(|owner| owner.process == process && owner.is_observable(boot))
    }

    /// Returns the newest owner that this process can see alive, even if the session is closed.
    #[must_use]
    pub fn living_owner(&self, boot: &BootId) -> Option<ProcRef> {
        let lives =
            |owner: &&SessionOwner| owner.is_observable(boot) && tree::is_alive(owner.process);
        self.owners.iter().rev().find(lives).map(|owner| owner.process)
    }

    /// Returns the newest living owner or, if no owner lives, the newest owner.
    ///
    /// # Panics
    ///
    /// Never: a session is always opened with an owner.
    #[must_use]
    pub fn owner(&self, boot: &BootId) -> ProcRef {
        let newest = || self.owners.last().map(|owner| owner.process);
        self.living_owner(boot).or_else(newest).expect("a session has at least one owner")
    }
}

/// Replays a session's journal; returns `None` if it records no opening. Skips torn lines, which a
/// crash can leave at the end or before a whole line.
pub(super) fn replay(id: &SessionId, bytes: &[u8]) -> Result<Option<Session>, JournalError> {
    let mut session: Option<Session> = None;
    for (seq, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let Ok((_, json)) = record::parse_frame(line) else { continue };
        let parsed = serde_json::from_slice(json).map_err(|error| JournalError::Corrupt {
            seq: seq as u64,
            offset: 0,
            why: error.to_string(),
        })?;
        match parsed {
            SessionRecord::Opened { format, .. } if format > SESSION_FORMAT => {
                return Err(JournalError::TooNew { found: format });
            }
            SessionRecord::Opened { owner, parent_session, wall, .. } => {
                // The parent never changes, so that a later record cannot create a cycle.
                let (mut owners, parent_session) = match session.take() {
                    Some(Session { owners, parent: parent_session, is_closed: false, .. }) => {
                        (owners, parent_session)
                    }
                    Some(Session { parent: parent_session, .. }) => (Vec::new(), parent_session),
                    None => (Vec::new(), parent_session),
                };
                owners.retain(|known| *known != owner);
                owners.push(owner);
                let (id, opened, last) = (id.clone(), wall, wall);
                session = Some(Session {
                    id,
                    owners,
                    parent: parent_session,
                    opened_at: opened,
                    last_activity: last,
                    is_closed: false,
                });
            }
            SessionRecord::Closed { wall } => {
                if let Some(session) = &mut session {
                    session.is_closed = true;
                    session.last_activity = session.last_activity.max(wall);
                }
            }
        }
    }
    Ok(session)
}
