//! A summary of the runs of one command in one directory.

use super::expectation::Expectation;
use super::run::Run;
use crate::outcome::Outcome;

/// Maximum number of run lengths in [`RunSummary::recent`].
pub const MAX_RECENT_RUNS: usize = 10;

/// A summary of the runs of one command in one directory that the history holds.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// Number of runs with any outcome.
    pub runs: usize,
    /// Runs that exited with code 0.
    pub succeeded: usize,
    /// Runs that exited with another code, or that a signal, a deadline or a limit ended.
    pub failed: usize,
    /// The usual duration; `None` with too few runs.
    pub expectation: Option<Expectation>,
    /// Values of [`Run::ran_ms`] of the last [`MAX_RECENT_RUNS`] runs that have one, in
    /// milliseconds, the oldest first. Runs that were cut short or lost are included.
    pub recent: Vec<u64>,
    /// Highest observed memory use of any run, in bytes.
    pub peak_memory: Option<u64>,
    /// The run that ended last.
    pub last: Run,
}

impl RunSummary {
    /// Returns the summary of `runs`, which must be sorted from the newest to the oldest, or `None`
    /// without runs.
    #[must_use]
    pub fn from_runs(runs: &[Run]) -> Option<Self> {
        let last = runs.first()?.clone();
        let count =
            |wanted: fn(&Outcome) -> bool| runs.iter().filter(|run| wanted(&run.outcome)).count();
        let mut recent: Vec<u64> =
            runs.iter().filter_map(|run| run.ran_ms).take(MAX_RECENT_RUNS).collect();
        recent.reverse();
        Some(Self {
            runs: runs.len(),
            succeeded: count(is_success),
            failed: count(is_failure),
            expectation: Expectation::from_runs(runs),
            recent,
            peak_memory: runs.iter().filter_map(|run| run.peak_memory).max(),
            last,
        })
    }

    /// Returns the share of successful runs among those that succeeded or failed, or `None` when
    /// there are none. Runs that were stopped, released, never started or lost are left out.
    #[must_use]
    pub fn success_rate(&self) -> Option<f64> {
        let judged = self.succeeded + self.failed;
        #[expect(clippy::cast_precision_loss, reason = "the number of runs is small")]
        (judged > 0).then(|| self.succeeded as f64 / judged as f64)
    }
}

const fn is_success(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exited { code: 0 })
}

const fn is_failure(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Exited { code } => *code != 0,
        Outcome::Signaled { .. } | Outcome::Deadline { .. } | Outcome::Limit { .. } => true,
        Outcome::Stopped { .. }
        | Outcome::FailedToStart { .. }
        | Outcome::Released { .. }
        | Outcome::Lost { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::UnixMs;

    const EXITED: Outcome = Outcome::Exited { code: 0 };

    fn run_with(ended: i64, ran_ms: u64, outcome: Outcome) -> Run {
        Run {
            task_id: "b-4k7q0n2m8x5t".parse().expect("an id"),
            command: "make".to_owned(),
            cwd: "/".to_owned(),
            ended: UnixMs(ended),
            ran_ms: Some(ran_ms),
            outcome,
            peak_memory: None,
        }
    }

    #[test]
    fn a_stopped_run_is_neither_success_nor_failure() {
        let stopped = || Outcome::Stopped { by: "user".to_owned() };
        let runs = [
            run_with(9, 50, Outcome::Exited { code: 0 }),
            run_with(8, 40, stopped()),
            run_with(7, 30, Outcome::Exited { code: 2 }),
            run_with(6, 20, Outcome::Deadline { limit_ms: 20 }),
            run_with(5, 10, Outcome::Exited { code: 0 }),
        ];
        let found = RunSummary::from_runs(&runs).expect("there are runs");
        assert_eq!((found.runs, found.succeeded, found.failed), (5, 2, 2));
        assert_eq!(found.success_rate(), Some(0.5));
        assert_eq!(found.recent, [10, 20, 30, 40, 50]);
        assert_eq!(found.last.ended, UnixMs(9));
        assert_eq!(
            RunSummary::from_runs(&[run_with(1, 1, stopped())]).and_then(|s| s.success_rate()),
            None
        );
        assert_eq!(RunSummary::from_runs(&[]), None);
    }
    #[test]
    fn the_peak_memory_is_the_largest_observed_peak() {
        let of = |peaks: &[Option<u64>]| {
            let runs =
                peaks.iter().map(|peak| Run { peak_memory: *peak, ..run_with(1, 1, EXITED) });
            RunSummary::from_runs(&runs.collect::<Vec<_>>()).expect("there are runs").peak_memory
        };
        assert_eq!(of(&[Some(7), None, Some(9), Some(8)]), Some(9));
        assert_eq!(of(&[None, None]), None);
    }
}
