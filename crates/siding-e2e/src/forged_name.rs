//! Names of tasks that siding refuses but a journal may contain: the journal of an older siding, or
//! a forged journal.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;

use siding_model::record::{self, Record};

use crate::Sandbox;

/// A printable character of three bytes, in JSON as well.
const WIDE_CHARACTER: &str = "\u{65e5}";

/// Returns a name that siding accepts, and whose JSON is as long as that of `name`.
///
/// # Panics
///
/// Never: a text can be written as JSON.
#[must_use]
pub fn stand_in_name(name: &str) -> String {
    let quotes = 2;
    let bytes = serde_json::to_string(name).expect("a text is JSON").len() - quotes;
    WIDE_CHARACTER.repeat(bytes / WIDE_CHARACTER.len()) + &"x".repeat(bytes % WIDE_CHARACTER.len())
}

/// Replaces the name of a task in its journal. The task must have been started with the
/// [`stand_in_name`] of `name`, so that no other record moves: a running shim continues to append
/// at its offset.
///
/// # Panics
///
/// When the journal cannot be read or written, or the name in it has a different length.
#[track_caller]
pub fn forge_task_name(sandbox: &Sandbox, id: &str, name: &str) {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    let bytes = fs::read(&path).expect("the journal can be read");
    let line = bytes.split(|&byte| byte == b'\n').next().expect("a first line");
    let (seq, mut record) = record::parse_line(line).expect("a valid record line");
    let Record::Accepted(accepted) = &mut record else { panic!("it is not `accepted`") };
    accepted.spec.name = Some(name.to_owned());
    let mut forged = Vec::new();
    record::write_line(&mut forged, seq, &record);
    let newline = 1;
    assert_eq!(forged.len(), line.len() + newline, "the length of the name");
    let journal = OpenOptions::new().write(true).open(&path).expect("the journal can be opened");
    journal.write_all_at(&forged, 0).expect("the journal can be written");
}
