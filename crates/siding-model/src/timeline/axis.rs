//! The columns and the labels of the time axis.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::process::UnixMs;

use super::{AxisTick, TimelineGrid, TimelineWindow};

const SECOND_MS: i64 = 1_000;
pub(super) const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The possible distances between two ticks, in milliseconds. Larger distances are the last one
/// multiplied by powers of two.
const STEPS_MS: [i64; 22] = [
    SECOND_MS,
    2 * SECOND_MS,
    5 * SECOND_MS,
    10 * SECOND_MS,
    15 * SECOND_MS,
    30 * SECOND_MS,
    MINUTE_MS,
    2 * MINUTE_MS,
    5 * MINUTE_MS,
    10 * MINUTE_MS,
    15 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    2 * HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    2 * DAY_MS,
    7 * DAY_MS,
    14 * DAY_MS,
    28 * DAY_MS,
];

/// Columns between two labels, in characters.
const LABEL_GAP_CHARS: usize = 3;

/// Converts times to columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnScale {
    since: UnixMs,
    span_ms: i128,
    pub(super) columns: usize,
}

impl ColumnScale {
    pub(super) fn new(window: TimelineWindow, columns: usize) -> Self {
        let span_ms = i128::from(window.until.0) - i128::from(window.since.0);
        Self { since: window.since, span_ms: span_ms.max(1), columns: columns.max(1) }
    }

    /// Returns the column that contains a time, clamped to the window.
    pub(super) fn column(self, at: UnixMs) -> usize {
        self.column_of_ms(i128::from(at.0) - i128::from(self.since.0)).min(self.columns - 1)
    }

    /// Returns the first column that begins at or after a time, clamped to the window.
    pub(super) fn column_after(self, at: UnixMs) -> usize {
        let after_ms = i128::from(at.0) - i128::from(self.since.0);
        let scaled = after_ms.max(0).saturating_mul(self.columns as i128);
        let column = (scaled + self.span_ms - 1) / self.span_ms;
        usize::try_from(column).unwrap_or(usize::MAX).min(self.columns)
    }

    fn column_of_ms(self, after_ms: i128) -> usize {
        let scaled = after_ms.max(0).saturating_mul(self.columns as i128);
        usize::try_from(scaled / self.span_ms).unwrap_or(usize::MAX)
    }

    /// Returns whether a period is shorter than this number of columns.
    pub(super) fn is_narrower(self, from: UnixMs, to: UnixMs, columns: usize) -> bool {
        let length_ms = i128::from(to.0) - i128::from(from.0);
        length_ms.saturating_mul(self.columns as i128) < self.span_ms * columns as i128
    }
}

/// Returns the ticks of the time axis: at round local times, so far apart that their labels do not
/// touch.
pub(super) fn axis_ticks(window: TimelineWindow, grid: TimelineGrid) -> Vec<AxisTick> {
    let scale = ColumnScale::new(window, grid.columns);
    let step = step_ms(scale, grid.char_columns.max(1));
    let local = |at: UnixMs| at.0.saturating_add(grid.utc_offset_ms);
    let mut ticks = Vec::new();
    let mut at = local(window.since).div_euclid(step).saturating_mul(step);
    while at < local(window.until) {
        let moment = UnixMs(at.saturating_sub(grid.utc_offset_ms));
        if moment >= window.since {
            ticks.push(AxisTick { column: scale.column(moment), label: tick_label(at, step) });
        }
        let next = at.saturating_add(step);
        if next == at {
            break;
        }
        at = next;
    }
    ticks
}

/// Returns the smallest step whose labels fit.
fn step_ms(scale: ColumnScale, char_columns: usize) -> i64 {
    let fits = |step: i64| {
        let needed = (label_chars(step) + LABEL_GAP_CHARS) * char_columns;
        scale.column_of_ms(i128::from(step)) >= needed
    };
    if let Some(step) = STEPS_MS.into_iter().find(|step| fits(*step)) {
        return step;
    }
    let mut step = STEPS_MS[STEPS_MS.len() - 1];
    while !fits(step) && step < i64::MAX / 2 {
        step *= 2;
    }
    step
}

const fn label_chars(step: i64) -> usize {
    if step < MINUTE_MS {
        "14:05:30".len()
    } else if step < DAY_MS {
        "Nov 21".len()
    } else {
        "2026-11-21".len()
    }
}

/// Formats a local time, given in milliseconds since 1970.
fn tick_label(local_ms: i64, step: i64) -> String {
    let Some(time) = civil_time(local_ms) else { return String::new() };
    if step >= DAY_MS {
        time.strftime("%Y-%m-%d").to_string()
    } else if local_ms.rem_euclid(DAY_MS) == 0 {
        time.strftime("%b %-d").to_string()
    } else if step >= MINUTE_MS {
        time.strftime("%H:%M").to_string()
    } else {
        time.strftime("%H:%M:%S").to_string()
    }
}

fn civil_time(local_ms: i64) -> Option<DateTime> {
    let timestamp = jiff::Timestamp::from_millisecond(local_ms).ok()?;
    Some(timestamp.to_zoned(TimeZone::UTC).datetime())
}
