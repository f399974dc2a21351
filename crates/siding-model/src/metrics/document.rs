//! All metrics of siding, in the order in which they are printed.

use std::collections::{BTreeMap, BTreeSet};

use super::exposition::{Exposition, MetricType, format_seconds};
use super::kept::{CONSUMER_LABELS, KeptTotals, StateDirectoryBytes, notice_kind_label};
use super::tally::{
    CounterName, DURATION_BUCKETS, LAST_BUCKET, OTHER_LABEL, OUTCOME_LABELS, STOP_REQUESTERS,
    Tally, bucket_label,
};
use crate::activity::ReapedProcess;
use crate::evidence::WhyVerdict;
use crate::id::TaskKind;
use crate::notice::NoticeKind;
use crate::outcome::{BackgroundReason, LimitKind};
use crate::task_view::PhaseName;

/// Maximum number of reaper rules with a label of their own. The names come from settings.
const MAX_REAPER_RULES: usize = 50;

/// The counters without labels: each with the name and the help of its metric.
const UNLABELED_COUNTERS: [(CounterName, &str, &str); 6] = [
    (
        CounterName::Denied,
        "siding_task_denied_connections_total",
        "Recorded connections that the network policy of a task refused.",
    ),
    (
        CounterName::Takeovers,
        "siding_shim_takeovers_total",
        "Takeovers of tasks by a new shim, because the old one had been killed.",
    ),
    (
        CounterName::StoppedProcesses,
        "siding_stopped_processes_total",
        "Processes that stops of tasks have ended.",
    ),
    (
        CounterName::Survivors,
        "siding_surviving_processes_total",
        "Processes that stops of tasks could not end.",
    ),
    (
        CounterName::OutputBytes,
        "siding_task_output_bytes_total",
        "Bytes of output that tasks have written.",
    ),
    (
        CounterName::LostOutputBytes,
        "siding_task_output_lost_bytes_total",
        "Bytes of output that could not be stored, of ended tasks.",
    ),
];

/// Everything that the metrics are computed from.
#[derive(Debug, Default)]
pub struct MetricsSnapshot {
    /// The stored totals of ended tasks, including removed ones.
    pub history: Tally,
    /// The kept tasks.
    pub kept: KeptTotals,
    /// Signals that the reaper has sent, as far back as its log reaches.
    pub reaped: Vec<ReapedProcess>,
    /// Disk space of the state directory.
    pub disk: StateDirectoryBytes,
    /// Version of siding.
    pub version: &'static str,
}

/// Returns the metrics in the Prometheus text format. The same snapshot gives the same text.
///
/// A metric whose labels have a fixed set of values has a sample for each value, even if the sample
/// is zero: otherwise the first event of a kind would be invisible to `rate()` and `increase()`.
#[must_use]
pub fn format_metrics(snapshot: &MetricsSnapshot) -> String {
    let mut totals = snapshot.history.clone();
    totals.add_all(&snapshot.kept.uncounted);
    let mut text = Exposition::default();
    text.metric("siding_build_info", MetricType::Gauge, "The version of siding; always 1.");
    text.number("siding_build_info", &[("version", snapshot.version)], 1);
    push_tasks(&mut text, &snapshot.kept);
    push_task_counters(&mut text, &totals);
    push_durations(&mut text, &totals);
    push_event_counters(&mut text, &totals);
    push_notices(&mut text, &snapshot.kept);
    push_reaped(&mut text, &snapshot.reaped);
    push_disk(&mut text, &snapshot.disk);
    text.into_text()
}

fn push_tasks(text: &mut Exposition, kept: &KeptTotals) {
    let name = "siding_tasks";
    let help = "Kept tasks by state and outcome; retention removes ended tasks.";
    text.metric(name, MetricType::Gauge, help);
    let count = |state: PhaseName, outcome| {
        kept.tasks.get(&(state.as_str(), outcome)).copied().unwrap_or(0)
    };
    for state in
        [PhaseName::Starting, PhaseName::Running, PhaseName::Lingering, PhaseName::Stopping]
    {
        text.number(name, &[("state", state.as_str())], count(state, ""));
    }
    let ended = PhaseName::Ended;
    for outcome in OUTCOME_LABELS {
        let labels = [("state", ended.as_str()), ("outcome", outcome)];
        text.number(name, &labels, count(ended, outcome));
    }
    let name = "siding_tasks_stalled";
    text.metric(name, MetricType::Gauge, "Live tasks with a recorded stall that is not over.");
    for verdict in WhyVerdict::ALL_VERDICTS.map(WhyVerdict::as_str) {
        let count = kept.stalled.get(verdict).copied().unwrap_or(0);
        text.number(name, &[("verdict", verdict)], count);
    }
    let name = "siding_tasks_unreadable";
    let help = "Kept tasks whose journals cannot be read; no other metric includes them.";
    text.metric(name, MetricType::Gauge, help);
    text.number(name, &[], kept.unreadable);
}

fn push_task_counters(text: &mut Exposition, totals: &Tally) {
    push_counter(
        text,
        totals,
        CounterName::Started,
        "siding_tasks_started_total",
        "kind",
        ("Tasks that were started or adopted.", &TaskKind::ALL.map(TaskKind::name)),
    );
    push_counter(
        text,
        totals,
        CounterName::Ended,
        "siding_tasks_ended_total",
        "outcome",
        ("Tasks that have ended, including removed ones.", &OUTCOME_LABELS),
    );
    let causes: Vec<&str> = ["deadline", "limit", "oom"]
        .into_iter()
        .chain(STOP_REQUESTERS)
        .chain([OTHER_LABEL])
        .collect();
    push_counter(
        text,
        totals,
        CounterName::Stopped,
        "siding_tasks_stopped_total",
        "cause",
        (
            "Ended tasks that siding or the kernel's OOM killer stopped, by cause or requester.",
            &causes,
        ),
    );
}

