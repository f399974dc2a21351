//! The content of `siding report`: the tasks of a period, and the processes that the reaper ended.
//!
//! `siding schema report` prints the schema. Fields may be added; an existing field is never
//! renamed, removed or given another meaning.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::history::Run;
use crate::id::TaskId;
use crate::outcome::{LeaderEnd, Outcome};
use crate::process::UnixMs;
use crate::task_view::{PhaseName, TaskView};
use crate::text::{cut_head, make_visible};

/// Maximum number of entries in each list; [`ActivityCounts`] includes the tasks that a list leaves
/// out.
const MAX_LISTED_ENTRIES: usize = 20;
/// Maximum length of a command in the report, in bytes.
const MAX_COMMAND_BYTES: usize = 1 << 10;
/// Minimum time between two daily reports, in milliseconds: less than a day, so that a person who
/// starts work a little earlier than on the day before still gets a report.
const MIN_DAILY_REPORT_INTERVAL_MS: i64 = 20 * 60 * 60 * 1000;
/// Time that a daily report covers, in milliseconds, unless the last report is older.
const DAILY_REPORT_PERIOD_MS: i64 = 24 * 60 * 60 * 1000;

/// The activity of a period of time, as printed by `siding report --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "report"))]
pub struct ActivityReport {
    /// Start of the period, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub since: String,
    /// End of the period, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub until: String,
    /// The number of tasks, by how they ended.
    pub counts: ActivityCounts,
    /// Tasks that failed or were lost, the newest first; at most 20, like every list of the report.
    pub failed: Vec<ActivityTask>,
    /// Causes that ended tasks from outside, the most frequent first.
    pub stopped_by: Vec<StopCause>,
    /// Rules under which the reaper ended processes that no shim supervised, the most frequent
    /// first.
    pub reaped: Vec<ReapRule>,
    /// Tasks whose leader has ended while processes that it started are still alive, the oldest
    /// first.
    pub lingering: Vec<ActivityTask>,
    /// Running tasks that wait for an answer, the oldest first.
    pub needs_input: Vec<ActivityTask>,
    /// The tasks with the longest duration, the longest first.
    pub slowest: Vec<ActivityTask>,
    /// The tasks with the most output, the largest first.
    pub noisiest: Vec<ActivityTask>,
    /// Disk space that all kept tasks use.
    pub disk: DiskUse,
}

/// The number of tasks, by how they ended. Tasks that a list leaves out are counted as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivityCounts {
    /// Tasks that ended in the period or are running now.
    pub ran: usize,
    /// Tasks that are running now, including lingering ones.
    pub running: usize,
    /// Tasks that ended in the period: the sum of the fields below.
    pub ended: usize,
    /// Tasks that exited with code 0.
    pub succeeded: usize,
    /// Tasks that exited with another code, died of a signal, or could not be started.
    pub failed: usize,
    /// Tasks that were stopped on request.
    pub stopped: usize,
    /// Tasks that siding stopped at the deadline.
    pub timed_out: usize,
    /// Tasks that siding stopped at a limit.
    pub limit: usize,
    /// Tasks whose end was not observed.
    pub lost: usize,
    /// Adopted tasks that were released: siding does not know how the commands ended.
    pub released: usize,
}

/// An entry in the lists of a report: a running task, or an ended one with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivityTask {
    /// Id of the task, which other commands accept as long as the task is kept.
    pub task_id: TaskId,
    /// The command, or a title if the task runs siding itself; at most 1 KiB.
    pub command: String,
    /// Directory in which the task started.
    pub cwd: String,
    /// Phase at the time of the report; `ended` for a task that is no longer kept.
    pub phase: PhaseName,
    /// How the task ended; null while it runs.
    pub outcome: Option<Outcome>,
    /// Time of the end, RFC 3339; null while the task runs, or if a crash lost the final record.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub ended_at: Option<String>,
    /// Awake time from start to end, or to now, in milliseconds; null if the length of an ended run
    /// is unknown.
    pub elapsed_ms: Option<u64>,
    /// Output of the task, in bytes; null for a task that is no longer kept.
    pub output_bytes: Option<u64>,
    /// Whether the task waits for an answer.
    pub needs_input: bool,
    /// The end by which the task is sorted and assigned to a period, RFC 3339: `ended_at`, or an
    /// estimate if a crash lost the final record. `None` while the task runs.
    #[serde(skip)]
    pub approximate_end: Option<String>,
}

