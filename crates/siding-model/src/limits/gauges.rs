//! From looks to breaches.

use super::asked::{Limits, OnLimit};
use super::breach::{Breach, Part};
use super::episodes::{BACK_PERCENT, Episodes, share};
use super::ledger::Ledger;
use super::machine::Shortage;
use super::pace::QUICK_MS;
use super::usage::{ProcessUse, Usage};
use crate::outcome::Limit;
use crate::process::Mono;

/// From how much of a core on a task computes, in percent.
const SPIN_PERCENT: u64 = 90;
/// Seconds of output at the limit's rate that may come at once.
const BURST_S: u64 = 10;

/// What is measured against the limits of one task, over a row of looks.
#[derive(Debug, Clone)]
pub struct Gauges {
    limits: Limits,
    before: Usage,
    /// Since when it computes without output.
    spins_since: Option<Mono>,
    /// Output above the rate, in bytes.
    bucket: u64,
    episodes: Episodes,
    shortage: Shortage,
}

/// What one look came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Limits that are passed now and were not before.
    pub breaches: Vec<Breach>,
    /// Whether the next look should come soon: something works, grows, or is near its limit.
    pub moves: bool,
}

/// One value that is held against its limit.
#[derive(Debug)]
struct Gauge {
    value: u64,
    remote: Option<String>,
    part: Option<Part>,
}

impl Gauge {
    const fn of(value: u64) -> Self {
        Self { value, remote: None, part: None }
    }
}

impl Gauges {
    /// Begins with a task that has written so much. `told` is what is on record already.
    ///
    /// A task that is to stop at its limit and runs although it has passed one lost its shim between
    /// the two records: then the limit is news again.
    #[must_use]
    pub fn new(limits: Limits, now: Mono, written: u64, told: &[Breach]) -> Self {
        let told = if limits.on_limit == OnLimit::Stop { &[] } else { told };
        let own = told.iter().filter(|breach| !breach.watchdog && !breach.is_of_machine());
        Self {
            limits,
            before: Usage { at: now, output_bytes: written, ..Usage::default() },
            spins_since: None,
            bucket: 0,
            episodes: Episodes::new(own, |which| which == Limit::Sent),
            shortage: Shortage::new(told),
        }
    }

    /// Takes in one look; the ledger has it already. `name` names a process.
    pub fn read(&mut self, usage: Usage, ledger: &Ledger, name: &dyn Fn(i32) -> String) -> Reading {
        let mut reading = Reading { breaches: Vec::new(), moves: self.moved(&usage) };
        self.measure_time(&usage);
        for which in Limit::ALL {
            let Some(limit) = self.limits.of(which) else { continue };
            let gauges = if which == Limit::Sent {
                self.sent(&usage, ledger, limit)
            } else {
                vec![self.gauge(which, &usage, ledger, limit)]
            };
            for mut gauge in gauges {
                reading.moves |= gauge.value >= share(limit, BACK_PERCENT);
                if !self.is_news(which, &gauge, limit) {
                    continue;
                }
                if let Some(part) = &mut gauge.part {
                    part.command = name(part.pid);
                }
                let Gauge { value, remote, part } = gauge;
                let numbers = (value, limit);
                reading.breaches.push(Breach::new(usage.at, which, numbers, remote, part.as_ref()));
            }
        }
        let (shortage, moves) = self.shortage.read(&self.limits, &usage, name);
        reading.breaches.extend(shortage);
        reading.moves |= moves;
        self.before = Usage { connections: None, ..usage };
        reading
    }

    /// Whether anything worked or grew since the look before.
    fn moved(&self, usage: &Usage) -> bool {
        let elapsed = usage.at.ms_since(self.before.at);
        let cpu = usage.cpu_ms().saturating_sub(self.before.cpu_ms());
        // A clock tick now and then is no work.
        cpu > share(elapsed, 2).max(10)
            || usage.output_bytes != self.before.output_bytes
            || usage.count() > self.before.count()
            || usage.fds() > self.before.fds()
            || usage.resident_bytes() > self.before.resident_bytes()
    }

    /// Goes on with what is measured over time.
    fn measure_time(&mut self, usage: &Usage) {
        let elapsed = usage.at.ms_since(self.before.at);
        let written = usage.output_bytes.saturating_sub(self.before.output_bytes);
        let computes = self.computed_ms(usage) >= share(elapsed, SPIN_PERCENT).max(1);
        // When it began within a long time nobody saw: all cores together may have used it up since.
        let began = if elapsed <= 2 * QUICK_MS { self.before.at } else { usage.at };
        self.spins_since =
            if written == 0 && computes { self.spins_since.or(Some(began)) } else { None };
        let allowed = self.limits.output_rate.saturating_mul(elapsed) / 1_000;
        let full = self.limits.output_rate.saturating_mul(BURST_S);
        // Twice full at most, so that it is empty again soon after a flood.
        self.bucket =
            self.bucket.saturating_add(written).saturating_sub(allowed).min(full.saturating_mul(2));
    }

