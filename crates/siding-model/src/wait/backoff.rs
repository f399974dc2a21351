//! Polling intervals for conditions without a kernel event.

use crate::process::MonotonicMs;

/// Minimum ratio of a pause to the duration of the check before it: a check of 1 ms is followed by
/// a pause of 9 ms.
const COST_FACTOR: u64 = 9;

/// A polling schedule with growing pauses: a condition that soon holds is detected quickly, and a
/// long wait costs little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckBackoff {
    pause_ms: u64,
    max_pause_ms: u64,
    next_check: MonotonicMs,
}

impl CheckBackoff {
    /// Starts with an immediate check. The first pause is `first_ms`; each further pause is twice
    /// as long, up to `most_ms`.
    #[must_use]
    pub const fn new(first_ms: u64, most_ms: u64) -> Self {
        Self { pause_ms: first_ms, max_pause_ms: most_ms, next_check: MonotonicMs(0) }
    }

    /// Returns the time of the next check.
    #[must_use]
    pub const fn next_check_at(&self) -> MonotonicMs {
        self.next_check
    }

    /// Records a check that lasted from `from` to `to`. A long check is followed by a longer pause,
    /// so that checks use at most a tenth of the time.
    pub fn record_check(&mut self, from: MonotonicMs, to: MonotonicMs) {
        let cost = to.ms_since(from);
        self.next_check = to.plus_ms(self.pause_ms.max(cost.saturating_mul(COST_FACTOR)));
        self.pause_ms = self.pause_ms.saturating_mul(2).min(self.max_pause_ms);
    }
}

/// A low-cost polling schedule for waits that may last as long as a task.
///
/// Each pause is a twentieth of the wait so far, at least 5 ms and at most [`Self::MAX_PAUSE_MS`],
/// and longer only after a long check. A condition is therefore detected with a delay that is small
/// compared with the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongWaitBackoff {
    started: MonotonicMs,
    next_check: MonotonicMs,
}

impl LongWaitBackoff {
    /// Minimum pause, in milliseconds.
    const MIN_PAUSE_MS: u64 = 5;
    /// Maximum pause, in milliseconds. With this pause, a thousand waits for ports use a hundredth
    /// of a core.
    pub const MAX_PAUSE_MS: u64 = 5_000;
    /// Ratio of the wait so far to the next pause.
    const WAIT_DIVISOR: u64 = 20;
    /// Minimum ratio of a pause to the duration of the check before it: a check of 1 ms is followed
    /// by a pause of 99 ms.
    const COST_FACTOR: u64 = 99;

    /// Starts with an immediate check.
    #[must_use]
    pub const fn new(began: MonotonicMs) -> Self {
        Self { started: began, next_check: began }
    }

    /// Returns the time of the next check.
    #[must_use]
    pub const fn next_check_at(&self) -> MonotonicMs {
        self.next_check
    }

    /// Records a check that lasted from `from` to `to`.
    pub fn record_check(&mut self, from: MonotonicMs, to: MonotonicMs) {
        let pause = (to.ms_since(self.started) / Self::WAIT_DIVISOR)
            .clamp(Self::MIN_PAUSE_MS, Self::MAX_PAUSE_MS);
        let cost = to.ms_since(from);
        self.next_check = to.plus_ms(pause.max(cost.saturating_mul(Self::COST_FACTOR)));
    }
}
