//! The time until a task's deadline, and the time limit that follows from the deadline.

use std::time::Duration;

use crate::process::UnixMs;
use crate::spec::MIN_NOTICE_LIFETIME_MS;
use crate::task_view::TaskView;

/// Returns the time until the deadline, which is zero once the deadline has passed. Returns `None`
/// for a task without a deadline: an ended one, or one for which a person waits in the foreground.
#[must_use]
pub fn until_deadline(view: &TaskView, now: UnixMs) -> Option<Duration> {
    let deadline = UnixMs::from_rfc3339(view.deadline_at.as_deref()?)?;
    Some(Duration::from_millis(u64::try_from(deadline.0 - now.0).unwrap_or(0)))
}

/// Returns whether the task's deadline is at most `notice` away. Returns false for a task whose
/// whole time limit is so short that it has no notice of its deadline.
#[must_use]
pub fn is_deadline_near(view: &TaskView, now: UnixMs, notice: Duration) -> bool {
    let min_limit = Duration::from_millis(MIN_NOTICE_LIFETIME_MS);
    until_deadline(view, now).is_some_and(|left| left <= notice)
        && time_limit(view, now).is_some_and(|limit| limit >= min_limit)
}

/// Returns the task's whole time limit: the time from its start to its current deadline. `None`
/// without a deadline.
///
/// The result is rounded. The sum is not exact, because the view's elapsed time was measured a
/// moment before `now`.
pub(super) fn time_limit(view: &TaskView, now: UnixMs) -> Option<Duration> {
    Some(round_time_limit(until_deadline(view, now)? + Duration::from_millis(view.elapsed_ms)))
}

/// Rounds a time to a second, or to a tenth of a second below 10 s.
pub(super) fn round_time_limit(limit: Duration) -> Duration {
    let step: u64 = if limit < Duration::from_secs(10) { 100 } else { 1000 };
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(limit_ms.saturating_add(step / 2) / step * step)
}
