//! Sends entries about tasks to systemd's journal, if the task's specification requests them.

use siding_model::journal::TaskState;
use siding_model::record::Record;
use siding_model::system_log::LogEntry;

use crate::sys::journald;

/// Sends the journald entry for a task record; some records have none. Must be called after the
/// record was written; `state` is the task's state after the record. Never blocks.
pub fn log_record(record: &Record, state: &TaskState) {
    if let Some(entry) = LogEntry::from_record(record, state) {
        send(&entry);
    }
}

/// Sends the journald entries for the records that a repair of a task has written. `before` is the
/// task's state before these records.
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

/// Sends an entry to journald. Never blocks.
pub fn send(entry: &LogEntry) {
    journald::send(&entry.encode());
}
