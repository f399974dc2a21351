//! The records in the journal of a to-do list, and their encoding.
//!
//! The first line is a header with the version of the format. Each later line is a record in JSON.

use serde::{Deserialize, Serialize};
use siding_model::process::UnixMs;

use super::id::TodoId;
use super::owner::TodoOwner;

/// The version that this build writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 1;

/// A change of the list, with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoRecord {
    /// The time of the change, for display only.
    #[serde(rename = "at_ms")]
    pub at: UnixMs,
    /// The change. All changes except a creation name the agent that made them.
    #[serde(flatten)]
    pub deed: TodoChange,
}

/// A change of a to-do list, as the journal records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum TodoChange {
    /// A to-do was created.
    Created {
        /// The id of the new to-do.
        id: TodoId,
        /// A summary in one line.
        subject: String,
        /// Everything besides the subject that the owner needs to know; may be empty.
        description: String,
        /// The to-dos that must be completed first.
        blocked_by: Vec<TodoId>,
    },
    /// An agent claimed a to-do.
    Claimed {
        /// The id of the claimed to-do.
        id: TodoId,
        /// The new owner.
        by: TodoOwner,
        /// The previous owner, whose process had ended; `None` if the to-do was pending.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instead_of: Option<TodoOwner>,
    },
    /// The owner returned a to-do unfinished.
    Returned {
        /// The id of the returned to-do, which is pending again.
        id: TodoId,
        /// The previous owner.
        by: TodoOwner,
    },
    /// The owner completed a to-do.
    Completed {
        /// The id of the completed to-do.
        id: TodoId,
        /// The owner, which remains recorded as the agent that completed it.
        by: TodoOwner,
    },
}

#[derive(Serialize, Deserialize)]
struct JournalHeader {
    format: u32,
}

/// The parsed form of a journal line.
#[expect(clippy::large_enum_variant, reason = "it is short-lived, and most lines are records")]
pub(super) enum JournalLine {
    /// A change of the list.
    Record(TodoRecord),
    /// A header with a supported version of the format.
    Header,
    /// A header with the version of a newer format, which this build cannot read.
    UnsupportedFormat(u32),
    /// An unreadable line, such as one torn by a crash.
    Damaged,
}

/// Parses a line without its newline.
pub(super) fn parse_line(line: &[u8]) -> JournalLine {
    if let Ok(record) = serde_json::from_slice(line) {
        return JournalLine::Record(record);
    }
    match serde_json::from_slice(line) {
        Ok(JournalHeader { format }) if format > FORMAT_VERSION => {
            JournalLine::UnsupportedFormat(format)
        }
        Ok(_) => JournalLine::Header,
        Err(_) => JournalLine::Damaged,
    }
}

/// Returns the first line of a new file.
pub(super) fn header_line() -> Vec<u8> {
    encode_line(&JournalHeader { format: FORMAT_VERSION })
}

/// Returns the records of these changes, all with the time `at`.
pub(super) fn records_at(at: UnixMs, deeds: &[TodoChange]) -> Vec<TodoRecord> {
    deeds.iter().map(|deed| TodoRecord { at, deed: deed.clone() }).collect()
}

/// Returns the encoded lines of these records.
pub(super) fn encode_records(records: &[TodoRecord]) -> Vec<u8> {
    records.iter().flat_map(encode_line).collect()
}

fn encode_line(content: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(content).expect("strings and numbers always serialize");
    line.push(b'\n');
    line
}
