//! The resource monitor: measures what the task uses, and detects that a limit is exceeded.
//!
//! A task with limits is sampled at intervals that are short enough to enforce them. A task without
//! limits is sampled only when the shim is awake anyway, when a client requests the usage and, if
//! the task is in the background or adopted, at the intervals of its watchdogs; these intervals
//! grow while the task is idle. The usage of processes that have ended comes from getrusage(2)
//! without a sample.

use siding_core::processes::cgroup::{GroupMemory, TaskGroup};
use siding_core::processes::probe::{self, UsageFields};
use siding_core::sys::{clock, process, procfs, system_info};
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::limits::{
    Breach, ConnectionLog, LimitTracker, Limits, OnLimit, PeakUsage, ProcessUsage, SampleSchedule,
    Usage, Watchdog,
};
use siding_model::outcome::Placement;
use siding_model::process::MonotonicMs;
use siding_model::text;

use crate::task_context::TaskContext;

/// Time in milliseconds between two measurements of the expensive values that have no limit, unless
/// a watchdog determines this time. The values are the connections, for which the links of all
/// descriptors are read, the number of descriptors, and the kernel's count of OOM kills.
const THOROUGH_CHECK_MS: u64 = 60_000;
/// Age up to which a count of OOM kills explains the end of a process, in milliseconds: two
/// intervals between thorough checks.
const OOM_KILL_WINDOW_MS: u64 = 2 * THOROUGH_CHECK_MS;
/// A process that used at least the total memory divided by this number is a likely victim of the
/// OOM killer, which selects the largest process.
const LARGE_PROCESS_DIVISOR: u64 = 4;
/// After a sample for a watchdog, memory is released only if the next such sample is at least this
/// far away, in milliseconds.
const LONG_PAUSE_MS: u64 = 10_000;
/// Allowance for the error of the kernel's counts of resident memory, in bytes. The counts are
/// inaccurate, because each processor batches its changes (proc_pid_status(5)): up to 128 KiB per
/// processor on a machine with at most 16 processors. The error for a shim, which runs on few
/// processors, is smaller.
const RESIDENT_ERROR_BYTES: u64 = 1 << 20;
/// Maximum width of a process's name in the text of a breach, in columns.
const NAME_COLUMNS: usize = 60;

/// The monitor of one task, with its measurements.
#[derive(Debug)]
pub(crate) struct ResourceMonitor {
    limits: Limits,
    limit_tracker: LimitTracker,
    /// `None` until the task is in the background or adopted, and if all thresholds are off.
    watchdog: Option<Box<Watchdog>>,
    connection_log: ConnectionLog,
    pace: SampleSchedule,
    peaks: PeakUsage,
    /// The time of the last measurement of the expensive values; see [`THOROUGH_CHECK_MS`].
    last_thorough_check: MonotonicMs,
    /// The task's control group, if it accounts for memory.
    group: Option<TaskGroup>,
    oom_kills: OomKillHistory,
}

/// The breaches that a check found, and whether memory can be released afterwards.
#[derive(Debug, Default)]
pub(crate) struct ResourceCheck {
    pub(crate) breaches: Vec<Breach>,
    /// Whether the sample was for the watchdog only, and the next one is at least [`LONG_PAUSE_MS`]
    /// away.
    pub(crate) next_check_is_far: bool,
}

/// The kernel's count of OOM kills at the last two thorough checks, with their times. Two counts
/// are needed, because a process may take longer to die than the time between two checks.
#[derive(Debug, Clone, Copy)]
struct OomKillHistory([(MonotonicMs, Option<u64>); 2]);

impl OomKillHistory {
    const fn new(now: MonotonicMs, count: Option<u64>) -> Self {
        Self([(now, count); 2])
    }

    const fn record_count(&mut self, now: MonotonicMs, count: Option<u64>) {
        self.0 = [self.0[1], (now, count)];
    }

    /// Returns whether the kernel has killed a process recently. If the last check is old, the time
    /// of a kill since then is unknown: the result is then true only if `is_likely` returns true.
    fn has_recent_kill(
        &self,
        now: MonotonicMs,
        count: Option<u64>,
        is_likely: impl FnOnce() -> bool,
    ) -> bool {
        let recent = self.0.iter().find(|(at, _)| now.ms_since(*at) <= OOM_KILL_WINDOW_MS);
        let (_, before) = recent.unwrap_or(&self.0[1]);
        let has_grown = matches!((before, count), (Some(before), Some(count)) if count > *before);
        has_grown && (recent.is_some() || is_likely())
    }
}

