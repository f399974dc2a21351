//! How often to look at what the kernel does not tell of.

use crate::process::MonotonicMs;

/// A look costs at most this part of the time: after one that took 1 ms there are 9 ms without.
const COST_FACTOR: u64 = 9;

/// Times of looks that grow apart: quick for what is about to happen, cheap for what is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckBackoff {
    pause_ms: u64,
    max_pause_ms: u64,
    next_check: MonotonicMs,
}

impl CheckBackoff {
    /// Begins with a look at once, then after `first_ms`, doubling up to `most_ms`.
    #[must_use]
    pub const fn new(first_ms: u64, most_ms: u64) -> Self {
        Self { pause_ms: first_ms, max_pause_ms: most_ms, next_check: MonotonicMs(0) }
    }

    /// Returns when to look next.
    #[must_use]
    pub const fn next_check_at(&self) -> MonotonicMs {
        self.next_check
    }

    /// Takes note of a look and how long it took. One that is expensive is followed by a longer
    /// pause, so that looking never takes more than a tenth of a core.
    pub fn record_check(&mut self, from: MonotonicMs, to: MonotonicMs) {
        let cost = to.ms_since(from);
        self.next_check = to.plus_ms(self.pause_ms.max(cost.saturating_mul(COST_FACTOR)));
        self.pause_ms = self.pause_ms.saturating_mul(2).min(self.max_pause_ms);
    }
}

/// Times of looks by one who waits as long as a task may live, and must cost next to nothing.
///
/// The pauses grow with the wait, so that what is found is found at most a twentieth of the wait too
/// late, and at most [`Self::MAX_PAUSE_MS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongWaitBackoff {
    started: MonotonicMs,
    next_check: MonotonicMs,
}

impl LongWaitBackoff {
    /// Shortest pause, in milliseconds.
    const MIN_PAUSE_MS: u64 = 5;
    /// Longest pause, in milliseconds: a thousand who wait for ports take a hundredth of a core.
    pub const MAX_PAUSE_MS: u64 = 5_000;
    /// A pause is this part of the wait so far.
    const WAIT_DIVISOR: u64 = 20;
    /// A look costs at most this part of the time: one that took 1 ms is followed by 99 without.
    const COST_FACTOR: u64 = 99;

    /// Begins with a look at once.
    #[must_use]
    pub const fn new(began: MonotonicMs) -> Self {
        Self { started: began, next_check: began }
    }

    /// Returns when to look next.
    #[must_use]
    pub const fn next_check_at(&self) -> MonotonicMs {
        self.next_check
    }

    /// Takes note of a look and how long it took.
    pub fn record_check(&mut self, from: MonotonicMs, to: MonotonicMs) {
        let pause = (to.ms_since(self.started) / Self::WAIT_DIVISOR)
            .clamp(Self::MIN_PAUSE_MS, Self::MAX_PAUSE_MS);
        let cost = to.ms_since(from);
        self.next_check = to.plus_ms(pause.max(cost.saturating_mul(Self::COST_FACTOR)));
    }
}
