//! The time of the notice that precedes a task's deadline.
//!
//! Each deadline has at most one notice, so a task whose deadline moves can get several. A task
//! with a lifetime below [`MIN_NOTICE_LIFETIME_MS`] gets none, because the notice would come right
//! after the start. A task in the foreground gets none either, because its caller waits for its
//! end; an adopted task gets one in any placement, because its host does not read the result from
//! siding.

use crate::journal::TaskState;
use crate::lifecycle::Phase;
use crate::outcome::Placement;
use crate::process::MonotonicMs;
use crate::record::FORMAT_WITH_EXPIRING;
use crate::spec::MIN_NOTICE_LIFETIME_MS;

impl TaskState {
    /// Returns the time at which the notice of the current deadline is due. Returns `None` if the
    /// task gets no notice, or if this notice has already been recorded.
    #[must_use]
    pub fn deadline_notice_at(&self) -> Option<MonotonicMs> {
        let deadline = self.lifecycle.deadline()?;
        let runs =
            matches!(self.lifecycle.phase(), Phase::Running { .. } | Phase::Lingering { .. });
        let has_waiting_caller =
            self.lifecycle.placement() == Placement::Foreground && self.adopted.is_none();
        let is_wanted = self.format >= FORMAT_WITH_EXPIRING
            && self.spec.deadline_notice_ms > 0
            && deadline.ms_since(self.started) >= MIN_NOTICE_LIFETIME_MS
            && self.announced_deadline != Some(deadline);
        let notice_ms = self.spec.deadline_notice_ms;
        (runs && is_wanted && !has_waiting_caller)
            .then(|| MonotonicMs(deadline.0.saturating_sub(notice_ms)))
    }
}
