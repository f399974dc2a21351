//! The intervals between the samples of a task's resource usage.

use crate::process::MonotonicMs;

/// Interval between two samples of an active task, in milliseconds.
pub(super) const ACTIVE_INTERVAL_MS: u64 = 1_000;
/// Maximum interval between two samples of an idle task, in milliseconds.
const MAX_IDLE_INTERVAL_MS: u64 = 16_000;
/// Minimum ratio of the interval to the processor time of a sample: 100, so that sampling uses at
/// most a hundredth of a core. The resulting interval is at most [`MAX_IDLE_INTERVAL_MS`].
const COST_FACTOR: u64 = 100;

/// The schedule for sampling the resource usage of a task.
///
/// For a task without limits the schedule requests no samples; it only keeps those that the
/// watchdogs request, or that the shim takes while it is awake for another reason, at least a
/// second apart. A task with limits is sampled once a second while it works or grows, and at
/// growing intervals while it is idle. After an expensive sample, such as that of a tree of
/// hundreds of processes, the next sample is taken later, so that sampling uses at most a hundredth
/// of a core. The interval never exceeds the longest idle interval: samples are slow when the
/// machine has no free memory, and limits matter most then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleSchedule {
    last_sample: MonotonicMs,
    interval_ms: u64,
    min_interval_ms: u64,
}

impl SampleSchedule {
    /// Starts the schedule of a new task.
    #[must_use]
    pub const fn new(now: MonotonicMs) -> Self {
        Self {
            last_sample: now,
            interval_ms: ACTIVE_INTERVAL_MS,
            min_interval_ms: ACTIVE_INTERVAL_MS,
        }
    }

    /// Returns the time at which the next sample is due.
    #[must_use]
    pub fn next_sample_at(&self) -> MonotonicMs {
        self.last_sample.plus_ms(self.interval_ms.max(self.min_interval_ms))
    }

    /// Returns whether a sample may be taken now, when the shim is awake for another reason.
    #[must_use]
    pub fn may_sample(&self, now: MonotonicMs) -> bool {
        now >= self.earliest_sample_at()
    }

    /// Returns the earliest time of the next sample.
    #[must_use]
    pub const fn earliest_sample_at(&self) -> MonotonicMs {
        self.last_sample.plus_ms(self.min_interval_ms)
    }

    /// Records a sample. `took_us` is its cost in microseconds of processor time; `moves` says
    /// whether the task was active since the previous sample.
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
        let mut samples = Vec::new();
        for _ in 0..7 {
            samples.push(pace.next_sample_at().0);
            pace.record_sample(pace.next_sample_at(), 50, false);
        }
        assert_eq!(samples, [1_000, 3_000, 7_000, 15_000, 31_000, 47_000, 63_000]);
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
