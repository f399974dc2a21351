//! Watchdogs: detectors that are armed without any limit.
//!
//! Four failure classes show in the resources of a process tree: a busy loop, a descriptor leak, a
//! long transfer and a large one. Each has a threshold above the use of healthy tasks. Healthy
//! look-alikes that exceed it are exempt: descriptors of processes that have few, connections that
//! were accepted or stay within the tree, busy trees that write files.
//!
//! An idle task must cost next to nothing. So the shim samples a task when it is awake anyway, and
//! otherwise at intervals that double while the task is idle; a sample includes connections only if
//! the task used processor time since the last one.

use serde::{Deserialize, Serialize};

use super::asked::Limits;
use super::breach::{Breach, Part};
use super::episodes::{BACK_PERCENT, Episodes, share};
use super::ledger::Ledger;
use super::usage::{ProcessUse, Usage};
use crate::outcome::Limit;
use crate::process::Mono;
use crate::settings::Key;

/// The watched resources, each with the setting of its threshold.
pub const WATCHED: [(Limit, Key); 4] = [
    (Limit::CpuSpin, Key::WatchCpuSpin),
    (Limit::Fds, Key::WatchFds),
    (Limit::ConnectionAge, Key::WatchConnectionAge),
    (Limit::Sent, Key::WatchSent),
];

/// Share of a core at which a tree counts as spinning, in percent.
const SPIN_PERCENT: u64 = 90;
/// Share of a core at which the next samples include more facts, in percent. On a busy machine a
/// loop may get no more.
const SUSPICIOUS_PERCENT: u64 = 25;
/// Share of a core at which a task counts as active, in percent, and the least processor time that
/// does, in milliseconds.
const ACTIVE_PERCENT: u64 = 1;
const ACTIVE_CPU_MS: u64 = 20;
/// Only processes that have one part in this many of the threshold count: a tree of many processes,
/// such as a browser's, has thousands of descriptors without a leak.
const CROWD: u64 = 16;
/// Shortest interval of an active task, and longest of an idle one, in milliseconds.
const QUICK_MS: u64 = 60_000;
const SLOW_MS: u64 = 240_000;
/// Shortest interval where a threshold is low or near, in milliseconds.
const MIN_STEP_MS: u64 = 1_000;
/// Samples within the time of a threshold.
const SAMPLES_PER_THRESHOLD: u64 = 5;
/// Processor time after which connections are sampled sooner, in milliseconds: sending a GiB takes
/// more. And the interval then.
const BUSY_CPU_MS: u64 = 100;
const BUSY_MS: u64 = 10_000;

/// Thresholds of the watchdogs of one task. Zero disarms one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Thresholds {
    /// Time at nine tenths of a core or more without any output, in milliseconds.
    pub cpu_spin_ms: u64,
    /// Open descriptors of all its processes together.
    pub fds: u64,
    /// Age of a TCP connection that still sends, in milliseconds.
    pub connection_age_ms: u64,
    /// Bytes sent to one remote address over TCP.
    pub sent: u64,
}

impl Thresholds {
    /// Whether nothing is watched.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Disarms the watchdogs that a limit replaces.
    #[must_use]
    pub fn without_limited(self, limits: &Limits) -> Self {
        let unless = |which, threshold| if limits.of(which).is_some() { 0 } else { threshold };
        Self {
            cpu_spin_ms: unless(Limit::CpuSpin, self.cpu_spin_ms),
            fds: unless(Limit::Fds, self.fds),
            connection_age_ms: unless(Limit::ConnectionAge, self.connection_age_ms),
            sent: unless(Limit::Sent, self.sent),
        }
    }

    /// Returns the interval of an active task, in milliseconds.
    fn quick_ms(&self) -> u64 {
        let times = [self.cpu_spin_ms, self.connection_age_ms];
        let shortest = times.into_iter().filter(|time| *time > 0).min().unwrap_or(u64::MAX);
        (shortest / SAMPLES_PER_THRESHOLD).clamp(MIN_STEP_MS, QUICK_MS)
    }
}

