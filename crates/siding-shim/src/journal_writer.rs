//! Writes the journal, and retries when a write fails.

use siding_core::store::journal_file::JournalFile;
use siding_core::sys::clock;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

/// Time between two attempts to write pending records, in milliseconds. A disk that is full or
/// disconnected usually stays so for minutes.
const RETRY_MS: u64 = 2_000;
/// Time until the shim tries again to write an optional record for which
/// [`JournalWriter::can_write_optional_record`] returned false, in milliseconds.
pub(crate) const OPTIONAL_RECORD_RETRY_MS: u64 = 1_000;

/// The journal, and the records that could not be written to it yet.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    journal: JournalFile,
    pending: Vec<Record>,
    /// The time of the next attempt to write the pending records; `None` if no record is pending.
    retry_at: Option<MonotonicMs>,
}

impl JournalWriter {
    pub(crate) const fn new(journal: JournalFile) -> Self {
        Self { journal, pending: Vec::new(), retry_at: None }
    }

    /// Writes records after all earlier records. Returns the sequence number of the first new
    /// record.
    ///
    /// After a failed write the records stay pending: the task continues, and its clients receive
    /// them. The journal reserves its space in advance, so that a write fails on a broken disk
    /// rather than on a full one.
    pub(crate) fn write(&mut self, records: &[Record]) -> u64 {
        let first = self.journal.next_seq() + self.pending.len() as u64;
        self.pending.extend_from_slice(records);
        self.retry();
        first
    }

    /// Returns whether an optional record may be written: no record is pending, and the space for
    /// the final record stays reserved.
    pub(crate) fn can_write_optional_record(&mut self) -> bool {
        self.pending.is_empty() && self.journal.reserve_record().is_ok()
    }

    fn retry(&mut self) {
        if self.journal.append(&self.pending).is_ok() {
            self.discard_pending();
        } else {
            self.retry_at = Some(clock::monotonic_now().plus_ms(RETRY_MS));
        }
    }

    /// Returns the time at which to call [`Self::retry_if_due`]; `None` while no record is pending.
    pub(crate) const fn retry_at(&self) -> Option<MonotonicMs> {
        self.retry_at
    }

    /// Writes the pending records if the retry is due.
    pub(crate) fn retry_if_due(&mut self, now: MonotonicMs) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry();
        }
    }

    /// Drops the pending records.
    pub(crate) fn discard_pending(&mut self) {
        self.pending = Vec::new();
        self.retry_at = None;
    }

    /// Tries again to write the pending records, and waits until the written records are on the
    /// disk (fdatasync(2)). Records that cannot be written stay pending.
    pub(crate) fn sync(&mut self) {
        if !self.pending.is_empty() {
            self.retry();
        }
        // The error is ignored, because no caller could handle it. A reader of the journal finds
        // the records that have reached the disk.
        let _best_effort = self.journal.sync();
    }

    /// Releases the space that is reserved for later records.
    pub(crate) fn finish(&self) {
        let _best_effort = self.journal.release_reserve();
    }
}