    /// Returns for how long the task computed since the look before, in milliseconds: the CPU time
    /// of the tree, or the time for which one of its processes would have, had it not had to wait
    /// for a processor. A busy loop on a busy machine is one all the same.
    fn computed_ms(&self, usage: &Usage) -> u64 {
        let used = usage.cpu_ms().saturating_sub(self.before.cpu_ms());
        let wanted = usage.processes.iter().map(|one| {
            self.known(one).map_or(0, |before| one.runnable_ms.saturating_sub(before.runnable_ms))
        });
        wanted.fold(used, u64::max)
    }

    fn known(&self, one: &ProcessUse) -> Option<&ProcessUse> {
        self.before.processes.iter().find(|before| before.process == one.process)
    }

    /// Returns the value that is held against a limit, and who is most behind it.
    fn gauge(&self, which: Limit, usage: &Usage, ledger: &Ledger, limit: u64) -> Gauge {
        let most = |of: &dyn Fn(&ProcessUse) -> u64| {
            let most = usage.processes.iter().max_by_key(|one| of(one))?;
            let pid = most.process.pid;
            Some(Part { share: Some(of(most)), pid, command: String::new() })
        };
        match which {
            Limit::Memory => Gauge {
                value: usage.memory_bytes(),
                remote: None,
                part: most(&|one| one.resident_bytes.min(usage.memory_bytes())),
            },
            Limit::Fds => Gauge { part: most(&|one| one.fds), ..Gauge::of(usage.fds()) },
            Limit::Processes => Gauge::of(usage.count()),
            Limit::CpuSpin => {
                let used = |one: &ProcessUse| {
                    let before = self.known(one).map_or(0, |before| before.cpu_ms);
                    one.cpu_ms.saturating_sub(before)
                };
                let part = most(&used).map(|part| Part { share: None, ..part });
                let value = self.spins_since.map_or(0, |since| usage.at.ms_since(since));
                Gauge { part, ..Gauge::of(value) }
            }
            Limit::ConnectionAge => oldest(usage, ledger),
            // Above the rate for as long as the bucket is too full; the number is that of now.
            Limit::OutputRate if self.bucket > limit.saturating_mul(BURST_S) => {
                let elapsed = usage.at.ms_since(self.before.at).max(1);
                let written = usage.output_bytes.saturating_sub(self.before.output_bytes);
                Gauge::of((written.saturating_mul(1_000) / elapsed).max(limit + 1))
            }
            Limit::OutputRate => Gauge::of(self.bucket / BURST_S),
            Limit::Sent => Gauge::of(0),
        }
    }

    /// Returns what went to each remote that got more than the limit, or nearly.
    fn sent(&self, usage: &Usage, ledger: &Ledger, limit: u64) -> Vec<Gauge> {
        let near = ledger.sent().filter(|(_, bytes)| *bytes >= share(limit, BACK_PERCENT));
        near.map(|(remote, value)| {
            let open = usage.connections.iter().flatten().find(|one| one.remote == remote);
            let part = open.filter(|one| one.pid > 0).map(|one| Part {
                share: None,
                pid: one.pid,
                command: String::new(),
            });
            Gauge { value, remote: Some(remote.to_owned()), part }
        })
        .collect()
    }

    /// Whether a limit is passed that was not before, and notes it.
    fn is_news(&mut self, which: Limit, gauge: &Gauge, limit: u64) -> bool {
        match &gauge.remote {
            Some(remote) if which == Limit::Sent => {
                self.episodes.is_new_remote(which, remote, gauge.value, limit)
            }
            Some(_) | None => self.episodes.is_news(which, gauge.value, limit),
        }
    }
}

/// Returns the age of the oldest connection that somebody holds.
fn oldest(usage: &Usage, ledger: &Ledger) -> Gauge {
    let held = usage.connections.iter().flatten().filter(|one| one.pid > 0);
    let oldest = held.max_by_key(|one| ledger.age_ms(one.cookie, usage.at));
    oldest.map_or(Gauge::of(0), |one| Gauge {
        value: ledger.age_ms(one.cookie, usage.at),
        remote: Some(one.remote.clone()),
        part: Some(Part { share: None, pid: one.pid, command: String::new() }),
    })
}
