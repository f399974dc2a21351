//! Writing the journal, even when the disk has other plans.

use siding_core::journal_file::JournalFile;
use siding_core::sys::clock;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

/// Time between two tries to write what could not be written, in milliseconds. A disk that is full or
/// away stays so for minutes.
const RETRY_MS: u64 = 2_000;
/// Time until a record that the task can do without is tried again after the journal had no room
/// for it, in milliseconds.
pub(crate) const OPTIONAL_RECORD_RETRY_MS: u64 = 1_000;

/// The journal with what could not be written yet.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    journal: JournalFile,
    pending: Vec<Record>,
    /// When what is pending is tried again.
    retry_at: Option<MonotonicMs>,
}

impl JournalWriter {
    pub(crate) const fn new(journal: JournalFile) -> Self {
        Self { journal, pending: Vec::new(), retry_at: None }
    }

    /// Writes records after all earlier ones. Returns the number of the first.
    ///
    /// A failed write keeps them for the next time: the task goes on, and its callers are told all
    /// the same. The reserve makes this a matter of broken disks, not of full ones.
    pub(crate) fn write(&mut self, records: &[Record]) -> u64 {
        let first = self.journal.next_seq() + self.pending.len() as u64;
        self.pending.extend_from_slice(records);
        self.retry();
        first
    }

    /// Whether a record that is not needed may be written: everything before it was, and space for
    /// the end stays set aside behind it.
    pub(crate) fn has_room(&mut self) -> bool {
        self.pending.is_empty() && self.journal.reserve_record().is_ok()
    }

    fn retry(&mut self) {
        if self.journal.append(&self.pending).is_ok() {
            self.discard_pending();
        } else {
            self.retry_at = Some(clock::monotonic_now().plus_ms(RETRY_MS));
        }
    }

    /// Returns when to [`Self::retry_if_due`]; `None` while everything is written.
    pub(crate) const fn retry_at(&self) -> Option<MonotonicMs> {
        self.retry_at
    }

    /// Tries to write what could not be written, when that is due.
    pub(crate) fn retry_if_due(&mut self, now: MonotonicMs) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry();
        }
    }

    /// Forgets what could not be written.
    pub(crate) fn discard_pending(&mut self) {
        self.pending = Vec::new();
        self.retry_at = None;
    }

    /// Waits until everything is on the disk.
    pub(crate) fn sync(&mut self) {
        if !self.pending.is_empty() {
            self.retry();
        }
        // Nobody is left to tell; a reader finds what the disk has.
        let _best_effort = self.journal.sync();
    }

    /// Gives the reserve back.
    pub(crate) fn finish(&self) {
        let _best_effort = self.journal.release_reserve();
    }
}
