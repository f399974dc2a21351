//! Watchdogs: detectors of excessive resource use that need no limit to be armed.
//!
//! The watchdogs detect four failures: a busy loop, a descriptor leak, a long transfer, and a large
//! transfer. Each has a threshold above the use of healthy tasks. Healthy use that can still exceed
//! a threshold is left out: descriptors of processes that each have few, the age of accepted
//! connections, traffic within the tree, and busy trees that write files.
//!
//! An idle task must use almost no processor time. So the shim samples a task when the shim is
//! awake for another reason, and otherwise at intervals that double while the task is idle. A
//! sample includes connections only if the task used processor time since the last sample with
//! connections.

use serde::{Deserialize, Serialize};

use super::breach::{Breach, BreachSource};
use super::connections::ConnectionLog;
use super::episodes::{Episodes, RECOVERY_PERCENT, percent_of};
use super::spec::Limits;
use super::usage::{ProcessUsage, Usage, index_processes};
use crate::outcome::LimitKind;
use crate::process::MonotonicMs;

/// The watched resources, each with the setting that holds its threshold.
pub const WATCHED_LIMITS: [(LimitKind, &str); 4] = [
    (LimitKind::CpuSpin, "watch_cpu_spin"),
    (LimitKind::Fds, "watch_fds"),
    (LimitKind::ConnectionAge, "watch_connection_age"),
    (LimitKind::Sent, "watch_sent"),
];

/// Share of a core at and above which a tree that writes nothing counts as spinning, in percent.
const SPIN_PERCENT: u64 = 90;
/// Share of a core at and above which samples include the facts that confirm a busy loop, in
/// percent. The share is low because a loop may get no more processor time than this on a busy
/// machine.
const SUSPICIOUS_PERCENT: u64 = 25;
/// Share of a core at and above which a task is active, in percent, and the least processor time
/// for this, in milliseconds.
const ACTIVE_PERCENT: u64 = 1;
const ACTIVE_CPU_MS: u64 = 20;
/// Divisor of the threshold for descriptors. Processes with fewer descriptors than the quotient are
/// left out, because a tree of many processes, such as that of a browser, has thousands of
/// descriptors without a leak.
const LEAK_SHARE_DIVISOR: u64 = 16;
/// Maximum interval between the samples of an active task and of an idle task, in milliseconds.
const ACTIVE_INTERVAL_MS: u64 = 60_000;
const MAX_IDLE_INTERVAL_MS: u64 = 240_000;
/// Minimum interval, for a low threshold or a value close to its threshold, in milliseconds.
const MIN_INTERVAL_MS: u64 = 1_000;
/// Number of samples that an active task gets within the shortest threshold that is a duration.
const SAMPLES_PER_THRESHOLD: u64 = 5;
/// Processor time after which connections are sampled at the shorter interval below, in
/// milliseconds. Sending a GiB takes more processor time than this.
const BUSY_CPU_MS: u64 = 100;
const BUSY_INTERVAL_MS: u64 = 10_000;

/// The values above which the watchdogs of a task record a breach. Zero disarms a watchdog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Thresholds {
    /// Time in milliseconds for which a tree may compute at nine tenths of a core or more without
    /// writing output or files. The time for which a process is runnable without getting a core
    /// counts as computing.
    pub cpu_spin_ms: u64,
    /// Open descriptors of all processes that each have at least a sixteenth of this number.
    pub fds: u64,
    /// Age of a TCP connection that uploads data, in milliseconds.
    pub connection_age_ms: u64,
    /// Bytes sent to one remote address over TCP.
    pub sent: u64,
}

impl Thresholds {
    /// Returns whether all watchdogs are disarmed.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the thresholds without those of resources that have a limit.
    #[must_use]
    pub fn without_limited(self, limits: &Limits) -> Self {
        let unless =
            |limit_kind, threshold| if limits.get(limit_kind).is_some() { 0 } else { threshold };
        Self {
            cpu_spin_ms: unless(LimitKind::CpuSpin, self.cpu_spin_ms),
            fds: unless(LimitKind::Fds, self.fds),
            connection_age_ms: unless(LimitKind::ConnectionAge, self.connection_age_ms),
            sent: unless(LimitKind::Sent, self.sent),
        }
    }

    /// Returns the interval between the samples of an active task, in milliseconds.
    fn active_interval_ms(&self) -> u64 {
        let times = [self.cpu_spin_ms, self.connection_age_ms];
        let shortest = times.into_iter().filter(|time| *time > 0).min().unwrap_or(u64::MAX);
        (shortest / SAMPLES_PER_THRESHOLD).clamp(MIN_INTERVAL_MS, ACTIVE_INTERVAL_MS)
    }
}

