//! The time until a task's deadline, and the time limit that follows from the deadline.

use std::time::Duration;

use crate::process::UnixMs;
use crate::task_view::TaskView;

/// Returns the time until the deadline, which is zero once the deadline has passed. Returns `None`
/// for an ended task, which has no deadline.
#[must_use]
pub fn until_deadline(view: &TaskView, now: UnixMs) -> Option<Duration> {
    let deadline = parse_rfc3339_ms(view.deadline_at.as_deref()?)?;
    Some(Duration::from_millis(u64::try_from(deadline - now.0).unwrap_or(0)))
}

/// Returns the task's whole time limit: the time from its start to its current deadline.
///
/// The result is rounded to a second, or to a tenth of a second below 10 s. The sum is not exact,
/// because the view's elapsed time was measured a moment before `now`.
pub(super) fn time_limit(view: &TaskView, now: UnixMs) -> Option<Duration> {
    let limit = until_deadline(view, now)? + Duration::from_millis(view.elapsed_ms);
    let step: u64 = if limit < Duration::from_secs(10) { 100 } else { 1000 };
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    Some(Duration::from_millis(limit_ms.saturating_add(step / 2) / step * step))
}

/// Parses a time in the form of [`UnixMs::rfc3339`] into milliseconds since 1970.
fn parse_rfc3339_ms(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    if text.len() != "2026-11-21T22:41:12.345Z".len() || !text.ends_with('Z') {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    // Counts the days since 1970. The year starts in March for this calculation, so that a leap day
    // is the last day of a year.
    let shifted = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + number(20..23)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_times_round_trip() {
        for ms in [0, 1, 951_782_399_999, 951_868_800_000, 1_763_764_872_345, 4_107_542_400_000] {
            assert_eq!(parse_rfc3339_ms(&UnixMs(ms).rfc3339()), Some(ms));
        }
        assert_eq!(parse_rfc3339_ms("soon"), None);
    }
}
