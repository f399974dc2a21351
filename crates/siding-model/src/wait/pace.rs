//! How often to look at what the kernel does not tell of.

use crate::process::Mono;

/// A look costs at most this part of the time: after one that took 1 ms there are 9 ms without.
const REST: u64 = 9;

/// Times of looks that grow apart: quick for what is about to happen, cheap for what is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    pause_ms: u64,
    most_ms: u64,
    at: Mono,
}

impl Pace {
    /// Begins with a look at once, then after `first_ms`, doubling up to `most_ms`.
    #[must_use]
    pub const fn new(first_ms: u64, most_ms: u64) -> Self {
        Self { pause_ms: first_ms, most_ms, at: Mono(0) }
    }

    /// Returns when to look next.
    #[must_use]
    pub const fn at(&self) -> Mono {
        self.at
    }

    /// Takes note of a look and how long it took. One that is expensive is followed by a longer
    /// pause, so that looking never takes more than a tenth of a core.
    pub fn looked(&mut self, from: Mono, to: Mono) {
        let cost = to.ms_since(from);
        self.at = to.plus_ms(self.pause_ms.max(cost.saturating_mul(REST)));
        self.pause_ms = self.pause_ms.saturating_mul(2).min(self.most_ms);
    }
}

/// Times of looks by one who waits as long as a task may live, and must cost next to nothing.
///
/// The pauses grow with the wait, so that what is found is found at most a twentieth of the wait too
/// late, and at most [`Self::MOST_MS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    began: Mono,
    at: Mono,
}

impl Patience {
    /// Shortest pause, in milliseconds.
    const LEAST_MS: u64 = 5;
    /// Longest pause, in milliseconds: a thousand who wait for ports take a hundredth of a core.
    pub const MOST_MS: u64 = 5_000;
    /// A pause is this part of the wait so far.
    const PART: u64 = 20;
    /// A look costs at most this part of the time: one that took 1 ms is followed by 99 without.
    const REST: u64 = 99;

    /// Begins with a look at once.
    #[must_use]
    pub const fn new(began: Mono) -> Self {
        Self { began, at: began }
    }

    /// Returns when to look next.
    #[must_use]
    pub const fn at(&self) -> Mono {
        self.at
    }

    /// Takes note of a look and how long it took.
    pub fn looked(&mut self, from: Mono, to: Mono) {
        let pause = (to.ms_since(self.began) / Self::PART).clamp(Self::LEAST_MS, Self::MOST_MS);
        let cost = to.ms_since(from);
        self.at = to.plus_ms(pause.max(cost.saturating_mul(Self::REST)));
    }
}
