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

/// Folds a session's journal. A torn line at the end, or before a whole one, was a crash.
pub(super) fn fold(id: &SessionId, bytes: &[u8]) -> Result<Option<Session>, JournalError> {
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
