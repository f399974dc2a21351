//! The gauges over the kept tasks.

use std::collections::BTreeMap;

use super::tally::{OTHER_LABEL, Tally, outcome_label};
use crate::evidence::WhyVerdict;
use crate::notice::{Consumer, NoticeKind};
use crate::outcome::Outcome;
use crate::task_view::PhaseName;

/// The contribution of one kept task to the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTask {
    /// Phase of the task.
    pub phase: PhaseName,
    /// How the task ended; `None` while it runs.
    pub outcome: Option<Outcome>,
    /// Verdict about the current stall; `None` without a stall.
    pub stalled: Option<WhyVerdict>,
    /// Kinds of the notices that neither the caller nor the agent has received.
    pub pending: Vec<NoticeKind>,
    /// Who has received the task's notices: one entry for each delivery, `None` for a notice whose
    /// content the caller of the task received as its result.
    pub delivered: Vec<Option<Consumer>>,
    /// The counts of the task, unless the history contains them.
    pub uncounted: Option<Tally>,
}

/// Disk space that the state directory takes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateDirectoryBytes {
    /// The directories of all kept tasks.
    pub tasks: u64,
    /// Damaged tasks and files that were set aside.
    pub quarantine: u64,
    /// The history.
    pub history: u64,
    /// Sessions, logs, markers and locks.
    pub other: u64,
    /// Limit for the directories of ended tasks: `retention_bytes`.
    pub max_tasks: u64,
}

/// The totals of all kept tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptTotals {
    pub(super) tasks: BTreeMap<(&'static str, &'static str), u64>,
    pub(super) stalled: BTreeMap<&'static str, u64>,
    pub(super) pending: BTreeMap<&'static str, u64>,
    pub(super) delivered: BTreeMap<&'static str, u64>,
    pub(super) unreadable: u64,
    pub(super) uncounted: Tally,
}

impl KeptTotals {
    /// Adds a task.
    pub fn add_task(&mut self, task: &KeptTask) {
        let outcome = task.outcome.as_ref().map_or("", outcome_label);
        *self.tasks.entry((task.phase.as_str(), outcome)).or_default() += 1;
        if let Some(verdict) = task.stalled {
            *self.stalled.entry(verdict.as_str()).or_default() += 1;
        }
        for kind in &task.pending {
            *self.pending.entry(notice_kind_label(*kind)).or_default() += 1;
        }
        for consumer in &task.delivered {
            *self.delivered.entry(consumer_label(consumer.as_ref())).or_default() += 1;
        }
        if let Some(tally) = &task.uncounted {
            self.uncounted.add_all(tally);
        }
    }

    /// Adds a task whose journal cannot be read.
    pub const fn add_unreadable(&mut self) {
        self.unreadable += 1;
    }
}

/// The labels of consumers, in the order in which they are printed.
pub(super) const CONSUMER_LABELS: [&str; 6] =
    ["caller", "agent", "person", "terminal", "web", "other"];

/// Returns the label of a consumer. Callers choose the names of further consumers, so these have a
/// common label.
fn consumer_label(consumer: Option<&Consumer>) -> &'static str {
    let Some(consumer) = consumer else { return "caller" };
    let has_name = |label: &&str| *label != "caller" && *label == consumer.as_str();
    CONSUMER_LABELS.into_iter().find(has_name).unwrap_or(OTHER_LABEL)
}

/// Returns the label of a kind of notice.
pub(super) const fn notice_kind_label(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Ended => "ended",
        NoticeKind::Stalled => "stalled",
        NoticeKind::Lingering => "lingering",
        NoticeKind::Limit => "limit",
        NoticeKind::Matched => "matched",
        NoticeKind::Ready => "ready",
        NoticeKind::Expiring => "expiring",
        NoticeKind::Terminal => "terminal",
    }
}
