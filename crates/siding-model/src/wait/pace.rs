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
