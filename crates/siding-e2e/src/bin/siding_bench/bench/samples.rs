//! Repeated measurements of one quantity, and their percentiles.

use std::time::Duration;

/// Measured values of one quantity; times are in milliseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    /// Adds a time, in milliseconds.
    pub(super) fn push_time(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e3);
    }

    /// Returns the median; zero without samples.
    pub(super) fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// Returns the smallest sample that at least `percent` % of all samples do not exceed; zero
    /// without samples.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted
            .get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0.0)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_samples() {
        let samples: Samples = (1..=100).rev().map(f64::from).collect();
        assert_eq!(samples.median(), 50.0);
        assert_eq!(samples.percentile(99.0), 99.0);
        assert_eq!(samples.percentile(100.0), 100.0);
        assert_eq!(Samples::default().median(), 0.0);
    }
}