/// The watchdogs of one task over a series of samples.
#[derive(Debug, Clone)]
pub struct Watchdog {
    thresholds: Thresholds,
    episodes: Episodes,
    /// The previous sample; `None` before the first.
    previous: Option<Baseline>,
    last_active: MonotonicMs,
    next_sample: MonotonicMs,
    /// The time of the last sample with connections, initially that of the start, and the processor
    /// time used up to then, in milliseconds.
    last_thorough_sample: (MonotonicMs, u64),
    /// The facts about a suspected busy loop; `None` while the task does not seem to spin.
    suspected_spin: Option<SuspectedSpin>,
}

/// The numbers of a sample with which the next sample is compared.
#[derive(Debug, Clone, Copy)]
struct Baseline {
    at: MonotonicMs,
    cpu_ms: u64,
    output_bytes: u64,
    fds: u64,
    /// The largest number of bytes sent to one remote outside the task.
    sent: u64,
}

/// The facts from the last sample of a tree that seems to spin.
#[derive(Debug, Clone)]
struct SuspectedSpin {
    processes: Vec<ProcessUsage>,
    written_bytes: Option<u64>,
    /// Start of the consecutive samples that show a busy loop; `None` until one does.
    since: Option<MonotonicMs>,
}

impl Watchdog {
    /// Arms the watchdogs. `recorded` are the breaches in the task's journal.
    #[must_use]
    pub fn new(thresholds: Thresholds, now: MonotonicMs, recorded: &[Breach]) -> Self {
        let own = recorded.iter().filter(|breach| breach.watchdog);
        Self {
            thresholds,
            episodes: Episodes::new(own, |_| true),
            previous: None,
            last_active: now,
            next_sample: now.plus_ms(thresholds.active_interval_ms()),
            last_thorough_sample: (now, 0),
            suspected_spin: None,
        }
    }

    /// Returns the time at which the next sample is due.
    #[must_use]
    pub const fn next_sample_at(&self) -> MonotonicMs {
        self.next_sample
    }

    /// Returns whether the next sample must include connections and descriptors. `cpu_ms` is the
    /// processor time of the tree: a task that used none since the last such sample cannot have
    /// opened or sent anything.
    #[must_use]
    pub fn is_thorough_sample_due(&self, now: MonotonicMs, cpu_ms: u64) -> bool {
        let (at, cpu_before) = self.last_thorough_sample;
        let (elapsed, used) = (now.ms_since(at), cpu_ms.saturating_sub(cpu_before));
        let quick_ms = self.thresholds.active_interval_ms();
        let is_first = self.previous.is_none();
        used >= BUSY_CPU_MS && (is_first || elapsed >= BUSY_INTERVAL_MS.min(quick_ms))
            || used > 0 && elapsed >= quick_ms
    }

    /// Returns whether the task seems to spin. The sample must then include the bytes that the
    /// task's processes wrote, because a tree that writes files does not spin.
    #[must_use]
    pub fn suspects_spin(&self, now: MonotonicMs, cpu_ms: u64, output_bytes: u64) -> bool {
        self.thresholds.cpu_spin_ms > 0
            && self.previous.is_some_and(|before| {
                let elapsed = now.ms_since(before.at);
                let used = cpu_ms.saturating_sub(before.cpu_ms);
                output_bytes == before.output_bytes
                    && used >= percent_of(elapsed, SUSPICIOUS_PERCENT).max(1)
            })
    }

    /// Returns whether the next sample must include the runnable time of each process: while a busy
    /// loop is suspected.
    #[must_use]
    pub const fn wants_runnable_time(&self) -> bool {
        self.suspected_spin.is_some()
    }

