//! What the journal of a to-do list holds, and how its lines are written and read.
//!
//! A line is one record as JSON. The first line of a file says its format.

use serde::{Deserialize, Serialize};
use siding_model::process::UnixMs;

use super::id::TodoId;
use super::owner::TodoOwner;

/// The format that this build writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 1;

/// One thing that was done to a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoRecord {
    /// When, only to be shown.
    #[serde(rename = "at_ms")]
    pub at: UnixMs,
    /// What.
    #[serde(flatten)]
    pub deed: TodoChange,
}

/// What was done to a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum TodoChange {
    /// A to-do was put on the list.
    Created {
        /// Its name.
        id: TodoId,
        /// What is to be done, in a line.
        subject: String,
        /// All that is to be known about it; may be empty.
        description: String,
        /// What is to be completed before.
        blocked_by: Vec<TodoId>,
    },
    /// Somebody has begun to work on one.
    Claimed {
        /// The to-do.
        id: TodoId,
        /// Who.
        by: TodoOwner,
        /// Whom it was taken from, who was seen to be gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instead_of: Option<TodoOwner>,
    },
    /// Whoever worked on one does not any more, and it is not done.
    Returned {
        /// The to-do.
        id: TodoId,
        /// Who.
        by: TodoOwner,
    },
    /// One is done.
    Completed {
        /// The to-do.
        id: TodoId,
        /// Who.
        by: TodoOwner,
    },
}

#[derive(Serialize, Deserialize)]
struct JournalHeader {
    format: u32,
}

/// One line of a journal.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, and most are records")]
pub(super) enum JournalLine {
    /// Something that was done.
    Record(TodoRecord),
    /// The format of the file.
    Header,
    /// The format of a newer siding.
    UnsupportedFormat(u32),
    /// Nothing that can be understood, such as what a crash has left.
    Damaged,
}

/// Reads a line without its newline.
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

/// Returns the line that a file begins with.
pub(super) fn header_line() -> Vec<u8> {
    encode_line(&JournalHeader { format: FORMAT_VERSION })
}

/// Returns the records of what was done.
pub(super) fn records_at(at: UnixMs, deeds: &[TodoChange]) -> Vec<TodoRecord> {
    deeds.iter().map(|deed| TodoRecord { at, deed: deed.clone() }).collect()
}

/// Returns the lines that records are in a file.
pub(super) fn encode_records(records: &[TodoRecord]) -> Vec<u8> {
    records.iter().flat_map(encode_line).collect()
}

fn encode_line(content: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(content).expect("has only texts and numbers");
    line.push(b'\n');
    line
}
