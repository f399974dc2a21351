//! What a session's journal says, and what follows from it.

use serde::{Deserialize, Serialize};
use siding_model::id::SessionId;
use siding_model::journal::JournalError;
use siding_model::process::{BootId, ProcRef, Wall};
use siding_model::record;

use crate::tree;

/// Format of a session's journal.
pub(super) const FORMAT: u32 = 1;

/// One line of a session's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum SessionRecord {
    /// Opened, or opened again, for another owner beside those before.
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
    /// The processes that it was opened for since it was last closed, each once, the newest last. It
    /// ends with the last of them that lives. Never empty.
    owners: Vec<ProcRef>,
    /// When it was last opened.
    pub opened: Wall,
    /// When something of it was last recorded.
    pub last: Wall,
    /// Whether it was closed on purpose.
    pub closed: bool,
}

impl Session {
    /// Whether it still owns tasks: not closed, this boot, an owner alive.
    #[must_use]
    pub fn is_live(&self, boot: &BootId) -> bool {
        !self.closed && self.boot == *boot && self.living_owner().is_some()
    }

    /// Whether it was opened for this process: a conversation may be open in several at once.
    #[must_use]
    pub fn is_owned_by(&self, process: ProcRef) -> bool {
        self.owners.contains(&process)
    }

    /// Returns the newest owner that lives.
    #[must_use]
    pub fn living_owner(&self) -> Option<ProcRef> {
        self.owners.iter().rev().copied().find(|owner| tree::lives(*owner))
    }

    /// Returns the newest owner that lives, else the newest.
    ///
    /// # Panics
    ///
    /// Never: a session is opened for somebody.
    #[must_use]
    pub fn owner(&self) -> ProcRef {
        let newest = || self.owners.last().copied();
        self.living_owner().or_else(newest).expect("a session is opened for somebody")
    }
}

/// Folds a session's journal. A torn line at the end, or before a whole one, was a crash.
pub(super) fn fold(id: &SessionId, bytes: &[u8]) -> Result<Option<Session>, JournalError> {
    let mut session: Option<Session> = None;
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
                let mut owners = match session.take() {
                    Some(Session { boot: before, owners, closed: false, .. }) if before == boot => {
                        owners
                    }
                    Some(_) | None => Vec::new(),
                };
                owners.retain(|known| *known != owner);
                owners.push(owner);
                let (id, opened, last) = (id.clone(), wall, wall);
                session = Some(Session { id, boot, owners, opened, last, closed: false });
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
