//! Quantiles of lengths, some of which are only known to be longer than they were seen.

/// How long one run took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunSample {
    /// Milliseconds.
    pub ms: u64,
    /// Whether it ended by itself then; if not it would have taken longer.
    pub is_complete: bool,
    /// How much it counts against the others. Above zero; only ratios matter.
    pub weight: f64,
}

/// A quantile, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// This many milliseconds.
    Exact(u64),
    /// More than this many milliseconds: too many runs were cut short to say how many.
    MoreThan(u64),
}

impl Quantile {
    /// Returns the milliseconds, where they are known.
    #[must_use]
    pub const fn exact_ms(self) -> Option<u64> {
        match self {
            Self::Exact(ms) => Some(ms),
            Self::MoreThan(_) => None,
        }
    }

    /// Whether it is surely more than this many milliseconds.
    #[must_use]
    pub const fn exceeds_ms(self, ms: u64) -> bool {
        match self {
            Self::Exact(at) => at > ms,
            Self::MoreThan(at) => at >= ms,
        }
    }
}

/// How far a sum of weights may be off for the order in which it was made.
const WEIGHT_TOLERANCE: f64 = 1e-9;

/// Returns the length that a share `q` of the runs does not exceed, `None` without runs.
///
/// This is the estimate of Kaplan and Meier (J. Am. Stat. Assoc. 53, 1958), weighted: a run that
/// was cut short counts among those that may still end for as long as it was seen, and nothing
/// after that. Without such runs it is the plain weighted quantile: the shortest length that a
/// share `q` of the weight does not exceed.
#[must_use]
pub fn quantile(samples: &[RunSample], q: f64) -> Option<Quantile> {
    let mut sorted: Vec<&RunSample> = samples.iter().filter(|sample| sample.weight > 0.0).collect();
    sorted.sort_unstable_by_key(|sample| sample.ms);
    let longest = sorted.last()?.ms;
    let mut at_risk: f64 = sorted.iter().map(|sample| sample.weight).sum();
    // The share that takes longer than what was looked at.
    let mut survival = 1.0;
    for same in sorted.chunk_by(|a, b| a.ms == b.ms) {
        let all: f64 = same.iter().map(|sample| sample.weight).sum();
        let ended: f64 =
            same.iter().filter(|sample| sample.is_complete).map(|sample| sample.weight).sum();
        if ended > 0.0 {
            survival *= (1.0 - ended / at_risk).max(0.0);
            if 1.0 - survival >= q - WEIGHT_TOLERANCE {
                return Some(Quantile::Exact(same[0].ms));
            }
        }
        at_risk -= all;
    }
    Some(Quantile::MoreThan(longest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn complete_run(ms: u64) -> RunSample {
        RunSample { ms, is_complete: true, weight: 1.0 }
    }

    fn cut_run(ms: u64) -> RunSample {
        RunSample { is_complete: false, ..complete_run(ms) }
    }

    #[test]
    fn without_censored_runs_it_is_the_plain_quantile() {
        let runs = [5, 1, 4, 2, 3].map(complete_run);
        assert_eq!(quantile(&runs, 0.5), Some(Quantile::Exact(3)));
        assert_eq!(quantile(&runs, 0.9), Some(Quantile::Exact(5)));
        assert_eq!(quantile(&runs, 0.0), Some(Quantile::Exact(1)));
        assert_eq!(quantile(&[], 0.5), None);
        // One run that takes very long moves a mean, not a median.
        assert_eq!(
            quantile(&[complete_run(1), complete_run(2), complete_run(9_000)], 0.5),
            Some(Quantile::Exact(2))
        );
    }

    /// The example of the estimate itself: what was cut short at 2 counts until then.
    #[test]
    fn a_censored_run_counts_until_its_cutoff() {
        // After 1: 3/4. At 3 two are left: 3/4 * 1/2 = 3/8, below a half.
        let runs = [complete_run(1), cut_run(2), complete_run(3), complete_run(4)];
        assert_eq!(quantile(&runs, 0.5), Some(Quantile::Exact(3)));
        // As if it had ended at 2, the median would be 2.
        assert_eq!(
            quantile(&[complete_run(1), complete_run(2), complete_run(3), complete_run(4)], 0.5),
            Some(Quantile::Exact(2))
        );
        // Three that ran into a deadline of 30 and two that ended: the median is beyond it.
        let runs = [complete_run(10), complete_run(20), cut_run(30), cut_run(30), cut_run(30)];
        assert_eq!(quantile(&runs, 0.5), Some(Quantile::MoreThan(30)));
        assert!(quantile(&runs, 0.5).is_some_and(|median| median.exceeds_ms(15)));
        // One that is cut in the moment in which another ends was there when it ended.
        assert_eq!(quantile(&[complete_run(5), cut_run(5)], 0.5), Some(Quantile::Exact(5)));
    }

    fn any_samples() -> impl Strategy<Value = Vec<RunSample>> {
        let one = (0_u64..50, any::<bool>(), 1_u32..100).prop_map(|(ms, whole, weight)| {
            RunSample { ms, is_complete: whole, weight: f64::from(weight) / 8.0 }
        });
        prop::collection::vec(one, 1..30)
    }

    /// A number to compare by: what is only known to be longer is longer than everything known.
    fn sort_value(quantile: Option<Quantile>) -> u64 {
        quantile.and_then(Quantile::exact_ms).unwrap_or(u64::MAX)
    }

    proptest! {
        #[test]
        fn complete_runs_give_the_weighted_quantile(mut runs in any_samples(), q in 0.01_f64..1.0) {
            for run in &mut runs {
                run.is_complete = true;
            }
            let total: f64 = runs.iter().map(|run| run.weight).sum();
            let share = |ms| -> f64 {
                runs.iter().filter(|run| run.ms <= ms).map(|run| run.weight).sum::<f64>() / total
            };
            let found = quantile(&runs, q).and_then(Quantile::exact_ms).expect("all ended");
            prop_assert!(share(found) >= q - 1e-6);
            prop_assert!(found == 0 || share(found - 1) < q + 1e-6);
            prop_assert!(runs.iter().any(|run| run.ms == found));
        }

        #[test]
        fn the_quantile_is_monotonic_in_its_share(runs in any_samples(), a in 0.0_f64..1.0, b in 0.0_f64..1.0) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(sort_value(quantile(&runs, low)) <= sort_value(quantile(&runs, high)));
        }

        #[test]
        fn a_censored_run_never_lowers_the_quantile(
            runs in any_samples(), ms in 0_u64..60, weight in 0.1_f64..20.0, q in 0.01_f64..1.0,
        ) {
            let before = sort_value(quantile(&runs, q));
            let mut more = runs;
            more.push(RunSample { ms, is_complete: false, weight });
            prop_assert!(sort_value(quantile(&more, q)) >= before);
        }

        #[test]
        fn order_and_weight_scale_do_not_matter(runs in any_samples(), q in 0.01_f64..0.99) {
            let before = quantile(&runs, q);
            let mut other: Vec<_> = runs.into_iter().rev().collect();
            for run in &mut other {
                run.weight *= 0.25;
            }
            prop_assert_eq!(quantile(&other, q), before);
        }
    }
}