impl ResourceMonitor {
    /// Returns the monitor of a task that has written `written` bytes.
    pub(crate) fn new(state: &TaskState, written: u64, now: MonotonicMs) -> Self {
        let limits = state.spec.limits;
        let group =
            TaskGroup::from_task(state).filter(|group| GroupMemory::for_group(group).is_some());
        Self {
            limits,
            limit_tracker: LimitTracker::new(limits, now, written, &state.breaches),
            watchdog: None,
            connection_log: ConnectionLog::default(),
            pace: SampleSchedule::new(now),
            peaks: PeakUsage::default(),
            last_thorough_check: now,
            oom_kills: OomKillHistory::new(now, oom_kills(group.as_ref())),
            group,
        }
    }

    /// Returns the time at which to call [`Self::check`]; `None` if the task has neither limits nor
    /// armed watchdogs, or is not running.
    pub(crate) fn wake_at(&self, state: &TaskState) -> Option<MonotonicMs> {
        let for_limits = (!self.limits.is_none()).then(|| self.pace.next_sample_at());
        let watchdog = self.watchdog.as_ref();
        // A sample is due only when the schedule allows one, or the shim would spin until then.
        let for_watchdog =
            watchdog.map(|watchdog| watchdog.next_sample_at().max(self.pace.earliest_sample_at()));
        [for_limits, for_watchdog].into_iter().flatten().min().filter(|_| is_running(state))
    }

    /// Arms the watchdogs of a task that is in the background or adopted.
    fn arm_watchdog(&mut self, state: &TaskState, now: MonotonicMs) {
        let is_unattended =
            state.lifecycle.placement() != Placement::Foreground || state.adopted.is_some();
        if self.watchdog.is_none() && is_unattended && !state.spec.watch.is_none() {
            let watchdog = Watchdog::new(state.spec.watch, now, &state.breaches);
            self.watchdog = Some(Box::new(watchdog));
        }
    }

    /// Takes a sample if the task runs and the schedule allows a sample now, even if none is due.
    /// `sampled` is the usage in a sample that the stall watch has just taken, if it took one.
    pub(crate) fn check(
        &mut self,
        context: &TaskContext<'_>,
        sampled: Option<Vec<ProcessUsage>>,
        now: MonotonicMs,
    ) -> ResourceCheck {
        self.arm_watchdog(context.state, now);
        if !self.pace.may_sample(now) || !is_running(context.state) {
            return ResourceCheck::default();
        }
        let started_cpu_us = clock::thread_cpu_us();
        let is_for_watchdog = sampled.is_none()
            && self.watchdog.as_ref().is_some_and(|it| it.next_sample_at() <= now);
        let wanted = self.required_usage(now);
        let mut processes = sampled.unwrap_or_else(|| context.sample_usage(wanted));
        let is_thorough = self.is_thorough_check_due(&processes, now);
        if is_thorough {
            self.last_thorough_check = now;
            self.oom_kills.record_count(now, oom_kills(self.group.as_ref()));
            if !wanted.fds {
                probe::count_descriptors(&mut processes);
            }
        }
        let connections = is_thorough || self.limits.needs_connections();
        let usage = self.measure(context, processes, connections, now);
        let name = |pid| text::one_line(&context.command_of(pid), NAME_COLUMNS);
        let mut breaches = Vec::new();
        if let Some(watchdog) = &mut self.watchdog {
            breaches = watchdog.record_usage(&usage, &self.connection_log, &name);
        }
        let mut moves = false;
        if !self.limits.is_none() {
            let reading = self.limit_tracker.record_usage(usage, &self.connection_log, &name);
            moves = reading.is_active;
            breaches.extend(reading.breaches);
        }
        self.pace.record_sample(now, clock::thread_cpu_us().saturating_sub(started_cpu_us), moves);
        let is_far = |watchdog: &Watchdog| watchdog.next_sample_at().ms_since(now) >= LONG_PAUSE_MS;
        let next_check_is_far = is_for_watchdog
            && self.limits.is_none()
            && self.watchdog.as_deref().is_some_and(is_far);
        ResourceCheck { breaches, next_check_is_far }
    }

    /// Takes a sample for a client that requests the usage, and returns the peaks so far.
    pub(crate) fn measure_now(&mut self, context: &TaskContext<'_>) -> PeakUsage {
        let processes = context.sample_usage(UsageFields { runnable: false, fds: true });
        let _recorded_anyway = self.measure(context, processes, true, clock::monotonic_now());
        PeakUsage { sent: self.connection_log.top_remotes(), ..self.peaks.clone() }
    }

