//! The schedule for sampling a silent task.
//!
//! While a task writes output, only the time of the last output is updated. The first sample is
//! taken after two seconds of silence, or earlier if stalls are recorded after less than four
//! seconds. Later samples follow at growing intervals of at most one minute, because a program
//! prints its question before it blocks: a wait for input that starts later in the silence is rare.
//! After a sample that suggests that action is required, the next one follows after two seconds.
//! Once a stall is recorded, no more samples are scheduled until the task writes output or receives
//! input.

use crate::process::MonotonicMs;
use crate::terminal::AwaitedInput;

/// Maximum silence before the first sample, in milliseconds. A state that requires action is
/// recorded as a stall once it has lasted this long.
pub const FIRST_SAMPLE_DELAY_MS: u64 = 2_000;
/// Factor by which the interval between two samples grows.
const INTERVAL_GROWTH_FACTOR: u64 = 6;
/// Maximum interval between two samples, in milliseconds.
const MAX_SAMPLE_INTERVAL_MS: u64 = 60_000;

/// The sampling schedule of one task. Times are those of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilenceWatch {
    /// Silence after which a stall is recorded regardless of the evidence, in milliseconds; zero
    /// disables the watch.
    record_after_ms: u64,
    silent_since: MonotonicMs,
    /// Time of the last output or the last input, whichever is later; the schedule counts from it.
    watching_since: MonotonicMs,
    /// Interval from `last_sample` to the next sample.
    interval_ms: u64,
    last_sample: Option<MonotonicMs>,
    /// Whether the agent that types into the task's terminal knows that the task waits for input.
    is_wait_shown: bool,
    is_recorded: bool,
}

/// The result of one sample, as far as the schedule needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleResult {
    /// The sample shows no reason to sample again soon.
    Inconclusive,
    /// One sample suggests that action is required.
    Suspicious,
    /// Two samples agree that action is required.
    Certain {
        /// Time of the first sample that showed the state.
        since: MonotonicMs,
    },
}

impl SilenceWatch {
    /// Starts a watch. `is_recorded` is true if the stall of this silence has already been
    /// recorded.
    #[must_use]
    pub const fn new(after_ms: u64, silent_since: MonotonicMs, is_recorded: bool) -> Self {
        let since = silent_since;
        Self {
            record_after_ms: after_ms,
            silent_since,
            watching_since: since,
            interval_ms: FIRST_SAMPLE_DELAY_MS,
            last_sample: None,
            is_wait_shown: false,
            is_recorded,
        }
    }

    /// Records that the task wrote output.
    pub const fn record_output(&mut self, now: MonotonicMs) {
        *self = Self::new(self.record_after_ms, now, false);
    }

    /// Records that the task received input. The silence continues, but the input may have ended
    /// the wait, so the sampling starts again.
    pub const fn record_input(&mut self, now: MonotonicMs) {
        let silent_since = self.silent_since;
        self.record_output(now);
        self.silent_since = silent_since;
    }

    /// Records that the agent that has typed was told that the task waits for the next input.
    pub const fn record_shown_wait(&mut self) {
        self.is_wait_shown = true;
    }

    /// Returns whether a task that waits for this input continues a dialog with an agent, which
    /// knows of the wait. A stall is then recorded only after the usual silence. A secret is not
    /// part of a dialog, because a person has to type it.
    #[must_use]
    pub fn continues_dialog(&self, awaited: Option<AwaitedInput>) -> bool {
        match awaited {
            Some(AwaitedInput::Line | AwaitedInput::Keys) => self.is_wait_shown,
            Some(AwaitedInput::Secret) | None => false,
        }
    }

    /// Returns how long the task has been silent, in milliseconds.
    #[must_use]
    pub const fn silent_ms(&self, now: MonotonicMs) -> u64 {
        now.ms_since(self.silent_since)
    }

    /// Returns the time of the next sample. Returns `None` when the watch is disabled or the stall
    /// is already recorded.
    #[must_use]
    pub fn wake_at(&self) -> Option<MonotonicMs> {
        if self.record_after_ms == 0 || self.is_recorded {
            return None;
        }
        let end = self.watching_since.plus_ms(self.record_after_ms);
        let Some(looked) = self.last_sample else {
            // A stall needs two samples, so the first is taken after half of `record_after_ms` at
            // the latest.
            return Some(
                self.watching_since.plus_ms(FIRST_SAMPLE_DELAY_MS.min(self.record_after_ms / 2)),
            );
        };
        let next = looked.plus_ms(self.interval_ms);
        Some(if looked < end { next.min(end) } else { next })
    }

