//! When a silent task is looked at.
//!
//! While a task writes nothing happens here but noting the time. After two seconds of silence it
//! is looked at, then ever more rarely, at most once a minute: who asks writes its question first,
//! so that what is not seen at the first look seldom comes later without a word. Once a stall is on
//! record it is not looked at any more, until it has written something or was given input.

use crate::process::Mono;

/// First look after this much silence, in milliseconds; also the time for which evidence that
/// calls for somebody must have held.
pub const FIRST_LOOK_MS: u64 = 2_000;
/// By how much the time between two looks grows.
const GROWTH: u64 = 6;
/// Longest time between two looks, in milliseconds.
const LAST_MS: u64 = 60_000;

/// The watch over one task's silence. Times are those of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// Silence after which a stall is recorded, whatever was found; zero records none.
    after_ms: u64,
    silent_since: Mono,
    /// Since when it is watched: its last output, or its last input.
    since: Mono,
    /// Time until the next look, and the look it counts from.
    step_ms: u64,
    looked: Option<Mono>,
    is_told: bool,
}

/// What a look found, as far as the watch is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing that cannot wait.
    Patience,
    /// Something that calls for somebody, in one sample.
    Suspicion,
    /// The same, and it has held since this moment.
    Certainty {
        /// First sample that showed it.
        since: Mono,
    },
}

impl Watch {
    /// Begins to watch.
    #[must_use]
    pub const fn new(after_ms: u64, silent_since: Mono, is_told: bool) -> Self {
        let since = silent_since;
        Self { after_ms, silent_since, since, step_ms: FIRST_LOOK_MS, looked: None, is_told }
    }

    /// Notes that the task has written.
    pub const fn wrote(&mut self, now: Mono) {
        *self = Self::new(self.after_ms, now, false);
    }

    /// Notes that the task was given input. It is as silent as before, but may go on now.
    pub const fn was_given(&mut self, now: Mono) {
        let silent_since = self.silent_since;
        self.wrote(now);
        self.silent_since = silent_since;
    }

    /// Returns how long the task has been silent, in milliseconds.
    #[must_use]
    pub const fn silent_ms(&self, now: Mono) -> u64 {
        now.ms_since(self.silent_since)
    }

    /// Returns when to look next, `None` when there is no need.
    #[must_use]
    pub fn wake_at(&self) -> Option<Mono> {
        if self.after_ms == 0 || self.is_told {
            return None;
        }
        let end = self.since.plus_ms(self.after_ms);
        let Some(looked) = self.looked else {
            // There must be two looks before anything is said.
            return Some(self.since.plus_ms(FIRST_LOOK_MS.min(self.after_ms / 2)));
        };
        let next = looked.plus_ms(self.step_ms);
        Some(if looked < end { next.min(end) } else { next })
    }

    /// Takes in what a look has found. Returns whether the stall is to be put on record now.
    pub fn looked(&mut self, now: Mono, found: Found) -> bool {
        let is_first = self.looked.replace(now).is_none();
        let silence_is_over = now.ms_since(self.since) >= self.after_ms;
        self.step_ms = match found {
            Found::Patience => self.step_ms.saturating_mul(GROWTH).min(LAST_MS),
            Found::Suspicion | Found::Certainty { .. } => FIRST_LOOK_MS,
        };
        let holds = match found {
            Found::Certainty { since } => now.ms_since(since) >= FIRST_LOOK_MS,
            Found::Patience | Found::Suspicion => false,
        };
        self.is_told = !is_first && (holds || silence_is_over);
        self.is_told
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs the watch over an hour of silence; returns when it looked, and when it told.
    fn silence(after_ms: u64, found: impl Fn(Mono) -> Found) -> (Vec<u64>, Option<u64>) {
        let mut watch = Watch::new(after_ms, Mono(0), false);
        let mut looks = Vec::new();
        while let Some(at) = watch.wake_at().filter(|at| at.0 <= 3_600_000) {
            looks.push(at.0);
            if watch.looked(at, found(at)) {
                return (looks, Some(at.0));
            }
        }
        (looks, None)
    }

    #[test]
    fn a_quiet_build_is_told_at_45_s_and_never_again() {
        let (looks, told) = silence(45_000, |_| Found::Patience);
        assert_eq!(looks, [2_000, 14_000, 45_000]);
        assert_eq!(told, Some(45_000));
    }

    #[test]
    fn hard_evidence_is_told_after_two_samples_and_two_seconds() {
        let since = Mono(2_000);
        let found = |now| match now {
            Mono(2_000) => Found::Suspicion,
            _ => Found::Certainty { since },
        };
        assert_eq!(silence(45_000, found), (vec![2_000, 4_000], Some(4_000)));
        // A prompt that comes after a long silent computation.
        let late = |now: Mono| match now.0 {
            ..10_000 => Found::Patience,
            10_000..15_000 => Found::Suspicion,
            _ => Found::Certainty { since: Mono(14_000) },
        };
        assert_eq!(silence(45_000, late), (vec![2_000, 14_000, 16_000], Some(16_000)));
    }

    #[test]
    fn who_was_answered_is_watched_anew_and_is_as_silent_as_before() {
        let mut watch = Watch::new(45_000, Mono(0), true);
        assert_eq!(watch.wake_at(), None);
        watch.was_given(Mono(60_000));
        assert_eq!(watch.wake_at(), Some(Mono(62_000)));
        assert!(!watch.looked(Mono(62_000), Found::Patience));
        assert!(!watch.looked(Mono(74_000), Found::Patience));
        assert!(watch.looked(Mono(105_000), Found::Patience), "a stall of its own");
        assert_eq!(watch.silent_ms(Mono(105_000)), 105_000);
    }

    #[test]
    fn long_waits_are_looked_at_once_a_minute() {
        let (looks, told) = silence(1_800_000, |_| Found::Patience);
        assert!(looks.windows(2).all(|pair| pair[1] - pair[0] <= 60_000));
        assert!(looks.len() < 37, "{looks:?}");
        assert_eq!(told, Some(1_800_000));
    }

    proptest! {
        #[test]
        fn nothing_is_told_on_one_sample_or_twice(
            after_ms in 0_u64..200_000,
            found in prop::collection::vec(0_u8..3, 1..40),
            written in prop::collection::vec(any::<bool>(), 40),
        ) {
            let mut watch = Watch::new(after_ms, Mono(0), false);
            let mut looks = 0;
            for (found, written) in found.into_iter().zip(written) {
                let Some(at) = watch.wake_at() else { break };
                // A due watch makes progress.
                prop_assert!(at >= watch.silent_since);
                looks += 1;
                let found = match found {
                    0 => Found::Patience,
                    1 => Found::Suspicion,
                    _ => Found::Certainty { since: Mono(at.0.saturating_sub(FIRST_LOOK_MS)) },
                };
                let told = watch.looked(at, found);
                prop_assert!(!told || looks > 1, "on one sample");
                prop_assert!(told || watch.wake_at().is_some_and(|next| next > at), "it spins");
                prop_assert!(!told || watch.wake_at().is_none(), "told twice");
                if told && written {
                    watch.wrote(at.plus_ms(1));
                    looks = 0;
                }
            }
        }
    }
}