    /// Returns the peaks of a task that has ended.
    pub(crate) fn final_peaks(&self) -> PeakUsage {
        let ended = process::ended_children_usage();
        // getrusage(2) covers only children: after a takeover the usage is unknown rather than
        // zero.
        let is_known = ended.resident_bytes > 0;
        let largest = task_process_peak(ended.resident_bytes, procfs::self_peak_memory());
        PeakUsage {
            memory_bytes: self.peaks.memory_bytes.max(largest),
            cpu_ms: self.peaks.cpu_ms.max(is_known.then_some(ended.cpu_ms)),
            sent: self.connection_log.top_remotes(),
            ..self.peaks.clone()
        }
    }

    /// Returns whether the OOM killer has recently killed a process: a process of the task's
    /// control group, or any process of the system if the task has no group that accounts for
    /// memory.
    pub(crate) fn saw_oom_kill(&self, now: MonotonicMs) -> bool {
        let count = oom_kills(self.group.as_ref());
        self.oom_kills.has_recent_kill(now, count, || {
            let largest = process::ended_children_usage().resident_bytes;
            // This runs only when the last check is too old to show that the kill was recent. The
            // count of the task's own control group contains no other kills, so the victim was one
            // of the task's processes. Otherwise a large process is assumed to be the victim.
            self.group.is_some()
                || system_info::total_memory()
                    .is_some_and(|total| largest >= total / LARGE_PROCESS_DIVISOR)
        })
    }

    /// Returns the breach to record when the kernel has killed processes at the memory limit of the
    /// task's control group. `None` if the kernel has killed none, if a breach of the limit does
    /// not stop the task, or if the task is not running.
    pub(crate) fn memory_limit_kill(&self, state: &TaskState, now: MonotonicMs) -> Option<Breach> {
        let Limits { memory: limit, on_limit, .. } = self.limits;
        if limit == 0 || on_limit != OnLimit::Stop || !is_running(state) {
            return None;
        }
        let killed = GroupMemory::for_group(self.group.as_ref()?)?.oom_kills()?;
        let is_for_it = killed.at_own_limit && killed.processes > 0;
        is_for_it.then(|| Breach::from_kernel_kill(now, limit, killed.processes))
    }

    fn measure(
        &mut self,
        context: &TaskContext<'_>,
        processes: Vec<ProcessUsage>,
        connections: bool,
        now: MonotonicMs,
    ) -> Usage {
        let connections = connections
            .then(|| probe::connections(&processes, |one| self.connection_log.contains(one)));
        let mut usage = Usage {
            at: now,
            shared_once_bytes: None,
            available_bytes: (self.limits.min_available > 0)
                .then(system_info::available_memory)
                .flatten(),
            ended_cpu_ms: process::ended_children_usage().cpu_ms,
            output_bytes: context.output.bytes(),
            connections: connections.flatten(),
            written_bytes: None,
            processes,
        };
        let spins =
            |watchdog: &Watchdog| watchdog.suspects_spin(now, usage.cpu_ms(), usage.output_bytes);
        if self.watchdog.as_deref().is_some_and(spins) {
            usage.written_bytes =
                probe::written_bytes(&usage.processes, !context.output.sees_output());
        }
        usage.shared_once_bytes = self.shared_once(&usage);
        if let Some(connections) = &usage.connections {
            self.connection_log.record_sample(now, connections);
        }
        self.peaks.record_usage(&usage);
        usage
    }

    /// Returns the task's memory with shared pages counted once. `None` if no limit needs this
    /// value, for example because the resident memory is already small enough.
    fn shared_once(&self, usage: &Usage) -> Option<u64> {
        let (limit, resident) = (self.limits.memory, usage.resident_bytes());
        // `used_bytes` subtracts page cache, which the kernel can reclaim, only at or above this
        // value.
        let enough = limit - limit / 10;
        let group = self.group.as_ref().filter(|_| limit > 0).and_then(GroupMemory::for_group);
        let counted = group.and_then(|group| group.used_bytes(enough));
        let least = self.limits.memory_blame_threshold(usage.available_bytes);
        let may_make_up = least.is_some_and(|least| resident >= least);
        match counted {
            Some(bytes) if bytes >= enough => Some(bytes),
            _ if may_make_up => Some(probe::proportional_memory(&usage.processes)),
            Some(bytes) => Some(bytes.min(resident)),
            None => (0 < limit && limit < resident)
                .then(|| probe::proportional_memory(&usage.processes)),
        }
    }

