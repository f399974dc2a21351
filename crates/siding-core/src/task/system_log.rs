//! Entries about tasks in the journal of systemd, for tasks whose specification asks for them.

use siding_model::journal::TaskState;
use siding_model::record::Record;
use siding_model::system_log::LogEntry;

use crate::sys::journald;

/// Sends the entry of a record, if it has one. Must be called after the record was written; `state`
/// is the state after the record. Never waits.
pub fn log_record(record: &Record, state: &TaskState) {
    if let Some(entry) = LogEntry::from_record(record, state) {
        send(&entry);
    }
}

/// Sends the entries of records that a repair has written. `before` is the state before them.
pub(super) fn log_records(before: &TaskState, records: Vec<Record>) {
    if !before.spec.log_journald {
        return;
    }
    let mut state = before.clone();
    for record in records {
        let _recorded_anyway = state.apply(record.clone());
        log_record(&record, &state);
    }
}

/// Sends an entry. Never waits.
pub fn send(entry: &LogEntry) {
    journald::send(&entry.encode());
}
