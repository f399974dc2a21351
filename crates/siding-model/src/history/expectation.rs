//! The usual duration of a command, estimated from its ended runs.

use std::time::Duration;

use super::quantile::{Quantile, RunSample, quantile};
use super::run::{Run, RunLength};
use crate::process::UnixMs;

/// Minimum number of runs that give an expectation: two runs of different length do not show which
/// is usual.
pub const MIN_RUNS: usize = 3;

/// Age at which a run has half the weight of the newest run.
///
/// Durations change as the code that a command works on grows, but seldom much within a month. The
/// age is relative to the newest run, so a command that has not run for a year keeps its
/// expectation.
pub const RUN_HALF_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long a command usually takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    /// Number of runs in the estimate, including those that were cut short.
    pub runs: usize,
    /// Duration that half of the runs do not exceed, by weight.
    pub median: Quantile,
    /// Duration that nine of ten runs do not exceed, by weight.
    pub p90: Quantile,
}

impl Expectation {
    /// Returns the usual duration of a command with these runs, or `None` when fewer than
    /// [`MIN_RUNS`] of them have a known length.
    #[must_use]
    pub fn from_runs<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Option<Self> {
        let lengths: Vec<(UnixMs, RunLength)> =
            runs.into_iter().map(|run| (run.ended, run.length())).collect();
        Self::from_lengths(&lengths)
    }

    fn from_lengths(lengths: &[(UnixMs, RunLength)]) -> Option<Self> {
        let newest = lengths.iter().map(|(ended, _)| *ended).max()?;
        let sample = |(ended, length): &(UnixMs, RunLength)| {
            let weight = run_weight(*ended, newest);
            match *length {
                RunLength::Complete(ms) => Some(RunSample { ms, is_complete: true, weight }),
                RunLength::AtLeast(ms) => Some(RunSample { ms, is_complete: false, weight }),
                RunLength::Unknown => None,
            }
        };
        let samples: Vec<_> = lengths.iter().filter_map(sample).collect();
        if samples.len() < MIN_RUNS {
            return None;
        }
        let (median, p90) = (quantile(&samples, 0.5)?, quantile(&samples, 0.9)?);
        Some(Self { runs: samples.len(), median, p90 })
    }
}

/// Returns the weight of a run, which halves with each [`RUN_HALF_LIFE`] of age. The newest run has
/// the weight 1.
fn run_weight(ended: UnixMs, newest: UnixMs) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a weight does not need millisecond precision")]
    let age = newest.0.saturating_sub(ended.0) as f64 / RUN_HALF_LIFE.as_millis() as f64;
    // The age is limited, because a run whose weight is zero would be ignored.
    0.5_f64.powf(age.min(500.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    const NOW: UnixMs = UnixMs(20_000 * DAY_MS);

    fn days_ago(days: i64, ms: u64) -> (UnixMs, RunLength) {
        (UnixMs(NOW.0 - days * DAY_MS), RunLength::Complete(ms))
    }

    fn median(lengths: &[(UnixMs, RunLength)]) -> Option<u64> {
        Expectation::from_lengths(lengths)?.median.exact_ms()
    }

    #[test]
    fn too_few_runs_give_no_expectation() {
        let runs = [days_ago(0, 5), days_ago(1, 6), (NOW, RunLength::Unknown)];
        assert_eq!(Expectation::from_lengths(&runs), None);
        let runs = [days_ago(0, 5), days_ago(1, 6), days_ago(2, 7)];
        let found = Expectation::from_lengths(&runs).expect("three runs suffice");
        assert_eq!((found.runs, found.median), (3, Quantile::Exact(6)));
    }

    #[test]
    fn old_runs_have_less_weight() {
        let old = [90, 91, 92, 93, 94].map(|days| days_ago(days, 1_000));
        let new = [0, 1, 2].map(|days| days_ago(days, 60_000));
        assert_eq!(median(&[&old[..], &new[..]].concat()), Some(60_000));
        // Runs of equal age have equal weight, however old they are.
        let once = old.map(|(ended, length)| (UnixMs(ended.0 - 3_000 * DAY_MS), length));
        assert_eq!(median(&once), Some(1_000));
        // Times far apart, as after a clock was set, do not overflow.
        let odd = [
            (UnixMs(i64::MIN), RunLength::Complete(1)),
            (UnixMs(i64::MAX), RunLength::Complete(2)),
        ];
        assert_eq!(median(&[odd[0], odd[1], odd[1]]), Some(2));
    }

    proptest! {
        #[test]
        fn shifting_all_runs_in_time_changes_nothing(
            lengths in prop::collection::vec((0_i64..200, 1_u64..1000), MIN_RUNS..20),
            shift in 0_i64..2_000,
        ) {
            let at = |shift: i64| -> Vec<_> {
                lengths.iter().map(|(days, ms)| days_ago(days + shift, *ms)).collect()
            };
            prop_assert_eq!(
                Expectation::from_lengths(&at(0)), Expectation::from_lengths(&at(shift))
            );
        }
    }
}
