//! The counts that one journal contributes to the counters.

use std::collections::BTreeMap;

use crate::history::Run;
use crate::journal::{self, JournalError, TaskState};
use crate::lifecycle::TaskEvent;
use crate::outcome::{LeaderEnd, Outcome};
use crate::record::Record;

/// A counter, by which a total is stored in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CounterName {
    /// Started tasks, by kind.
    Started,
    /// Ended tasks, by outcome.
    Ended,
    /// Ended tasks, by outcome and the smallest bucket that includes the duration
    /// (`bucket_label`).
    DurationBucket,
    /// Sum of the durations of ended tasks in milliseconds, by outcome.
    DurationMs,
    /// Tasks that siding or the kernel stopped, by cause.
    Stopped,
    /// Recorded stalls, by verdict.
    Stalls,
    /// Exceeded limits, by kind.
    LimitBreaches,
    /// Exceeded thresholds of watchdogs, by kind.
    WatchdogBreaches,
    /// Moves of a running task to the background, by reason.
    HandOvers,
    /// Refused connections.
    Denied,
    /// Takeovers by a new shim.
    Takeovers,
    /// Processes that stops of tasks have ended.
    StoppedProcesses,
    /// Processes that stops of tasks could not end.
    Survivors,
    /// Bytes of output.
    OutputBytes,
    /// Bytes of output that could not be stored.
    LostOutputBytes,
}

impl CounterName {
    /// All counters.
    pub const ALL: [Self; 15] = [
        Self::Started,
        Self::Ended,
        Self::DurationBucket,
        Self::DurationMs,
        Self::Stopped,
        Self::Stalls,
        Self::LimitBreaches,
        Self::WatchdogBreaches,
        Self::HandOvers,
        Self::Denied,
        Self::Takeovers,
        Self::StoppedProcesses,
        Self::Survivors,
        Self::OutputBytes,
        Self::LostOutputBytes,
    ];

    /// Returns the name in the history, which must not change.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Ended => "ended",
            Self::DurationBucket => "duration_bucket",
            Self::DurationMs => "duration_ms",
            Self::Stopped => "stopped",
            Self::Stalls => "stalls",
            Self::LimitBreaches => "limit_breaches",
            Self::WatchdogBreaches => "watchdog_breaches",
            Self::HandOvers => "hand_overs",
            Self::Denied => "denied",
            Self::Takeovers => "takeovers",
            Self::StoppedProcesses => "stopped_processes",
            Self::Survivors => "survivors",
            Self::OutputBytes => "output_bytes",
            Self::LostOutputBytes => "lost_output_bytes",
        }
    }

    /// Returns the counter with this name in the history.
    #[must_use]
    pub fn from_stored(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|counter| counter.as_str() == name)
    }
}

/// Upper bounds of the duration buckets: the printed text in seconds, and the value in milliseconds.
pub(super) const DURATION_BUCKETS: [(&str, u64); 13] = [
    ("0.1", 100),
    ("0.5", 500),
    ("1", 1_000),
    ("5", 5_000),
    ("15", 15_000),
    ("60", 60_000),
    ("120", 120_000),
    ("300", 300_000),
    ("600", 600_000),
    ("1800", 1_800_000),
    ("3600", 3_600_000),
    ("14400", 14_400_000),
    ("86400", 86_400_000),
];

/// The bound of the last bucket, which includes every duration.
pub(super) const LAST_BUCKET: &str = "+Inf";

/// The labels of outcomes, in the order in which they are printed.
pub(super) const OUTCOME_LABELS: [&str; 9] = [
    "succeeded",
    "failed",
    "signaled",
    "deadline",
    "limit",
    "stopped",
    "failed_to_start",
    "released",
    "lost",
];

/// The requesters of stops that have a label of their own. Every other name of a requester, such as
/// that of a host, is counted as [`OTHER_LABEL`], because a caller chooses this name.
pub(super) const STOP_REQUESTERS: [&str; 6] =
    ["user", "session", "reader", "agent", "client", "web"];

/// The label for every value without a label of its own.
pub(super) const OTHER_LABEL: &str = "other";

/// Returns the label of an outcome.
#[must_use]
pub const fn outcome_label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Exited { code: 0 } => "succeeded",
        Outcome::Exited { .. } => "failed",
        Outcome::Signaled { .. } => "signaled",
        Outcome::Deadline { .. } => "deadline",
        Outcome::Limit { .. } => "limit",
        Outcome::Stopped { .. } => "stopped",
        Outcome::FailedToStart { .. } => "failed_to_start",
        Outcome::Released { .. } => "released",
        Outcome::Lost { .. } => "lost",
    }
}

/// Returns the label of the cause that stopped a task, or `None` if nothing stopped the task.
fn stop_cause(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Deadline { .. } => Some("deadline"),
        Outcome::Limit { .. } => Some("limit"),
        Outcome::Stopped { by } => {
            Some(STOP_REQUESTERS.into_iter().find(|name| name == by).unwrap_or(OTHER_LABEL))
        }
        Outcome::Signaled { by: Some(by), .. } if by == LeaderEnd::OOM_SENDER => Some("oom"),
        Outcome::Signaled { .. }
        | Outcome::Exited { .. }
        | Outcome::FailedToStart { .. }
        | Outcome::Released { .. }
        | Outcome::Lost { .. } => None,
    }
}

