//! Quantiles of durations. Some durations are censored: only a lower bound is known.

/// The length of one run, and its weight in a quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunSample {
    /// Length of the run, in milliseconds.
    pub ms: u64,
    /// Whether the run ended by itself. A run that was cut short would have taken longer.
    pub is_complete: bool,
    /// Weight of the run, above zero, relative to the other runs.
    pub weight: f64,
}

/// A quantile, or a lower bound of the quantile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// The quantile, in milliseconds.
    Exact(u64),
    /// A lower bound in milliseconds: too many runs were cut short for an exact value.
    MoreThan(u64),
}

impl Quantile {
    /// Returns the exact value in milliseconds, or `None` for a lower bound.
    #[must_use]
    pub const fn exact_ms(self) -> Option<u64> {
        match self {
            Self::Exact(ms) => Some(ms),
            Self::MoreThan(_) => None,
        }
    }

    /// Returns whether the quantile certainly exceeds this many milliseconds.
    #[must_use]
    pub const fn exceeds_ms(self, ms: u64) -> bool {
        match self {
            Self::Exact(at) => at > ms,
            Self::MoreThan(at) => at >= ms,
        }
    }
}

/// Tolerance for the rounding error of a sum of weights: the sum depends on the order of the runs.
const WEIGHT_TOLERANCE: f64 = 1e-9;

/// Returns the length that a share `q` of the runs does not exceed, or a lower bound of this length
/// if too many runs were cut short. `None` if there are no runs.
///
/// The function is the estimator of Kaplan and Meier (J. Am. Stat. Assoc. 53, 1958) with weights. A
/// run that was cut short is treated as running up to its observed length, and is left out of the
/// shares for longer lengths. If no run was cut short, the result is the weighted quantile: the
/// shortest length that a share `q` of the weight does not exceed.
#[must_use]
pub fn quantile(samples: &[RunSample], q: f64) -> Option<Quantile> {
    let mut sorted: Vec<&RunSample> = samples.iter().filter(|sample| sample.weight > 0.0).collect();
    sorted.sort_unstable_by_key(|sample| sample.ms);
    let longest = sorted.last()?.ms;
    let mut at_risk: f64 = sorted.iter().map(|sample| sample.weight).sum();
    // The estimated share of runs that take longer than every length processed so far.
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
        // One very long run does not change the median.
        assert_eq!(
            quantile(&[complete_run(1), complete_run(2), complete_run(9_000)], 0.5),
            Some(Quantile::Exact(2))
        );
    }

    /// Computes the median of four runs, one of which is cut short at 2, as in the paper.
    #[test]
    fn a_censored_run_counts_until_its_cutoff() {
        // The share of longer runs is 3/4 after 1. At 3 one of two runs ends: 3/4 * 1/2 = 3/8,
        // below 1/2.
        let runs = [complete_run(1), cut_run(2), complete_run(3), complete_run(4)];
        assert_eq!(quantile(&runs, 0.5), Some(Quantile::Exact(3)));
        // If this run had ended at 2, the median would be 2.
        assert_eq!(
            quantile(&[complete_run(1), complete_run(2), complete_run(3), complete_run(4)], 0.5),
            Some(Quantile::Exact(2))
        );
        // Three runs reached a deadline of 30 and two ended: the median is above 30.
        let runs = [complete_run(10), complete_run(20), cut_run(30), cut_run(30), cut_run(30)];
        assert_eq!(quantile(&runs, 0.5), Some(Quantile::MoreThan(30)));
        assert!(quantile(&runs, 0.5).is_some_and(|median| median.exceeds_ms(15)));
        // A run that is cut short when another run ends still counts as running at this moment.
        assert_eq!(quantile(&[complete_run(5), cut_run(5)], 0.5), Some(Quantile::Exact(5)));
    }

    fn any_samples() -> impl Strategy<Value = Vec<RunSample>> {
        let one = (0_u64..50, any::<bool>(), 1_u32..100).prop_map(|(ms, whole, weight)| {
            RunSample { ms, is_complete: whole, weight: f64::from(weight) / 8.0 }
        });
        prop::collection::vec(one, 1..30)
    }

    /// Maps a quantile to a number that sorts a lower bound above every exact value.
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
            let found = quantile(&runs, q).and_then(Quantile::exact_ms).expect("all complete");
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