fn push_durations(text: &mut Exposition, totals: &Tally) {
    let name = "siding_task_duration_seconds";
    let help = "Awake time from the start of a task to the end of its command, for ended tasks.";
    text.metric(name, MetricType::Histogram, help);
    for outcome in OUTCOME_LABELS {
        let mut count = 0;
        let bounds = DURATION_BUCKETS.into_iter().map(|(bound, _)| bound).chain([LAST_BUCKET]);
        for bound in bounds {
            count += totals.count_of(CounterName::DurationBucket, &bucket_label(outcome, bound));
            let labels = [("outcome", outcome), ("le", bound)];
            text.number("siding_task_duration_seconds_bucket", &labels, count);
        }
        let sum = format_seconds(totals.count_of(CounterName::DurationMs, outcome));
        text.sample("siding_task_duration_seconds_sum", &[("outcome", outcome)], &sum);
        text.number("siding_task_duration_seconds_count", &[("outcome", outcome)], count);
    }
}

fn push_event_counters(text: &mut Exposition, totals: &Tally) {
    push_counter(
        text,
        totals,
        CounterName::HandOvers,
        "siding_task_handovers_total",
        "reason",
        (
            "Moves of a running task from the foreground to the background.",
            &BackgroundReason::ALL.map(BackgroundReason::as_str),
        ),
    );
    push_counter(
        text,
        totals,
        CounterName::Stalls,
        "siding_task_stalls_total",
        "verdict",
        (
            "Recorded silences of tasks, by the verdict about the cause.",
            &WhyVerdict::ALL_VERDICTS.map(WhyVerdict::as_str),
        ),
    );
    let limits = LimitKind::ALL.map(LimitKind::as_str);
    let (breaches, watchdogs) = (CounterName::LimitBreaches, CounterName::WatchdogBreaches);
    push_counter(
        text,
        totals,
        breaches,
        "siding_task_limit_breaches_total",
        "limit",
        ("Recorded breaches of limits of tasks.", &limits),
    );
    push_counter(
        text,
        totals,
        watchdogs,
        "siding_task_watchdog_breaches_total",
        "limit",
        ("Recorded breaches of the thresholds of watchdogs, which stop no task.", &limits),
    );
    for (counter, name, help) in UNLABELED_COUNTERS {
        push_counter(text, totals, counter, name, "", (help, &[""]));
    }
}

/// Appends a counter with one label, with a sample for each of the values.
fn push_counter(
    text: &mut Exposition,
    totals: &Tally,
    counter: CounterName,
    name: &str,
    label: &str,
    (help, values): (&str, &[&str]),
) {
    text.metric(name, MetricType::Counter, help);
    for value in values {
        text.number(name, &[(label, value)], totals.count_of(counter, value));
    }
}

fn push_notices(text: &mut Exposition, kept: &KeptTotals) {
    let name = "siding_notices_pending";
    let help = "Notices of kept tasks that neither the caller nor the agent of the session has \
                received.";
    text.metric(name, MetricType::Gauge, help);
    for kind in NoticeKind::ALL.map(notice_kind_label) {
        text.number(name, &[("kind", kind)], kept.pending.get(kind).copied().unwrap_or(0));
    }
    let name = "siding_notices_delivered";
    let help = "Acknowledged deliveries of the notices of kept tasks; falls when retention removes \
                tasks.";
    text.metric(name, MetricType::Gauge, help);
    for consumer in CONSUMER_LABELS {
        let count = kept.delivered.get(consumer).copied().unwrap_or(0);
        text.number(name, &[("consumer", consumer)], count);
    }
}

fn push_reaped(text: &mut Exposition, reaped: &[ReapedProcess]) {
    let name = "siding_reaped_processes";
    let help = "Processes that the reaper has signaled, as far back as its log reaches; falls when \
                the log is rotated.";
    text.metric(name, MetricType::Gauge, help);
    let mut rules: BTreeMap<&str, BTreeSet<(i32, u64)>> = BTreeMap::new();
    for signal in reaped {
        let has_room = rules.len() < MAX_REAPER_RULES || rules.contains_key(signal.rule.as_str());
        let rule = if has_room { signal.rule.as_str() } else { OTHER_LABEL };
        rules.entry(rule).or_default().insert(signal.process);
    }
    for (rule, processes) in rules {
        text.number(name, &[("rule", rule)], processes.len() as u64);
    }
}

fn push_disk(text: &mut Exposition, disk: &StateDirectoryBytes) {
    let name = "siding_state_directory_bytes";
    let help = "Disk space that the parts of the state directory take.";
    text.metric(name, MetricType::Gauge, help);
    let parts = [
        ("tasks", disk.tasks),
        ("history", disk.history),
        ("quarantine", disk.quarantine),
        ("other", disk.other),
    ];
    for (part, bytes) in parts {
        text.number(name, &[("part", part)], bytes);
    }
    let name = "siding_retention_limit_bytes";
    let help = "Limit for the disk space of ended tasks (setting retention_bytes).";
    text.metric(name, MetricType::Gauge, help);
    text.number(name, &[], disk.max_tasks);
}