/// Returns the label under which the tasks with this outcome in this bucket are stored.
pub(super) fn bucket_label(outcome: &str, bound: &str) -> String {
    format!("{outcome}/{bound}")
}

fn bucket_bound(ms: u64) -> &'static str {
    let bucket = DURATION_BUCKETS.into_iter().find(|(_, most)| ms <= *most);
    bucket.map_or(LAST_BUCKET, |(bound, _)| bound)
}

/// Counts by counter and label. The label is empty for a counter without labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally(BTreeMap<(CounterName, String), u64>);

impl Tally {
    /// Counts the records of a journal. Returns the state of the task as well.
    ///
    /// The size of an output without a final record is not in the journal: the caller adds it.
    ///
    /// # Errors
    ///
    /// The errors of [`journal::replay`].
    pub fn from_journal(bytes: &[u8]) -> Result<(TaskState, Self), JournalError> {
        let mut tally = Self::default();
        let state = journal::replay_with(bytes, |_, record, _| tally.count_record(record))?.state;
        tally.add_count(CounterName::Started, state.spec.task_id.kind().name(), 1);
        tally.count_end(&state);
        Ok((state, tally))
    }

    /// Returns the counts of a run whose journal may have been removed.
    #[must_use]
    pub fn from_run(run: &Run) -> Self {
        let mut tally = Self::default();
        tally.add_count(CounterName::Started, run.task_id.kind().name(), 1);
        tally.count_outcome(&run.outcome, run.ran_ms);
        tally
    }

    /// Adds `count` to a counter.
    pub fn add_count(&mut self, name: CounterName, label: &str, count: u64) {
        if count > 0 {
            let total = self.0.entry((name, label.to_owned())).or_default();
            *total = total.saturating_add(count);
        }
    }

    /// Adds all counts of another tally.
    pub fn add_all(&mut self, other: &Self) {
        for (name, label, count) in other.iter() {
            self.add_count(name, label, count);
        }
    }

    /// Returns the counts that are greater than zero.
    pub fn iter(&self) -> impl Iterator<Item = (CounterName, &str, u64)> {
        self.0.iter().map(|((name, label), count)| (*name, label.as_str(), *count))
    }

    pub(super) fn count_of(&self, name: CounterName, label: &str) -> u64 {
        self.0.get(&(name, label.to_owned())).copied().unwrap_or(0)
    }

    fn count_record(&mut self, record: &Record) {
        match record {
            Record::Stalled(stall) => {
                self.add_count(CounterName::Stalls, stall.evidence.verdict.as_str(), 1);
            }
            Record::Limit(breach) => {
                let watchdog = CounterName::WatchdogBreaches;
                let name = if breach.watchdog { watchdog } else { CounterName::LimitBreaches };
                self.add_count(name, breach.limit_kind.as_str(), 1);
            }
            Record::Event { event: TaskEvent::Placed { why }, .. } => {
                self.add_count(CounterName::HandOvers, why.as_str(), 1);
            }
            Record::Denied { .. } => self.add_count(CounterName::Denied, "", 1),
            Record::Rescued { .. } => self.add_count(CounterName::Takeovers, "", 1),
            Record::Accepted(_)
            | Record::Event { .. }
            | Record::OutputLost { .. }
            | Record::Matched { .. }
            | Record::Resumed { .. }
            | Record::Expiring { .. }
            | Record::Remote(_)
            | Record::Terminal(_)
            | Record::Ready(_)
            | Record::Closed(_) => {}
        }
    }

    fn count_end(&mut self, state: &TaskState) {
        if let Some(outcome) = state.lifecycle.outcome() {
            self.count_outcome(outcome, state.ran_ms());
        }
        let Some(closed) = &state.closed else { return };
        self.add_count(CounterName::OutputBytes, "", closed.output.bytes);
        self.add_count(CounterName::LostOutputBytes, "", closed.output.lost);
        if let Some(report) = &closed.report {
            self.add_count(CounterName::StoppedProcesses, "", u64::from(report.ended_total));
            self.add_count(CounterName::Survivors, "", report.survivors.len() as u64);
        }
    }

    fn count_outcome(&mut self, outcome: &Outcome, ran_ms: Option<u64>) {
        let label = outcome_label(outcome);
        self.add_count(CounterName::Ended, label, 1);
        if let Some(cause) = stop_cause(outcome) {
            self.add_count(CounterName::Stopped, cause, 1);
        }
        let Some(ran_ms) = ran_ms else { return };
        self.add_count(CounterName::DurationBucket, &bucket_label(label, bucket_bound(ran_ms)), 1);
        self.add_count(CounterName::DurationMs, label, ran_ms);
    }
}
