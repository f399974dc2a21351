//! A task's record: its directory, its journal, and the state that follows from the journal.

use siding_core::store::{StateDir, TaskDir};
use siding_core::task::{recover, system_log};
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;
use siding_model::spec::TaskSpec;

use crate::journal_writer::JournalWriter;

/// The directory, the journal writer and the replayed state of one task. The state changes only
/// through [`Self::append`].
#[derive(Debug)]
pub(crate) struct TaskRecord {
    root: StateDir,
    dir: TaskDir,
    state: TaskState,
    journal: JournalWriter,
}

impl TaskRecord {
    /// Combines the parts. `state` must be the result of replaying the task's journal.
    pub(crate) const fn new(
        root: StateDir,
        dir: TaskDir,
        state: TaskState,
        journal: JournalWriter,
    ) -> Self {
        Self { root, dir, state, journal }
    }

    pub(crate) const fn root(&self) -> &StateDir {
        &self.root
    }

    pub(crate) const fn dir(&self) -> &TaskDir {
        &self.dir
    }

    pub(crate) const fn state(&self) -> &TaskState {
        &self.state
    }

    /// Returns the specification with which the task was started.
    pub(crate) const fn spec(&self) -> &TaskSpec {
        &self.state.spec
    }

    /// Returns whether the task has not ended.
    pub(crate) fn is_live(&self) -> bool {
        self.state.is_live()
    }

    /// Returns whether the journal has space for an optional record.
    pub(crate) fn can_write_optional_record(&mut self) -> bool {
        self.journal.can_write_optional_record()
    }

    /// Writes records to the journal, passes each with its sequence number to `publish`, and
    /// applies it to the state. Records that cannot be written are published and applied too, and
    /// stay pending for [`Self::retry_if_due`]. Records that this call has written are also sent to
    /// the journal of systemd, if the task's specification requests it.
    pub(crate) fn append(&mut self, records: Vec<Record>, mut publish: impl FnMut(u64, &Record)) {
        let first = self.journal.write(&records);
        let is_written = self.journal.retry_at().is_none();
        for (seq, record) in (first..).zip(records) {
            publish(seq, &record);
            let logged = (self.state.spec.log_journald && is_written).then(|| record.clone());
            // The records were made from this state, so applying them cannot fail.
            let _recorded_anyway = self.state.apply(record);
            if let Some(record) = logged {
                system_log::log_record(&record, &self.state);
            }
        }
    }

    /// Returns the time at which to call [`Self::retry_if_due`]; `None` while everything is
    /// written.
    pub(crate) const fn retry_at(&self) -> Option<MonotonicMs> {
        self.journal.retry_at()
    }

    /// Retries a failed write of the journal, if the retry is due.
    pub(crate) fn retry_if_due(&mut self, now: MonotonicMs) {
        self.journal.retry_if_due(now);
    }

    /// Drops the records that could not be written.
    pub(crate) fn discard_pending(&mut self) {
        self.journal.discard_pending();
    }

    /// Tries again to write pending records, and waits until the written ones are on the disk.
    pub(crate) fn sync(&mut self) {
        self.journal.sync();
    }

    /// Makes the record of a task that has ended durable, as far as the disk permits, and removes
    /// the files that only a live task needs.
    pub(crate) fn close(mut self) {
        self.journal.sync();
        self.journal.finish();
        recover::clear_ended(&self.root, &self.dir, &self.state);
    }
}