/// A cause that ended tasks from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StopCause {
    /// `deadline`, a limit such as `max-memory`, `out of memory` for the kernel's OOM killer, or
    /// the name of the requester of the stop, such as `user` or `session`.
    pub rule: String,
    /// Number of tasks in the period that this cause ended.
    pub tasks: usize,
    /// The task that this cause ended last.
    pub last: ActivityTask,
}

/// A reaper rule under which processes that no shim supervised were terminated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReapRule {
    /// Name of the rule, such as `claude-sandbox`.
    pub rule: String,
    /// Number of processes that were sent a signal.
    pub processes: usize,
    /// Time of the last signal, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub last_at: String,
    /// Command line of the process that was signaled last; at most 1 KiB.
    pub command: String,
}

/// Disk space that all kept tasks use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskUse {
    /// Number of kept tasks, including running ones.
    pub tasks: usize,
    /// Size of the directories of all kept tasks, in bytes.
    pub bytes: u64,
    /// Limit for the directories of ended tasks, in bytes: `retention_bytes`.
    pub max_bytes: u64,
}

/// A signal that the reaper sent to a process that no shim supervised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReapedProcess {
    /// Time of the signal, RFC 3339 in UTC.
    pub at: String,
    /// Name of the reaper rule that matched the process.
    pub rule: String,
    /// The process's pid and start time in clock ticks. A report counts a process once although it
    /// may have received several signals.
    pub process: (i32, u64),
    /// Command line of the process, shortened.
    pub command: String,
}

/// The time that a report covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Start of the period; a task that ended in this millisecond is included.
    pub since: UnixMs,
    /// End of the period: the time at which the report is made.
    pub until: UnixMs,
}

impl Period {
    /// Returns the period of the daily report that is due: the last 24 hours, or the time since the
    /// last report if that is longer. Returns `None` when the last report is too recent.
    #[must_use]
    pub fn for_daily_report(last: Option<UnixMs>, now: UnixMs) -> Option<Self> {
        // A last report in the future means that the clock was set back. The absolute value makes a
        // report due when the clock was set back by more than the interval; a negative age would
        // suppress all reports until the clock reaches that time again.
        let age = last.map(|last| now.0.saturating_sub(last.0).abs());
        if age.is_some_and(|age| age < MIN_DAILY_REPORT_INTERVAL_MS) {
            return None;
        }
        let day_ago = now.plus_ms(-DAILY_REPORT_PERIOD_MS);
        let since = last.filter(|last| *last < day_ago).unwrap_or(day_ago);
        Some(Self { since, until: now })
    }

    /// Returns whether a moment, RFC 3339 in UTC with milliseconds, is in the period. The end of
    /// the period is not checked: the end is the present, and a recorded moment is later only if
    /// the clock was set back.
    #[must_use]
    pub fn contains(&self, moment: &str) -> bool {
        // RFC 3339 texts with milliseconds have the same length, so their lexical order is their
        // order in time.
        self.since.rfc3339().as_str() <= moment
    }
}