    /// Returns the fields that a sample must have. The stall watch, too, takes its samples with
    /// these fields, so that this monitor can use them.
    pub(crate) fn required_usage(&self, now: MonotonicMs) -> UsageFields {
        UsageFields {
            runnable: self.limits.cpu_spin_ms > 0
                || self.watchdog.as_deref().is_some_and(Watchdog::wants_runnable_time),
            fds: !self.limits.is_none()
                || self.peaks.fds.is_none()
                || self.is_thorough_interval_over(now),
        }
    }

    /// Returns whether the expensive values are due to be measured; see [`THOROUGH_CHECK_MS`].
    fn is_thorough_check_due(&self, processes: &[ProcessUsage], now: MonotonicMs) -> bool {
        let Some(watchdog) = &self.watchdog else { return self.is_thorough_interval_over(now) };
        let live_cpu_ms: u64 = processes.iter().map(|process| process.cpu_ms).sum();
        watchdog.is_thorough_sample_due(
            now,
            live_cpu_ms.saturating_add(process::ended_children_usage().cpu_ms),
        )
    }

    /// Returns whether the interval between two thorough checks is over.
    const fn is_thorough_interval_over(&self, now: MonotonicMs) -> bool {
        now.ms_since(self.last_thorough_check) >= THOROUGH_CHECK_MS
    }
}

/// Returns the largest resident memory of the task's ended processes. `ended_bytes` is the value
/// that getrusage(2) gives for the shim's children, and `shim_bytes` is the shim's own peak. Until
/// its exec, a child shares the memory of the shim, and execve(2) adds the peak of that memory to
/// the value of the child. Therefore a value up to the shim's peak says nothing about the task, and
/// the result is `None`.
fn task_process_peak(ended_bytes: u64, shim_bytes: Option<u64>) -> Option<u64> {
    let is_of_task = ended_bytes > shim_bytes?.saturating_add(RESIDENT_ERROR_BYTES);
    is_of_task.then_some(ended_bytes)
}

/// Returns the number of processes that the OOM killer has killed: in the task's group if there is
/// one, otherwise on this system. `None` if the kernel does not count them there.
fn oom_kills(group: Option<&TaskGroup>) -> Option<u64> {
    match group {
        Some(group) => Some(GroupMemory::for_group(group)?.oom_kills()?.processes),
        None => system_info::oom_kills(),
    }
}

/// Returns whether the task can be stopped for its usage: it has started, and is not being stopped
/// yet.
const fn is_running(state: &TaskState) -> bool {
    matches!(state.lifecycle.phase(), Phase::Running { .. } | Phase::Lingering { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_shim_is_not_reported_as_that_of_its_task() {
        const MIB: u64 = 1 << 20;
        let shim = Some(11 * MIB);
        assert_eq!(task_process_peak(11 * MIB, shim), None);
        assert_eq!(task_process_peak(11 * MIB + 100_000, shim), None, "an inaccurate count");
        assert_eq!(task_process_peak(90 * MIB, shim), Some(90 * MIB));
        assert_eq!(task_process_peak(0, shim), None, "no child has ended");
        assert_eq!(task_process_peak(90 * MIB, None), None, "the shim's peak is unknown");
    }

    #[test]
    fn an_old_oom_kill_does_not_explain_a_new_death() {
        let mut kills = OomKillHistory::new(MonotonicMs(0), Some(3));
        assert!(!kills.has_recent_kill(MonotonicMs(1_000), Some(3), || true), "no kill");
        assert!(!kills.has_recent_kill(MonotonicMs(1_000), None, || true), "no count");
        assert!(kills.has_recent_kill(MonotonicMs(60_000), Some(4), || false));
        // The last check was hours ago, so the kill may have been that of another process.
        let hours = MonotonicMs(4 * 3_600_000);
        assert!(!kills.has_recent_kill(hours, Some(4), || false));
        assert!(kills.has_recent_kill(hours, Some(4), || true), "a large process is likely");
        // After a recent check, the count is compared with that of this check.
        kills.record_count(hours, Some(4));
        assert!(!kills.has_recent_kill(hours.plus_ms(10), Some(4), || true));
        assert!(kills.has_recent_kill(hours.plus_ms(10), Some(5), || false));
        // A process that took a minute to die was killed before the last check.
        kills.record_count(hours.plus_ms(60_000), Some(5));
        assert!(kills.has_recent_kill(hours.plus_ms(61_000), Some(5), || false));
    }
}