/// The watchdogs of one task over a series of samples.
#[derive(Debug, Clone)]
pub struct Watchdog {
    thresholds: Thresholds,
    episodes: Episodes,
    /// The previous sample; `None` before the first.
    before: Option<Baseline>,
    /// When the task was last active.
    active: Mono,
    /// When the next sample is due.
    due: Mono,
    /// The last sample with connections, and the processor time used by then; the start before the
    /// first.
    thorough: (Mono, u64),
    /// Set while the task seems to spin.
    suspicion: Option<Suspicion>,
}

/// The numbers of a sample that the next one is compared with.
#[derive(Debug, Clone, Copy)]
struct Baseline {
    at: Mono,
    cpu_ms: u64,
    output_bytes: u64,
    fds: u64,
    /// Most bytes sent to one remote.
    sent: u64,
}

/// A tree that seems to spin.
#[derive(Debug, Clone)]
struct Suspicion {
    processes: Vec<ProcessUse>,
    written_bytes: Option<u64>,
    /// Start of the spin, once two samples agree.
    since: Option<Mono>,
}

impl Watchdog {
    /// Arms the watchdogs. `told` are the recorded breaches.
    #[must_use]
    pub fn new(thresholds: Thresholds, now: Mono, told: &[Breach]) -> Self {
        let own = told.iter().filter(|breach| breach.watchdog);
        Self {
            thresholds,
            episodes: Episodes::new(own, |_| true),
            before: None,
            active: now,
            due: now.plus_ms(thresholds.quick_ms()),
            thorough: (now, 0),
            suspicion: None,
        }
    }

    /// Returns when the next sample is due.
    #[must_use]
    pub const fn due(&self) -> Mono {
        self.due
    }

    /// Whether the next sample is to include connections and descriptors. `cpu_ms` is the processor
    /// time of the tree: a task that used none opened and sent nothing.
    #[must_use]
    pub fn is_thorough_look_due(&self, now: Mono, cpu_ms: u64) -> bool {
        let (at, cpu_before) = self.thorough;
        let (elapsed, used) = (now.ms_since(at), cpu_ms.saturating_sub(cpu_before));
        let quick_ms = self.thresholds.quick_ms();
        let is_first = self.before.is_none();
        used >= BUSY_CPU_MS && (is_first || elapsed >= BUSY_MS.min(quick_ms))
            || used > 0 && elapsed >= quick_ms
    }

    /// Whether the task seems to spin. Then the sample is to include the bytes that its processes
    /// wrote.
    #[must_use]
    pub fn suspects_spin(&self, now: Mono, cpu_ms: u64, output_bytes: u64) -> bool {
        self.thresholds.cpu_spin_ms > 0
            && self.before.is_some_and(|before| {
                let elapsed = now.ms_since(before.at);
                let used = cpu_ms.saturating_sub(before.cpu_ms);
                output_bytes == before.output_bytes
                    && used >= share(elapsed, SUSPICIOUS_PERCENT).max(1)
            })
    }

    /// Whether the next sample is to include the time for which each process was runnable.
    #[must_use]
    pub const fn wants_runnable(&self) -> bool {
        self.suspicion.is_some()
    }

