//! When to look next.

use crate::process::Mono;

/// Time between two looks at a task that moves, in milliseconds.
pub(super) const QUICK_MS: u64 = 1_000;
/// The same for one that has been quiet for long.
const SLOW_MS: u64 = 16_000;
/// A look may take one part in this many of the time, unless it is so costly that looks would come
/// more rarely than at a quiet task.
const SHARE: u64 = 100;

/// How often a task is looked at.
///
/// One without limits is looked at only when its shim is awake anyway. One with limits is looked at
/// once a second while it works or grows, and ever more rarely while it does not. A look that takes
/// long, for a tree of hundreds, makes the next one late, so that at most a hundredth of a core is used,
/// but never later than at a quiet task: a machine without memory is slow, and then limits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    looked: Mono,
    step_ms: u64,
    least_ms: u64,
}

impl Pace {
    /// Begins with a task.
    #[must_use]
    pub const fn new(now: Mono) -> Self {
        Self { looked: now, step_ms: QUICK_MS, least_ms: QUICK_MS }
    }

    /// Returns when the next look is due by itself.
    #[must_use]
    pub fn due(&self) -> Mono {
        self.looked.plus_ms(self.step_ms.max(self.least_ms))
    }

    /// Whether a look in passing would not be too early.
    #[must_use]
    pub fn may(&self, now: Mono) -> bool {
        now >= self.soonest()
    }

    /// Returns before when any look would be too early.
    #[must_use]
    pub const fn soonest(&self) -> Mono {
        self.looked.plus_ms(self.least_ms)
    }

    /// Notes a look that took so much processor time, and whether the task moved since the one before.
    pub fn looked(&mut self, now: Mono, took_us: u64, moves: bool) {
        self.looked = now;
        self.least_ms = (took_us.saturating_mul(SHARE) / 1_000).clamp(QUICK_MS, SLOW_MS);
        self.step_ms = if moves { QUICK_MS } else { (self.step_ms * 2).min(SLOW_MS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_tasks_are_looked_at_ever_more_rarely_and_busy_ones_each_second() {
        let mut pace = Pace::new(Mono(0));
        let mut looks = Vec::new();
        for _ in 0..7 {
            looks.push(pace.due().0);
            pace.looked(pace.due(), 50, false);
        }
        assert_eq!(looks, [1_000, 3_000, 7_000, 15_000, 31_000, 47_000, 63_000]);
        let now = pace.due();
        pace.looked(now, 50, true);
        assert_eq!(pace.due().ms_since(now), 1_000);
        assert!(!pace.may(now.plus_ms(999)) && pace.may(now.plus_ms(1_000)));
    }

    #[test]
    fn a_costly_look_makes_the_next_one_late() {
        let mut pace = Pace::new(Mono(0));
        pace.looked(Mono(1_000), 40_000, true);
        assert_eq!(pace.due(), Mono(5_000));
        assert!(!pace.may(Mono(4_999)));
    }

    #[test]
    fn no_look_is_so_costly_that_the_next_one_does_not_come() {
        let mut pace = Pace::new(Mono(0));
        pace.looked(Mono(1_000), 60_000_000, true);
        assert_eq!(pace.due(), Mono(17_000));
        assert!(pace.may(Mono(17_000)));
    }
}
