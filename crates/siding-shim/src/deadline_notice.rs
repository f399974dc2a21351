//! The notice of the approaching deadline of a task.

use siding_core::sys::clock;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

use crate::journal_writer::OPTIONAL_RECORD_RETRY_MS;

/// Decides when the notice of the current deadline is recorded.
#[derive(Debug, Default)]
pub(crate) struct DeadlineNoticeTimer {
    /// The time at which the journal is checked again, after it had no space for the notice.
    retry_at: Option<MonotonicMs>,
}

impl DeadlineNoticeTimer {
    /// Returns the time at which the notice is due; `None` once the notice is recorded, and for a
    /// task without such a notice.
    pub(crate) fn wake_at(&self, state: &TaskState) -> Option<MonotonicMs> {
        let due = state.deadline_notice_at()?;
        Some(self.retry_at.map_or(due, |retry_at| due.max(retry_at)))
    }

    /// Returns the notice if it is due, otherwise `None`.
    pub(crate) fn check(&self, state: &TaskState, now: MonotonicMs) -> Option<Record> {
        let is_due = self.wake_at(state).is_some_and(|at| at <= now);
        let deadline = state.lifecycle.deadline()?;
        is_due.then(|| Record::Expiring { at: clock::monotonic_now(), deadline })
    }

    /// Postpones the notice, because the journal had no space for it.
    pub(crate) const fn postpone(&mut self, now: MonotonicMs) {
        self.retry_at = Some(now.plus_ms(OPTIONAL_RECORD_RETRY_MS));
    }
}
