//! The period that a timeline shows.

use super::TimelineTask;
use crate::process::UnixMs;

/// The period that a timeline shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineWindow {
    /// Start of the first column.
    pub since: UnixMs,
    /// End of the last column, later than `since`.
    pub until: UnixMs,
    /// The time at which the tasks were read. Bars of running tasks end here.
    pub now: UnixMs,
}

impl TimelineWindow {
    /// Minimum length of a window, in milliseconds, so that bars of very short tasks can be told
    /// apart.
    const MIN_SPAN_MS: i64 = 1_000;
    /// Space after the present, as a fraction of the window, so that the line for the present is
    /// inside.
    const MARGIN_DIVISOR: i64 = 40;
    /// Minimum length of the period for a caller that chooses none, in milliseconds.
    const MIN_DEFAULT_BACK_MS: i64 = 3_600_000;
    /// Maximum length of this period, in milliseconds. In a longer one, for example since the start
    /// of a server, the other tasks would be too short to be told apart.
    const MAX_DEFAULT_BACK_MS: i64 = 24 * 3_600_000;

    /// Returns the length of the period for a caller that chooses none, in milliseconds: an hour,
    /// or the time since the start of the oldest running task that was started in the last day.
    #[must_use]
    pub fn default_back_ms(tasks: &[TimelineTask], now: UnixMs) -> i64 {
        let running = tasks.iter().filter(|task| task.ended_at.is_none());
        running
            .map(|task| now.0.saturating_sub(task.started_at.0))
            .filter(|age_ms| *age_ms <= Self::MAX_DEFAULT_BACK_MS)
            .fold(Self::MIN_DEFAULT_BACK_MS, i64::max)
    }

    /// Returns the window that ends shortly after `now` and begins at the first start of a task,
    /// but at least one second and at most `back_ms` before `now`.
    #[must_use]
    pub fn fit(tasks: &[TimelineTask], now: UnixMs, back_ms: i64) -> Self {
        let earliest = now.plus_ms(back_ms.max(Self::MIN_SPAN_MS).saturating_neg());
        let first = tasks.iter().map(|task| task.started_at).min().unwrap_or(earliest);
        let latest = now.plus_ms(-Self::MIN_SPAN_MS);
        let since = first.max(earliest).min(latest);
        let span = now.0.saturating_sub(since.0);
        Self { since, until: now.plus_ms((span / Self::MARGIN_DIVISOR).max(1)), now }
    }
}