    /// Compares one sample with the thresholds and returns the breaches to record. `ledger` must
    /// already contain the sample's connections; `name` returns the name of a process.
    pub fn record_usage(
        &mut self,
        usage: &Usage,
        ledger: &ConnectionLog,
        name: &dyn Fn(i32) -> String,
    ) -> Vec<Breach> {
        let now = usage.at;
        let spin = self.measure_spin(usage);
        let sent = ledger.sent_to_others().map(|(_, bytes)| bytes).max().unwrap_or(0);
        self.schedule(usage, ledger, sent);
        let mut breaches = Vec::new();
        for (limit_kind, setting) in WATCHED_LIMITS {
            let found = match limit_kind {
                LimitKind::CpuSpin => vec![spin.clone()],
                LimitKind::Fds => self.measure_descriptors(usage).into_iter().collect(),
                LimitKind::ConnectionAge => measure_uploads(usage, ledger),
                LimitKind::Sent => self.measure_sent(usage, ledger),
                LimitKind::Memory | LimitKind::Processes | LimitKind::OutputRate => Vec::new(),
            };
            let threshold = self.threshold(limit_kind);
            for Finding { value, remote, part } in found {
                if threshold == 0
                    || !self.is_newly_exceeded(limit_kind, value, remote.as_deref(), threshold)
                {
                    continue;
                }
                let part = part.map(|part| BreachSource { command: name(part.pid), ..part });
                let numbers = (value, threshold);
                let about = (limit_kind, setting);
                breaches.push(Breach::from_watchdog(now, about, numbers, remote, part.as_ref()));
            }
        }
        if usage.connections.is_some() {
            self.last_thorough_sample = (now, usage.cpu_ms());
        }
        self.previous = Some(Baseline {
            at: now,
            cpu_ms: usage.cpu_ms(),
            output_bytes: usage.output_bytes,
            fds: usage.fds(),
            sent,
        });
        breaches
    }

    const fn threshold(&self, limit_kind: LimitKind) -> u64 {
        match limit_kind {
            LimitKind::CpuSpin => self.thresholds.cpu_spin_ms,
            LimitKind::Fds => self.thresholds.fds,
            LimitKind::ConnectionAge => self.thresholds.connection_age_ms,
            LimitKind::Sent => self.thresholds.sent,
            LimitKind::Memory | LimitKind::Processes | LimitKind::OutputRate => 0,
        }
    }

    fn is_newly_exceeded(
        &mut self,
        limit_kind: LimitKind,
        value: u64,
        remote: Option<&str>,
        threshold: u64,
    ) -> bool {
        match remote {
            Some(remote) => {
                self.episodes.is_newly_exceeded_by_remote(limit_kind, remote, value, threshold)
            }
            None => self.episodes.is_newly_exceeded(limit_kind, value, threshold),
        }
    }

    /// Returns the time for which the task has been spinning.
    ///
    /// The time counts from the sample after which all samples have shown a spin. A tree that
    /// writes files does not spin: a build may write to a log, and compilers write object files.
    fn measure_spin(&mut self, usage: &Usage) -> Finding {
        let suspected = self.suspects_spin(usage.at, usage.cpu_ms(), usage.output_bytes);
        let before = self.suspected_spin.take();
        let Some(baseline) = self.previous.filter(|_| suspected) else { return Finding::default() };
        let elapsed = usage.at.ms_since(baseline.at);
        let used = usage.cpu_ms().saturating_sub(baseline.cpu_ms);
        let processes = before.as_ref().map_or(&[][..], |before| &before.processes);
        let computed = used.max(max_runnable_ms(processes, &usage.processes));
        let written = |before: &SuspectedSpin| before.written_bytes.zip(usage.written_bytes);
        let has_written = before.as_ref().and_then(written).is_some_and(|(was, is)| is != was);
        let spins = computed >= percent_of(elapsed, SPIN_PERCENT) && !has_written;
        let since = match &before {
            Some(before) if spins => before.since.or(Some(baseline.at)),
            // How much was written before this sample is unknown, so the spin counts from here.
            None if spins => Some(usage.at),
            Some(_) | None => None,
        };
        let part = busiest_process(processes, &usage.processes);
        self.suspected_spin = Some(SuspectedSpin {
            processes: usage.processes.clone(),
            written_bytes: usage.written_bytes,
            since,
        });
        Finding { value: since.map_or(0, |since| usage.at.ms_since(since)), remote: None, part }
    }

    /// Returns the number of descriptors in the processes that have many; see
    /// [`LEAK_SHARE_DIVISOR`].
    fn measure_descriptors(&self, usage: &Usage) -> Option<Finding> {
        // Zero means that the descriptors were not counted, since every process has some.
        if usage.fds() == 0 {
            return None;
        }
        let least = self.thresholds.fds / LEAK_SHARE_DIVISOR;
        let many = || usage.processes.iter().filter(|one| one.fds >= least);
        let part = many().max_by_key(|one| one.fds).map(|one| BreachSource {
            share: Some(one.fds),
            pid: one.process.pid,
            command: String::new(),
        });
        Some(Finding { value: many().map(|one| one.fds).sum(), remote: None, part })
    }

