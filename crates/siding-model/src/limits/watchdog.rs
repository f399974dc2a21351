//! Watchdogs: what is told of a task for which nobody has set a limit.
//!
//! Four failure classes show in what a task uses: a busy loop, a descriptor leak, a long transfer and
//! one of great size. Each has a threshold that healthy tasks stay below, and what they do all the
//! same is not counted: descriptors of processes that have few, connections that were accepted or
//! stay within the task, loops that write files.
//!
//! An idle task must cost nothing. So a task is looked at when its shim is awake anyway, and by
//! itself ever more rarely while it does not work; connections only when it has used processor time.

use serde::{Deserialize, Serialize};

use super::asked::Limits;
use super::breach::{Breach, Part};
use super::episodes::{BACK_PERCENT, Episodes, share};
use super::ledger::Ledger;
use super::usage::{ProcessUse, Usage};
use crate::outcome::Limit;
use crate::process::Mono;
use crate::settings::Key;

/// What is watched, each with the setting of its threshold.
pub const WATCHED: [(Limit, Key); 4] = [
    (Limit::CpuSpin, Key::WatchCpuSpin),
    (Limit::Fds, Key::WatchFds),
    (Limit::ConnectionAge, Key::WatchConnectionAge),
    (Limit::Sent, Key::WatchSent),
];

/// From how much of a core on a task computes, in percent.
const SPIN_PERCENT: u64 = 90;
/// From how much on it is worth a closer look, in percent. On a busy machine a loop gets no more.
const SUSPICIOUS_PERCENT: u64 = 25;
/// From how much of a core on a task works, in percent, and the least that counts, in milliseconds.
const ACTIVE_PERCENT: u64 = 1;
const ACTIVE_CPU_MS: u64 = 20;
/// A process counts its descriptors when it has one part in this many of the threshold: a tree of
/// many processes, as of a browser, has thousands and leaks none.
const CROWD: u64 = 16;
/// Time between two looks at a task that works, and at one that has not for long, in milliseconds.
const QUICK_MS: u64 = 60_000;
const SLOW_MS: u64 = 240_000;
/// Least time between two looks, in milliseconds: where a threshold is low or near.
const MIN_STEP_MS: u64 = 1_000;
/// Looks in the time of a threshold.
const LOOKS: u64 = 5;
/// Processor time after which connections are looked at sooner, in milliseconds: less than a GiB
/// takes to send. And how soon.
const BUSY_CPU_MS: u64 = 100;
const BUSY_MS: u64 = 10_000;

/// From which use on a task is told of. Zero never tells.
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

    /// Leaves out what the task has a limit of its own for: that says when it is told.
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

    /// Returns the time between two looks at a task that works, in milliseconds.
    fn quick_ms(&self) -> u64 {
        let times = [self.cpu_spin_ms, self.connection_age_ms];
        let shortest = times.into_iter().filter(|time| *time > 0).min().unwrap_or(u64::MAX);
        (shortest / LOOKS).clamp(MIN_STEP_MS, QUICK_MS)
    }
}

/// What is watched of one task, over a row of looks.
#[derive(Debug, Clone)]
pub struct Watchdog {
    thresholds: Thresholds,
    episodes: Episodes,
    /// The look before; `None` before the first.
    before: Option<Baseline>,
    /// When the task was last seen to work or grow.
    active: Mono,
    /// When it is looked at by itself.
    due: Mono,
    /// The last look at its connections, with the processor time used by then; the beginning before
    /// the first.
    thorough: (Mono, u64),
    /// Kept while the task seems to compute without output.
    suspicion: Option<Suspicion>,
}

/// What a look is compared with.
#[derive(Debug, Clone, Copy)]
struct Baseline {
    at: Mono,
    cpu_ms: u64,
    output_bytes: u64,
    fds: u64,
    /// Most that went to one remote.
    sent: u64,
}

/// A tree that seems to compute without output.
#[derive(Debug, Clone)]
struct Suspicion {
    processes: Vec<ProcessUse>,
    written_bytes: Option<u64>,
    /// Since when it was seen to.
    since: Option<Mono>,
}

impl Watchdog {
    /// Begins to watch a task. `told` is what is on record already.
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

    /// Returns when to look, if nothing leads to a look before.
    #[must_use]
    pub const fn due(&self) -> Mono {
        self.due
    }

    /// Whether a look at a task that has used so much processor time, in milliseconds, is to include
    /// its connections and descriptors. What has used none has opened and sent nothing.
    #[must_use]
    pub fn is_thorough_look_due(&self, now: Mono, cpu_ms: u64) -> bool {
        let (at, cpu_before) = self.thorough;
        let (elapsed, used) = (now.ms_since(at), cpu_ms.saturating_sub(cpu_before));
        let quick_ms = self.thresholds.quick_ms();
        let is_first = self.before.is_none();
        used >= BUSY_CPU_MS && (is_first || elapsed >= BUSY_MS.min(quick_ms))
            || used > 0 && elapsed >= quick_ms
    }

    /// Whether a task seems to compute without output: then a look is to say what its processes have
    /// written.
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

    /// Whether the next look is to say for how long each process could have run.
    #[must_use]
    pub const fn wants_runnable(&self) -> bool {
        self.suspicion.is_some()
    }

    /// Takes in one look; the ledger has it already. `name` names a process. Returns what is to be
    /// told.
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

    /// Returns for how long the task has computed without output.
    ///
    /// The time counts from the first look after which every look found it so, and no processes that
    /// write files: a build may write to a log, and compilers write what they make.
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
            // What it wrote before this look is not known.
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

    /// Returns the descriptors of those processes that have many.
    fn descriptors(&self, usage: &Usage) -> Option<Finding> {
        // A process that may be looked at has some.
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

    /// Returns what went to each remote that got more than the threshold, or nearly.
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

    /// Says when to look next: soon while the task works, sooner where it will pass a threshold
    /// before, and ever more rarely while it does nothing.
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

/// Returns the connections over which something is uploaded, with their ages. One that was accepted
/// serves somebody, and one within the task leaves it nowhere.
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

/// Returns for how long one of the processes ran or waited for a processor between two looks.
fn could_run_ms(before: &[ProcessUse], now: &[ProcessUse]) -> u64 {
    let of = |one: &ProcessUse| {
        let known = before.iter().find(|known| known.process == one.process)?;
        // Zero is what nobody asked for.
        (known.runnable_ms > 0).then(|| one.runnable_ms.saturating_sub(known.runnable_ms))
    };
    now.iter().filter_map(of).max().unwrap_or(0)
}

/// Returns who has computed most between two looks.
fn busiest(before: &[ProcessUse], now: &[ProcessUse]) -> Option<Part> {
    let used = |one: &&ProcessUse| {
        let known = before.iter().find(|known| known.process == one.process);
        one.cpu_ms.saturating_sub(known.map_or(0, |known| known.cpu_ms))
    };
    now.iter().max_by_key(used).map(|one| Part::by(one.process.pid))
}

/// Returns when a value that grows as it did passes its threshold, in milliseconds from now.
fn time_until(threshold: u64, (before, now): (u64, u64), elapsed: u64) -> u64 {
    let (grown, missing) = (now.saturating_sub(before), threshold.saturating_sub(now));
    if threshold == 0 || grown == 0 || missing == 0 {
        return u64::MAX;
    }
    u64::try_from(u128::from(missing) * u128::from(elapsed) / u128::from(grown)).unwrap_or(u64::MAX)
}