    /// Processes the result of a sample. Returns whether the stall must be recorded now.
    pub fn record_sample(&mut self, now: MonotonicMs, found: SampleResult) -> bool {
        let is_first = self.last_sample.replace(now).is_none();
        let silence_is_over = now.ms_since(self.watching_since) >= self.record_after_ms;
        self.interval_ms = match found {
            SampleResult::Inconclusive => {
                self.interval_ms.saturating_mul(INTERVAL_GROWTH_FACTOR).min(MAX_SAMPLE_INTERVAL_MS)
            }
            SampleResult::Suspicious | SampleResult::Certain { .. } => FIRST_SAMPLE_DELAY_MS,
        };
        let holds = match found {
            SampleResult::Certain { since } => now.ms_since(since) >= FIRST_SAMPLE_DELAY_MS,
            SampleResult::Inconclusive | SampleResult::Suspicious => false,
        };
        self.is_recorded = !is_first && (holds || silence_is_over);
        self.is_recorded
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Simulates an hour of silence. Returns the times of the samples, and the time at which the
    /// stall is recorded.
    fn run_silence(
        after_ms: u64,
        found: impl Fn(MonotonicMs) -> SampleResult,
    ) -> (Vec<u64>, Option<u64>) {
        let mut watch = SilenceWatch::new(after_ms, MonotonicMs(0), false);
        let mut samples = Vec::new();
        while let Some(at) = watch.wake_at().filter(|at| at.0 <= 3_600_000) {
            samples.push(at.0);
            if watch.record_sample(at, found(at)) {
                return (samples, Some(at.0));
            }
        }
        (samples, None)
    }

    #[test]
    fn a_quiet_build_is_recorded_once_at_45_s() {
        let (samples, recorded_at) = run_silence(45_000, |_| SampleResult::Inconclusive);
        assert_eq!(samples, [2_000, 14_000, 45_000]);
        assert_eq!(recorded_at, Some(45_000));
    }

    #[test]
    fn hard_evidence_is_recorded_after_two_samples_and_two_seconds() {
        let since = MonotonicMs(2_000);
        let found = |now| match now {
            MonotonicMs(2_000) => SampleResult::Suspicious,
            _ => SampleResult::Certain { since },
        };
        assert_eq!(run_silence(45_000, found), (vec![2_000, 4_000], Some(4_000)));
        // The prompt appears only after a long silent computation.
        let late = |now: MonotonicMs| match now.0 {
            ..10_000 => SampleResult::Inconclusive,
            10_000..15_000 => SampleResult::Suspicious,
            _ => SampleResult::Certain { since: MonotonicMs(14_000) },
        };
        assert_eq!(run_silence(45_000, late), (vec![2_000, 14_000, 16_000], Some(16_000)));
    }

    #[test]
    fn input_restarts_the_watch_but_not_the_silence_time() {
        let mut watch = SilenceWatch::new(45_000, MonotonicMs(0), true);
        assert_eq!(watch.wake_at(), None);
        watch.record_input(MonotonicMs(60_000));
        assert_eq!(watch.wake_at(), Some(MonotonicMs(62_000)));
        assert!(!watch.record_sample(MonotonicMs(62_000), SampleResult::Inconclusive));
        assert!(!watch.record_sample(MonotonicMs(74_000), SampleResult::Inconclusive));
        assert!(
            watch.record_sample(MonotonicMs(105_000), SampleResult::Inconclusive),
            "silence after input is a new stall"
        );
        assert_eq!(watch.silent_ms(MonotonicMs(105_000)), 105_000);
    }

    #[test]
    fn a_wait_that_was_shown_continues_a_dialog_until_the_next_output_or_input() {
        let mut watch = SilenceWatch::new(45_000, MonotonicMs(0), false);
        let visible = [AwaitedInput::Keys, AwaitedInput::Line].map(Some);
        assert!(!visible.iter().any(|awaited| watch.continues_dialog(*awaited)), "nothing shown");
        for restart in [SilenceWatch::record_output, SilenceWatch::record_input] {
            watch.record_shown_wait();
            assert!(visible.iter().all(|awaited| watch.continues_dialog(*awaited)));
            assert!(!watch.continues_dialog(Some(AwaitedInput::Secret)));
            assert!(!watch.continues_dialog(None));
            restart(&mut watch, MonotonicMs(1));
            assert!(!visible.iter().any(|awaited| watch.continues_dialog(*awaited)));
        }
    }

    #[test]
    fn long_waits_are_sampled_once_a_minute() {
        let (samples, recorded_at) = run_silence(1_800_000, |_| SampleResult::Inconclusive);
        assert!(samples.windows(2).all(|pair| pair[1] - pair[0] <= 60_000));
        assert!(samples.len() < 37, "{samples:?}");
        assert_eq!(recorded_at, Some(1_800_000));
    }

    proptest! {
        #[test]
        fn a_stall_needs_two_samples_and_is_recorded_once(
            after_ms in 0_u64..200_000,
            found in prop::collection::vec(0_u8..3, 1..40),
            written in prop::collection::vec(any::<bool>(), 40),
        ) {
            let mut watch = SilenceWatch::new(after_ms, MonotonicMs(0), false);
            let mut samples = 0;
            for (found, written) in found.into_iter().zip(written) {
                let Some(at) = watch.wake_at() else { break };
                // The next sample is never due before the silence began.
                prop_assert!(at >= watch.silent_since);
                samples += 1;
                let found = match found {
                    0 => SampleResult::Inconclusive,
                    1 => SampleResult::Suspicious,
                    _ => SampleResult::Certain { since: MonotonicMs(at.0.saturating_sub(FIRST_SAMPLE_DELAY_MS)) },
                };
                let is_recorded = watch.record_sample(at, found);
                prop_assert!(!is_recorded || samples > 1, "one sample recorded a stall");
                prop_assert!(is_recorded || watch.wake_at().is_some_and(|next| next > at), "busy loop");
                prop_assert!(!is_recorded || watch.wake_at().is_none(), "stall recorded twice");
                if is_recorded && written {
                    watch.record_output(at.plus_ms(1));
                    samples = 0;
                }
            }
        }
    }
}