impl ActivityTask {
    /// Returns the entry of a task that is still kept.
    #[must_use]
    pub fn from_view(view: &TaskView) -> Self {
        let estimate = || {
            let ran = i64::try_from(view.elapsed_ms).unwrap_or(i64::MAX);
            Some(UnixMs::from_rfc3339(&view.started_at)?.plus_ms(ran).rfc3339())
        };
        let ended_at = view.ended_at.clone();
        let has_ended = view.outcome.is_some();
        Self {
            task_id: view.task_id,
            command: shorten_command(view.display_name()),
            cwd: view.cwd.clone(),
            phase: view.phase,
            outcome: view.outcome.clone(),
            approximate_end: ended_at.clone().or_else(|| estimate().filter(|_| has_ended)),
            ended_at,
            elapsed_ms: Some(view.elapsed_ms),
            output_bytes: Some(view.output.bytes),
            needs_input: view
                .attention
                .as_ref()
                .is_some_and(|quiet| quiet.verdict.asks_for_input()),
        }
    }

    /// Returns the entry of a task that only the history still holds.
    #[must_use]
    pub fn from_run(run: &Run) -> Self {
        Self {
            task_id: run.task_id,
            command: shorten_command(&run.command),
            cwd: run.cwd.clone(),
            phase: PhaseName::Ended,
            outcome: Some(run.outcome.clone()),
            ended_at: Some(run.ended.rfc3339()),
            elapsed_ms: run.ran_ms,
            output_bytes: None,
            needs_input: false,
            approximate_end: Some(run.ended.rfc3339()),
        }
    }
}

fn shorten_command(command: &str) -> String {
    let shown = make_visible(cut_head(command, MAX_COMMAND_BYTES));
    cut_head(&shown, MAX_COMMAND_BYTES).to_owned()
}

impl ActivityReport {
    /// Returns the report of a period. Tasks that ended before the period, and signals sent before
    /// it, are left out.
    #[must_use]
    pub fn new(
        period: Period,
        mut tasks: Vec<ActivityTask>,
        signals: &[ReapedProcess],
        disk: DiskUse,
    ) -> Self {
        tasks.retain(|task| task.approximate_end.as_ref().is_none_or(|at| period.contains(at)));
        // Sorts the newest end first. Running tasks precede all ended ones.
        tasks.sort_by_key(|task| {
            Reverse((task.approximate_end.is_none(), task.approximate_end.clone()))
        });
        let is = |phase| move |task: &&ActivityTask| task.phase == phase;
        let list = |chosen: &mut dyn Iterator<Item = &ActivityTask>| -> Vec<ActivityTask> {
            chosen.take(MAX_LISTED_ENTRIES).cloned().collect()
        };
        let mut by_time: Vec<&ActivityTask> = tasks.iter().collect();
        by_time.sort_by_key(|task| Reverse(task.elapsed_ms));
        let mut by_output: Vec<&ActivityTask> =
            tasks.iter().filter(|task| task.output_bytes.is_some_and(|bytes| bytes > 0)).collect();
        by_output.sort_by_key(|task| Reverse(task.output_bytes));
        Self {
            since: period.since.rfc3339(),
            until: period.until.rfc3339(),
            counts: ActivityCounts::from_tasks(&tasks),
            failed: list(&mut tasks.iter().filter(|task| has_failed(task))),
            stopped_by: stop_causes(&tasks),
            reaped: reap_rules(signals.iter().filter(|signal| period.contains(&signal.at))),
            lingering: list(&mut by_time.iter().copied().filter(is(PhaseName::Lingering))),
            needs_input: list(&mut by_time.iter().copied().filter(|task| task.needs_input)),
            slowest: list(&mut by_time.iter().copied().filter(|task| task.elapsed_ms.is_some())),
            noisiest: list(&mut by_output.into_iter()),
            disk,
        }
    }

    /// Returns whether no task ran and no process was reaped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.counts.ran == 0 && self.reaped.is_empty()
    }
}

