//! When to look next.

use crate::process::MonotonicMs;

/// Time between two looks at a task that moves, in milliseconds.
pub(super) const ACTIVE_INTERVAL_MS: u64 = 1_000;
/// The same for one that has been quiet for long.
const MAX_IDLE_INTERVAL_MS: u64 = 16_000;
/// A look may take one part in this many of the time, unless it is so costly that looks would come
/// more rarely than at a quiet task.
const COST_FACTOR: u64 = 100;

/// How often a task is looked at.
///
/// One without limits is looked at only when its shim is awake anyway. One with limits is looked at
/// once a second while it works or grows, and ever more rarely while it does not. A look that takes
/// long, for a tree of hundreds, makes the next one late, so that at most a hundredth of a core is used,
/// but never later than at a quiet task: a machine without memory is slow, and then limits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleSchedule {
    last_sample: MonotonicMs,
    interval_ms: u64,
    min_interval_ms: u64,
}

impl SampleSchedule {
    /// Begins with a task.
    #[must_use]
    pub const fn new(now: MonotonicMs) -> Self {
        Self {
            last_sample: now,
            interval_ms: ACTIVE_INTERVAL_MS,
            min_interval_ms: ACTIVE_INTERVAL_MS,
        }
    }

    /// Returns when the next look is due by itself.
    #[must_use]
    pub fn next_sample_at(&self) -> MonotonicMs {
        self.last_sample.plus_ms(self.interval_ms.max(self.min_interval_ms))
    }

    /// Whether a look in passing would not be too early.
    #[must_use]
    pub fn may_sample(&self, now: MonotonicMs) -> bool {
        now >= self.earliest_sample_at()
    }

    /// Returns before when any look would be too early.
    #[must_use]
    pub const fn earliest_sample_at(&self) -> MonotonicMs {
        self.last_sample.plus_ms(self.min_interval_ms)
    }

    /// Notes a look that took so much processor time, and whether the task moved since the one before.
    pub fn record_sample(&mut self, now: MonotonicMs, took_us: u64, moves: bool) {
        self.last_sample = now;
        self.min_interval_ms = (took_us.saturating_mul(COST_FACTOR) / 1_000)
            .clamp(ACTIVE_INTERVAL_MS, MAX_IDLE_INTERVAL_MS);
        self.interval_ms = if moves {
            ACTIVE_INTERVAL_MS
        } else {
            (self.interval_ms * 2).min(MAX_IDLE_INTERVAL_MS)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_tasks_are_sampled_less_often_and_busy_ones_each_second() {
        let mut pace = SampleSchedule::new(MonotonicMs(0));
        let mut looks = Vec::new();
        for _ in 0..7 {
            looks.push(pace.next_sample_at().0);
            pace.record_sample(pace.next_sample_at(), 50, false);
        }
        assert_eq!(looks, [1_000, 3_000, 7_000, 15_000, 31_000, 47_000, 63_000]);
        let now = pace.next_sample_at();
        pace.record_sample(now, 50, true);
        assert_eq!(pace.next_sample_at().ms_since(now), 1_000);
        assert!(!pace.may_sample(now.plus_ms(999)) && pace.may_sample(now.plus_ms(1_000)));
    }

    #[test]
    fn an_expensive_sample_delays_the_next_one() {
        let mut pace = SampleSchedule::new(MonotonicMs(0));
        pace.record_sample(MonotonicMs(1_000), 40_000, true);
        assert_eq!(pace.next_sample_at(), MonotonicMs(5_000));
        assert!(!pace.may_sample(MonotonicMs(4_999)));
    }

    #[test]
    fn the_delay_after_an_expensive_sample_is_bounded() {
        let mut pace = SampleSchedule::new(MonotonicMs(0));
        pace.record_sample(MonotonicMs(1_000), 60_000_000, true);
        assert_eq!(pace.next_sample_at(), MonotonicMs(17_000));
        assert!(pace.may_sample(MonotonicMs(17_000)));
    }
}