    /// Returns the bytes sent to each remote that is above or close to the threshold.
    fn measure_sent(&self, usage: &Usage, ledger: &ConnectionLog) -> Vec<Finding> {
        let near = percent_of(self.thresholds.sent, RECOVERY_PERCENT);
        let all = ledger.sent_to_others().filter(|(_, bytes)| *bytes >= near);
        all.map(|(remote, value)| {
            let held = usage.connections.iter().flatten().filter(|one| one.pid > 0);
            let part = held.filter(|one| one.remote == remote).map(|one| one.pid).next();
            Finding {
                value,
                remote: Some(remote.to_owned()),
                part: part.map(BreachSource::from_pid),
            }
        })
        .collect()
    }

    /// Sets the time of the next sample. The interval is short while the task is active, and
    /// doubles while the task is idle. A value that will soon reach its threshold shortens the
    /// interval.
    fn schedule(&mut self, usage: &Usage, ledger: &ConnectionLog, sent: u64) {
        let now = usage.at;
        let quick_ms = self.thresholds.active_interval_ms();
        let Some(before) = self.previous else {
            self.last_active = now;
            self.next_sample = now.plus_ms(quick_ms);
            return;
        };
        let elapsed = now.ms_since(before.at);
        let used = usage.cpu_ms().saturating_sub(before.cpu_ms);
        let uploads = usage.connections.iter().flatten().any(|one| ledger.is_upload(one.cookie));
        let grows = usage.fds() > before.fds && before.fds > 0;
        if used >= percent_of(elapsed, ACTIVE_PERCENT).max(ACTIVE_CPU_MS) || grows || uploads {
            self.last_active = now;
        }
        let step_ms = now.ms_since(self.last_active).clamp(quick_ms, MAX_IDLE_INTERVAL_MS);
        let soonest_ms = ms_until_threshold(self.thresholds.sent, (before.sent, sent), elapsed)
            .min(ms_until_threshold(self.thresholds.fds, (before.fds, usage.fds()), elapsed));
        self.next_sample = now.plus_ms(step_ms.min(soonest_ms / 2).max(MIN_INTERVAL_MS));
    }
}

/// A measured value, to be compared with its threshold.
#[derive(Debug, Clone, Default)]
struct Finding {
    value: u64,
    remote: Option<String>,
    part: Option<BreachSource>,
}

/// Returns the ages of the connections that upload data. Accepted connections are left out because
/// they serve a client, and internal connections because their data does not leave the task.
fn measure_uploads(usage: &Usage, ledger: &ConnectionLog) -> Vec<Finding> {
    let held = usage.connections.iter().flatten().filter(|one| one.pid > 0);
    held.filter(|one| !one.is_accepted && !one.is_internal && ledger.is_upload(one.cookie))
        .map(|one| Finding {
            value: ledger.age_ms(one.cookie, usage.at),
            remote: Some(one.remote.clone()),
            part: Some(BreachSource::from_pid(one.pid)),
        })
        .collect()
}

/// Returns the longest time for which a process was runnable between two samples.
fn max_runnable_ms(before: &[ProcessUsage], now: &[ProcessUsage]) -> u64 {
    let before = index_processes(before);
    let of = |one: &ProcessUsage| {
        let known = before.get(&one.process)?;
        // Zero means that the time was not measured.
        (known.runnable_ms > 0).then(|| one.runnable_ms.saturating_sub(known.runnable_ms))
    };
    now.iter().filter_map(of).max().unwrap_or(0)
}

/// Returns the process that used the most processor time between two samples.
fn busiest_process(before: &[ProcessUsage], now: &[ProcessUsage]) -> Option<BreachSource> {
    let before = index_processes(before);
    let used = |one: &&ProcessUsage| {
        let known = before.get(&one.process);
        one.cpu_ms.saturating_sub(known.map_or(0, |known| known.cpu_ms))
    };
    now.iter().max_by_key(used).map(|one| BreachSource::from_pid(one.process.pid))
}

/// Returns the time until a value reaches its threshold at its current rate of growth, in
/// milliseconds; the maximum if the value does not grow, or has reached the threshold.
fn ms_until_threshold(threshold: u64, (before, now): (u64, u64), elapsed: u64) -> u64 {
    let (grown, missing) = (now.saturating_sub(before), threshold.saturating_sub(now));
    if threshold == 0 || grown == 0 || missing == 0 {
        return u64::MAX;
    }
    u64::try_from(u128::from(missing) * u128::from(elapsed) / u128::from(grown)).unwrap_or(u64::MAX)
}