impl ActivityCounts {
    fn from_tasks(tasks: &[ActivityTask]) -> Self {
        let mut counts = Self { ran: tasks.len(), ..Self::default() };
        for task in tasks {
            let count = match &task.outcome {
                None => {
                    counts.running += 1;
                    continue;
                }
                Some(Outcome::Exited { code: 0 }) => &mut counts.succeeded,
                Some(
                    Outcome::Exited { .. }
                    | Outcome::Signaled { .. }
                    | Outcome::FailedToStart { .. },
                ) => &mut counts.failed,
                Some(Outcome::Stopped { .. }) => &mut counts.stopped,
                Some(Outcome::Deadline { .. }) => &mut counts.timed_out,
                Some(Outcome::Limit { .. }) => &mut counts.limit,
                Some(Outcome::Lost { .. }) => &mut counts.lost,
                Some(Outcome::Released { .. }) => &mut counts.released,
            };
            *count += 1;
            counts.ended += 1;
        }
        counts
    }
}

fn has_failed(task: &ActivityTask) -> bool {
    match &task.outcome {
        Some(Outcome::Exited { code }) => *code != 0,
        Some(Outcome::Signaled { .. } | Outcome::FailedToStart { .. } | Outcome::Lost { .. }) => {
            true
        }
        Some(
            Outcome::Deadline { .. }
            | Outcome::Stopped { .. }
            | Outcome::Limit { .. }
            | Outcome::Released { .. },
        )
        | None => false,
    }
}

/// Returns the value of [`StopCause::rule`] for a task with this outcome. Returns `None` for any
/// other end: an exit, another signal, a failed start, a release, or an end that was not observed.
fn stop_rule(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Deadline { .. } => Some("deadline".to_owned()),
        Outcome::Limit { limit_kind } => Some(limit_kind.flag_name().to_owned()),
        Outcome::Stopped { by } => Some(make_visible(cut_head(by, MAX_COMMAND_BYTES))),
        Outcome::Signaled { by: Some(by), .. } if by == LeaderEnd::OOM_SENDER => {
            Some("out of memory".to_owned())
        }
        Outcome::Signaled { .. }
        | Outcome::Exited { .. }
        | Outcome::FailedToStart { .. }
        | Outcome::Released { .. }
        | Outcome::Lost { .. } => None,
    }
}

/// Counts the tasks of each cause. `tasks` must be sorted from the newest to the oldest: the first
/// task that is found for a cause becomes [`StopCause::last`].
fn stop_causes(tasks: &[ActivityTask]) -> Vec<StopCause> {
    let mut causes: BTreeMap<String, StopCause> = BTreeMap::new();
    for task in tasks {
        let Some(rule) = task.outcome.as_ref().and_then(stop_rule) else { continue };
        let first = || StopCause { rule: rule.clone(), tasks: 0, last: task.clone() };
        causes.entry(rule.clone()).or_insert_with(first).tasks += 1;
    }
    let mut causes: Vec<StopCause> = causes.into_values().collect();
    causes.sort_by_key(|cause| Reverse(cause.tasks));
    causes.truncate(MAX_LISTED_ENTRIES);
    causes
}

fn reap_rules<'s>(signals: impl Iterator<Item = &'s ReapedProcess>) -> Vec<ReapRule> {
    let mut rules: BTreeMap<&str, BTreeMap<(i32, u64), &ReapedProcess>> = BTreeMap::new();
    for signal in signals {
        rules.entry(&signal.rule).or_default().insert(signal.process, signal);
    }
    let rule = |(rule, processes): (&str, BTreeMap<_, &ReapedProcess>)| {
        let last = processes.values().max_by_key(|signal| &signal.at)?;
        Some(ReapRule {
            rule: make_visible(cut_head(rule, MAX_COMMAND_BYTES)),
            processes: processes.len(),
            last_at: last.at.clone(),
            command: shorten_command(&last.command),
        })
    };
    let mut rules: Vec<ReapRule> = rules.into_iter().filter_map(rule).collect();
    rules.sort_by_key(|rule| Reverse(rule.processes));
    rules.truncate(MAX_LISTED_ENTRIES);
    rules
}
