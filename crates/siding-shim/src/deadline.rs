//! Recording that the task's deadline is near.

use siding_core::sys::clock;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

use crate::task_supervisor::TaskSupervisor;

/// Time until the journal is asked again for room for the record, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// The notice of the current deadline.
#[derive(Debug, Default)]
pub(crate) struct DeadlineNotice {
    /// When the journal is asked again, once it had no room.
    retry_at: Option<MonotonicMs>,
}

impl TaskSupervisor {
    /// Returns when [`Self::record_near_deadline`] is due.
    pub(crate) fn deadline_notice_at(&self) -> Option<MonotonicMs> {
        let due = self.state.deadline_notice_at()?;
        Some(self.deadline_notice.retry_at.map_or(due, |retry_at| due.max(retry_at)))
    }

    /// Records that the deadline is near, once that is due.
    pub(crate) fn record_near_deadline(&mut self, now: MonotonicMs) {
        if self.deadline_notice_at().is_none_or(|at| now < at) {
            return;
        }
        // The remaining space on a full disk is reserved for the final record.
        if !self.journal.has_room() {
            self.deadline_notice.retry_at = Some(now.plus_ms(RETRY_MS));
            return;
        }
        let deadline = self.state.lifecycle.deadline();
        self.record(vec![Record::Expiring { at: clock::monotonic_now(), deadline }]);
    }
}
