//! Quantiles of lengths, some of which are only known to be longer than they were seen.

/// How long one run took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Milliseconds.
    pub ms: u64,
    /// Whether it ended by itself then; if not it would have taken longer.
    pub whole: bool,
    /// How much it counts against the others. Above zero; only ratios matter.
    pub weight: f64,
}

/// A quantile, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// This many milliseconds.
    At(u64),
    /// More than this many milliseconds: too many runs were cut short to say how many.
    Over(u64),
}

impl Quantile {
    /// Returns the milliseconds, where they are known.
    #[must_use]
    pub const fn known(self) -> Option<u64> {
        match self {
            Self::At(ms) => Some(ms),
            Self::Over(_) => None,
        }
    }

    /// Whether it is surely more than this many milliseconds.
    #[must_use]
    pub const fn is_over(self, ms: u64) -> bool {
        match self {
            Self::At(at) => at > ms,
            Self::Over(at) => at >= ms,
        }
    }
}

/// How far a sum of weights may be off for the order in which it was made.
const ROUNDING: f64 = 1e-9;

/// Returns the length that a share `q` of the runs does not exceed, `None` without runs.
///
/// This is the estimate of Kaplan and Meier (J. Am. Stat. Assoc. 53, 1958), weighted: a run that
/// was cut short counts among those that may still end for as long as it was seen, and nothing
/// after that. Without such runs it is the plain weighted quantile: the shortest length that a
/// share `q` of the weight does not exceed.
#[must_use]
pub fn quantile(samples: &[Sample], q: f64) -> Option<Quantile> {
    let mut sorted: Vec<&Sample> = samples.iter().filter(|sample| sample.weight > 0.0).collect();
    sorted.sort_unstable_by_key(|sample| sample.ms);
    let longest = sorted.last()?.ms;
    let mut at_risk: f64 = sorted.iter().map(|sample| sample.weight).sum();
    // The share that takes longer than what was looked at.
    let mut longer = 1.0;
    for same in sorted.chunk_by(|a, b| a.ms == b.ms) {
        let all: f64 = same.iter().map(|sample| sample.weight).sum();
        let ended: f64 =
            same.iter().filter(|sample| sample.whole).map(|sample| sample.weight).sum();
        if ended > 0.0 {
            longer *= (1.0 - ended / at_risk).max(0.0);
            if 1.0 - longer >= q - ROUNDING {
                return Some(Quantile::At(same[0].ms));
            }
        }
        at_risk -= all;
    }
    Some(Quantile::Over(longest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(ms: u64) -> Sample {
        Sample { ms, whole: true, weight: 1.0 }
    }

    fn cut(ms: u64) -> Sample {
        Sample { whole: false, ..whole(ms) }
    }

    #[test]
    fn without_cut_runs_it_is_the_plain_quantile() {
        let runs = [5, 1, 4, 2, 3].map(whole);
        assert_eq!(quantile(&runs, 0.5), Some(Quantile::At(3)));
        assert_eq!(quantile(&runs, 0.9), Some(Quantile::At(5)));
        assert_eq!(quantile(&runs, 0.0), Some(Quantile::At(1)));
        assert_eq!(quantile(&[], 0.5), None);
        // One run that takes very long moves a mean, not a median.
        assert_eq!(quantile(&[whole(1), whole(2), whole(9_000)], 0.5), Some(Quantile::At(2)));
    }

    /// The example of the estimate itself: what was cut short at 2 counts until then.
    #[test]
    fn what_was_cut_short_counts_for_as_long_as_it_was_seen() {
        // After 1: 3/4. At 3 two are left: 3/4 * 1/2 = 3/8, below a half.
        let runs = [whole(1), cut(2), whole(3), whole(4)];
        assert_eq!(quantile(&runs, 0.5), Some(Quantile::At(3)));
        // As if it had ended at 2, the median would be 2.
        assert_eq!(quantile(&[whole(1), whole(2), whole(3), whole(4)], 0.5), Some(Quantile::At(2)));
        // Three that ran into a deadline of 30 and two that ended: the median is beyond it.
        let runs = [whole(10), whole(20), cut(30), cut(30), cut(30)];
        assert_eq!(quantile(&runs, 0.5), Some(Quantile::Over(30)));
        assert!(quantile(&runs, 0.5).is_some_and(|median| median.is_over(15)));
        // One that is cut in the moment in which another ends was there when it ended.
        assert_eq!(quantile(&[whole(5), cut(5)], 0.5), Some(Quantile::At(5)));
    }

    fn samples() -> impl Strategy<Value = Vec<Sample>> {
        let one = (0_u64..50, any::<bool>(), 1_u32..100).prop_map(|(ms, whole, weight)| Sample {
            ms,
            whole,
            weight: f64::from(weight) / 8.0,
        });
        prop::collection::vec(one, 1..30)
    }

    /// A number to compare by: what is only known to be longer is longer than everything known.
    fn order(quantile: Option<Quantile>) -> u64 {
        quantile.and_then(Quantile::known).unwrap_or(u64::MAX)
    }

    proptest! {
        #[test]
        fn all_whole_is_the_weighted_quantile(mut runs in samples(), q in 0.01_f64..1.0) {
            for run in &mut runs {
                run.whole = true;
            }
            let total: f64 = runs.iter().map(|run| run.weight).sum();
            let share = |ms| -> f64 {
                runs.iter().filter(|run| run.ms <= ms).map(|run| run.weight).sum::<f64>() / total
            };
            let found = quantile(&runs, q).and_then(Quantile::known).expect("all ended");
            prop_assert!(share(found) >= q - 1e-6);
            prop_assert!(found == 0 || share(found - 1) < q + 1e-6);
            prop_assert!(runs.iter().any(|run| run.ms == found));
        }

        #[test]
        fn a_higher_share_takes_no_less(runs in samples(), a in 0.0_f64..1.0, b in 0.0_f64..1.0) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(order(quantile(&runs, low)) <= order(quantile(&runs, high)));
        }

        #[test]
        fn a_run_that_was_cut_short_never_makes_it_shorter(
            runs in samples(), ms in 0_u64..60, weight in 0.1_f64..20.0, q in 0.01_f64..1.0,
        ) {
            let before = order(quantile(&runs, q));
            let mut more = runs;
            more.push(Sample { ms, whole: false, weight });
            prop_assert!(order(quantile(&more, q)) >= before);
        }

        #[test]
        fn neither_order_nor_scale_matters(runs in samples(), q in 0.01_f64..0.99) {
            let before = quantile(&runs, q);
            let mut other: Vec<_> = runs.into_iter().rev().collect();
            for run in &mut other {
                run.weight *= 0.25;
            }
            prop_assert_eq!(quantile(&other, q), before);
        }
    }
}