    /// Judges one sample, which the ledger holds already. `name` returns the name of a process.
    /// Returns the breaches to record.
    pub fn read(
        &mut self,
        usage: &Usage,
        ledger: &Ledger,
        name: &dyn Fn(i32) -> String,
    ) -> Vec<Breach> {
        let now = usage.at;
        let spin = self.measure_spin(usage);
        let sent = ledger.sent_to_others().map(|(_, bytes)| bytes).max().unwrap_or(0);
        self.schedule(usage, ledger, sent);
        let mut breaches = Vec::new();
        for (which, setting) in WATCHED {
            let found = match which {
                Limit::CpuSpin => vec![spin.clone()],
                Limit::Fds => self.descriptors(usage).into_iter().collect(),
                Limit::ConnectionAge => uploads(usage, ledger),
                Limit::Sent => self.sent(usage, ledger),
                Limit::Memory | Limit::Processes | Limit::OutputRate => Vec::new(),
            };
            let threshold = self.threshold(which);
            for Finding { value, remote, part } in found {
                if threshold == 0 || !self.is_news(which, value, remote.as_deref(), threshold) {
                    continue;
                }
                let part = part.map(|part| Part { command: name(part.pid), ..part });
                let numbers = (value, threshold);
                let about = (which, setting);
                breaches.push(Breach::of_watchdog(now, about, numbers, remote, part.as_ref()));
            }
        }
        if usage.connections.is_some() {
            self.thorough = (now, usage.cpu_ms());
        }
        self.before = Some(Baseline {
            at: now,
            cpu_ms: usage.cpu_ms(),
            output_bytes: usage.output_bytes,
            fds: usage.fds(),
            sent,
        });
        breaches
    }

    const fn threshold(&self, which: Limit) -> u64 {
        match which {
            Limit::CpuSpin => self.thresholds.cpu_spin_ms,
            Limit::Fds => self.thresholds.fds,
            Limit::ConnectionAge => self.thresholds.connection_age_ms,
            Limit::Sent => self.thresholds.sent,
            Limit::Memory | Limit::Processes | Limit::OutputRate => 0,
        }
    }

    fn is_news(&mut self, which: Limit, value: u64, remote: Option<&str>, threshold: u64) -> bool {
        match remote {
            Some(remote) => self.episodes.is_new_remote(which, remote, value, threshold),
            None => self.episodes.is_news(which, value, threshold),
        }
    }

    /// Returns for how long the task has been spinning.
    ///
    /// The time counts from the first of a row of samples that all show a spin. A tree that writes
    /// files does not spin: a build may write to a log, and compilers write object files.
    fn measure_spin(&mut self, usage: &Usage) -> Finding {
        let suspected = self.suspects_spin(usage.at, usage.cpu_ms(), usage.output_bytes);
        let before = self.suspicion.take();
        let Some(baseline) = self.before.filter(|_| suspected) else { return Finding::default() };
        let elapsed = usage.at.ms_since(baseline.at);
        let used = usage.cpu_ms().saturating_sub(baseline.cpu_ms);
        let processes = before.as_ref().map_or(&[][..], |before| &before.processes);
        let computed = used.max(could_run_ms(processes, &usage.processes));
        let written = |before: &Suspicion| before.written_bytes.zip(usage.written_bytes);
        let has_written = before.as_ref().and_then(written).is_some_and(|(was, is)| is != was);
        let spins = computed >= share(elapsed, SPIN_PERCENT) && !has_written;
        let since = match &before {
            Some(before) if spins => before.since.or(Some(baseline.at)),
            // How much it wrote before this sample is unknown.
            None if spins => Some(usage.at),
            Some(_) | None => None,
        };
        let part = busiest(processes, &usage.processes);
        self.suspicion = Some(Suspicion {
            processes: usage.processes.clone(),
            written_bytes: usage.written_bytes,
            since,
        });
        Finding { value: since.map_or(0, |since| usage.at.ms_since(since)), remote: None, part }
    }

    /// Returns the descriptors of the processes that have many.
    fn descriptors(&self, usage: &Usage) -> Option<Finding> {
        // Zero means that they were not counted: every process has some.
        if usage.fds() == 0 {
            return None;
        }
        let least = self.thresholds.fds / CROWD;
        let many = || usage.processes.iter().filter(|one| one.fds >= least);
        let part = many().max_by_key(|one| one.fds).map(|one| Part {
            share: Some(one.fds),
            pid: one.process.pid,
            command: String::new(),
        });
        Some(Finding { value: many().map(|one| one.fds).sum(), remote: None, part })
    }

