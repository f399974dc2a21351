//! What a session's journal says, and what follows from it.

use serde::{Deserialize, Serialize};
use siding_model::id::SessionId;
use siding_model::journal::JournalError;
use siding_model::process::{BootId, ProcRef, UnixMs};
use siding_model::record;

use crate::sys::{procfs, system_info};
use crate::tree;

/// Format of a session's journal.
pub(super) const SESSION_FORMAT: u32 = 1;

/// One line of a session's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum SessionRecord {
    /// Opened, or opened again, for another owner beside those before.
    Opened {
        format: u32,
        #[serde(flatten)]
        owner: SessionOwner,
        /// The session of whoever started the subagent whose session this is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        under: Option<SessionId>,
        wall: UnixMs,
    },
    /// Closed for good.
    Closed { wall: UnixMs },
}

/// A process that a session was opened for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionOwner {
    boot: BootId,
    #[serde(rename = "owner")]
    process: ProcRef,
    /// The machine, and the PID namespace in which it has this number. Earlier versions did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid_ns: Option<u64>,
}

impl SessionOwner {
    /// Describes a process that this one sees.
    pub(super) fn for_local_process(process: ProcRef, boot: BootId) -> Self {
        Self {
            boot,
            process,
            machine: Some(system_info::system_id()),
            pid_ns: procfs::pid_namespace(),
        }
    }

    /// Whether nobody here can tell if it lives: it is on another machine, or has its number in
    /// another PID namespace. The same boot is the same machine, whatever its name.
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

/// What is known about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// The processes that it was opened for since it was last closed, each once, the newest last. It
    /// ends with the last of them that lives. Never empty.
    owners: Vec<SessionOwner>,
    /// The session that it is under: what a subagent leaves is its starter's. As it was first opened.
    pub parent: Option<SessionId>,
    /// When it was last opened.
    pub opened_at: UnixMs,
    /// When something of it was last recorded.
    pub last_activity: UnixMs,
    /// Whether it was closed on purpose.
    pub is_closed: bool,
}

impl Session {
    /// Whether it still owns tasks: not closed, and an owner of this boot alive, as far as can be
    /// seen from here.
    #[must_use]
    pub fn is_live(&self, boot: &BootId) -> bool {
        !self.is_closed && self.living_owner(boot).is_some()
    }

    /// Whether it may be live where nobody here can see it: on another machine that shares this
    /// state directory, or in another PID namespace.
    #[must_use]
    pub fn may_live_elsewhere(&self, boot: &BootId) -> bool {
        !self.is_closed && self.owners.iter().any(|owner| owner.is_unobservable(boot))
    }

    /// Whether nobody owns it any more, wherever.
    #[must_use]
    pub fn is_ended(&self, boot: &BootId) -> bool {
        !self.is_live(boot) && !self.may_live_elsewhere(boot)
    }

    /// Whether it was opened for this process: a conversation may be open in several at once.
    #[must_use]
    pub fn is_owned_by(&self, process: ProcRef, boot: &BootId) -> bool {
        self.owners.iter().any(|owner| owner.process == process && owner.is_observable(boot))
    }

    /// Returns the newest owner that lives.
    #[must_use]
    pub fn living_owner(&self, boot: &BootId) -> Option<ProcRef> {
        let lives =
            |owner: &&SessionOwner| owner.is_observable(boot) && tree::is_alive(owner.process);
        self.owners.iter().rev().find(lives).map(|owner| owner.process)
    }

    /// Returns the newest owner that lives, else the newest.
    ///
    /// # Panics
    ///
    /// Never: a session is opened for somebody.
    #[must_use]
    pub fn owner(&self, boot: &BootId) -> ProcRef {
        let newest = || self.owners.last().map(|owner| owner.process);
        self.living_owner(boot).or_else(newest).expect("a session is opened for somebody")
    }
}

/// Folds a session's journal. A torn line at the end, or before a whole one, was a crash.
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
            SessionRecord::Opened { owner, under, wall, .. } => {
                // Where it stands does not change, so that sessions cannot come to stand in a circle.
                let (mut owners, under) = match session.take() {
                    Some(Session { owners, parent: under, is_closed: false, .. }) => {
                        (owners, under)
                    }
                    Some(Session { parent: under, .. }) => (Vec::new(), under),
                    None => (Vec::new(), under),
                };
                owners.retain(|known| *known != owner);
                owners.push(owner);
                let (id, opened, last) = (id.clone(), wall, wall);
                session = Some(Session {
                    id,
                    owners,
                    parent: under,
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