    /// Returns the bytes sent to each remote that are near the threshold or above.
    fn sent(&self, usage: &Usage, ledger: &Ledger) -> Vec<Finding> {
        let near = share(self.thresholds.sent, BACK_PERCENT);
        let all = ledger.sent_to_others().filter(|(_, bytes)| *bytes >= near);
        all.map(|(remote, value)| {
            let held = usage.connections.iter().flatten().filter(|one| one.pid > 0);
            let part = held.filter(|one| one.remote == remote).map(|one| one.pid).next();
            Finding { value, remote: Some(remote.to_owned()), part: part.map(Part::by) }
        })
        .collect()
    }

    /// Sets the time of the next sample: soon while the task is active, sooner where it would pass a
    /// threshold before, and at doubling intervals while it is idle.
    fn schedule(&mut self, usage: &Usage, ledger: &Ledger, sent: u64) {
        let now = usage.at;
        let quick_ms = self.thresholds.quick_ms();
        let Some(before) = self.before else {
            self.active = now;
            self.due = now.plus_ms(quick_ms);
            return;
        };
        let elapsed = now.ms_since(before.at);
        let used = usage.cpu_ms().saturating_sub(before.cpu_ms);
        let uploads = usage.connections.iter().flatten().any(|one| ledger.is_upload(one.cookie));
        let grows = usage.fds() > before.fds && before.fds > 0;
        if used >= share(elapsed, ACTIVE_PERCENT).max(ACTIVE_CPU_MS) || grows || uploads {
            self.active = now;
        }
        let step_ms = now.ms_since(self.active).clamp(quick_ms, SLOW_MS);
        let soonest_ms = time_until(self.thresholds.sent, (before.sent, sent), elapsed)
            .min(time_until(self.thresholds.fds, (before.fds, usage.fds()), elapsed));
        self.due = now.plus_ms(step_ms.min(soonest_ms / 2).max(MIN_STEP_MS));
    }
}

/// One value that is held against its threshold.
#[derive(Debug, Clone, Default)]
struct Finding {
    value: u64,
    remote: Option<String>,
    part: Option<Part>,
}

/// Returns the uploading connections with their ages. Accepted connections serve a client, and data
/// on internal ones does not leave the task.
fn uploads(usage: &Usage, ledger: &Ledger) -> Vec<Finding> {
    let held = usage.connections.iter().flatten().filter(|one| one.pid > 0);
    held.filter(|one| !one.is_accepted && !one.is_internal && ledger.is_upload(one.cookie))
        .map(|one| Finding {
            value: ledger.age_ms(one.cookie, usage.at),
            remote: Some(one.remote.clone()),
            part: Some(Part::by(one.pid)),
        })
        .collect()
}

/// Returns the longest time for which a process was runnable between two samples.
fn could_run_ms(before: &[ProcessUse], now: &[ProcessUse]) -> u64 {
    let of = |one: &ProcessUse| {
        let known = before.iter().find(|known| known.process == one.process)?;
        // Zero means that it was not asked for.
        (known.runnable_ms > 0).then(|| one.runnable_ms.saturating_sub(known.runnable_ms))
    };
    now.iter().filter_map(of).max().unwrap_or(0)
}

/// Returns the process that used most processor time between two samples.
fn busiest(before: &[ProcessUse], now: &[ProcessUse]) -> Option<Part> {
    let used = |one: &&ProcessUse| {
        let known = before.iter().find(|known| known.process == one.process);
        one.cpu_ms.saturating_sub(known.map_or(0, |known| known.cpu_ms))
    };
    now.iter().max_by_key(used).map(|one| Part::by(one.process.pid))
}

/// Returns the time until a value passes its threshold at its present growth, in milliseconds.
fn time_until(threshold: u64, (before, now): (u64, u64), elapsed: u64) -> u64 {
    let (grown, missing) = (now.saturating_sub(before), threshold.saturating_sub(now));
    if threshold == 0 || grown == 0 || missing == 0 {
        return u64::MAX;
    }
    u64::try_from(u128::from(missing) * u128::from(elapsed) / u128::from(grown)).unwrap_or(u64::MAX)
}
