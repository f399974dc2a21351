//! The evaluation of samples against the limits of a task.

use super::backoff::ACTIVE_INTERVAL_MS;
use super::breach::{Breach, BreachSource};
use super::connections::ConnectionLog;
use super::episodes::{Episodes, RECOVERY_PERCENT, percent_of};
use super::memory_pressure::MemoryPressure;
use super::spec::{Limits, OnLimit};
use super::usage::{ProcessUsage, Usage, index_processes};
use crate::outcome::LimitKind;
use crate::process::MonotonicMs;

/// Share of a core at and above which a task is computing, in percent.
const SPIN_PERCENT: u64 = 90;
/// Burst of output that the rate limit allows, as seconds of output at the allowed rate.
const OUTPUT_BURST_SECONDS: u64 = 10;

/// Evaluates a series of samples of one task against the task's limits.
#[derive(Debug, Clone)]
pub struct LimitTracker {
    limits: Limits,
    previous: Usage,
    /// Time since which the task computes without output.
    spinning_since: Option<MonotonicMs>,
    /// Output in excess of the allowed rate, in bytes: a leaky bucket.
    output_bucket: u64,
    episodes: Episodes,
    memory_pressure: MemoryPressure,
}

/// The result of evaluating one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReading {
    /// The breaches to record: one for each limit that this sample newly exceeds, and for the limit
    /// on sent bytes one for each remote.
    pub breaches: Vec<Breach>,
    /// Whether the next sample should be taken soon, because the task works, grows, or is close to
    /// a limit.
    pub is_active: bool,
}

/// A measured value that is compared with its limit.
#[derive(Debug)]
struct Measurement {
    value: u64,
    remote: Option<String>,
    source: Option<BreachSource>,
}

impl Measurement {
    const fn from_value(value: u64) -> Self {
        Self { value, remote: None, source: None }
    }
}

impl LimitTracker {
    /// Starts the evaluation for a task that has already written `written` bytes of output.
    /// `recorded` are the breaches in the task's journal.
    ///
    /// If a task that stops at its limits is still running after a recorded breach of a limit, its
    /// shim died between the record of the breach and the record of the stop. The recorded breaches
    /// of such a task are ignored: the limit is reported again, and the task is stopped.
    #[must_use]
    pub fn new(limits: Limits, now: MonotonicMs, written: u64, recorded: &[Breach]) -> Self {
        let recorded = if limits.on_limit == OnLimit::Stop { &[] } else { recorded };
        let own = recorded.iter().filter(|breach| !breach.watchdog && !breach.is_low_memory());
        Self {
            limits,
            previous: Usage { at: now, output_bytes: written, ..Usage::default() },
            spinning_since: None,
            output_bucket: 0,
            episodes: Episodes::new(own, |limit_kind| limit_kind == LimitKind::Sent),
            memory_pressure: MemoryPressure::new(recorded),
        }
    }

    /// Compares one sample with the limits. `ledger` must already contain the sample's connections;
    /// `name` returns the name of a process.
    pub fn record_usage(
        &mut self,
        usage: Usage,
        ledger: &ConnectionLog,
        name: &dyn Fn(i32) -> String,
    ) -> LimitReading {
        let mut reading =
            LimitReading { breaches: Vec::new(), is_active: self.has_activity(&usage) };
        self.update_rates(&usage);
        for limit_kind in LimitKind::ALL {
            let Some(limit) = self.limits.get(limit_kind) else { continue };
            let gauges = if limit_kind == LimitKind::Sent {
                self.measure_sent(&usage, ledger, limit)
            } else {
                vec![self.measure(limit_kind, &usage, ledger, limit)]
            };
            for mut gauge in gauges {
                reading.is_active |= gauge.value >= percent_of(limit, RECOVERY_PERCENT);
                if !self.is_newly_exceeded(limit_kind, &gauge, limit) {
                    continue;
                }
                if let Some(part) = &mut gauge.source {
                    part.command = name(part.pid);
                }
                let Measurement { value, remote, source: part } = gauge;
                let numbers = (value, limit);
                reading.breaches.push(Breach::new(
                    usage.at,
                    limit_kind,
                    numbers,
                    remote,
                    part.as_ref(),
                ));
            }
        }
        let (shortage, moves) = self.memory_pressure.record_usage(&self.limits, &usage, name);
        reading.breaches.extend(shortage);
        reading.is_active |= moves;
        self.previous = Usage { connections: None, ..usage };
        reading
    }

    /// Returns whether the task used processor time or grew since the previous sample.
    fn has_activity(&self, usage: &Usage) -> bool {
        let elapsed = usage.at.ms_since(self.previous.at);
        let cpu = usage.cpu_ms().saturating_sub(self.previous.cpu_ms());
        // The kernel occasionally charges a clock tick to an idle process.
        cpu > percent_of(elapsed, 2).max(10)
            || usage.output_bytes != self.previous.output_bytes
            || usage.process_count() > self.previous.process_count()
            || usage.fds() > self.previous.fds()
            || usage.resident_bytes() > self.previous.resident_bytes()
    }

    /// Updates the measurements that depend on several samples: the busy loop and the output rate.
    fn update_rates(&mut self, usage: &Usage) {
        let elapsed = usage.at.ms_since(self.previous.at);
        let written = usage.output_bytes.saturating_sub(self.previous.output_bytes);
        let computes = self.compute_time_ms(usage) >= percent_of(elapsed, SPIN_PERCENT).max(1);
        // After a long gap the start of the busy time is unknown, because several cores may have
        // used the whole processor time just before the sample. The busy time then counts from this
        // sample.
        let began = if elapsed <= 2 * ACTIVE_INTERVAL_MS { self.previous.at } else { usage.at };
        self.spinning_since =
            if written == 0 && computes { self.spinning_since.or(Some(began)) } else { None };
        let allowed = self.limits.output_rate.saturating_mul(elapsed) / 1_000;
        let full = self.limits.output_rate.saturating_mul(OUTPUT_BURST_SECONDS);
        // The bucket holds at most twice the allowed burst, so that it drains soon after a large
        // burst.
        self.output_bucket = self
            .output_bucket
            .saturating_add(written)
            .saturating_sub(allowed)
            .min(full.saturating_mul(2));
    }

    /// Returns for how long the task computed since the previous sample, in milliseconds: the CPU
    /// time of the tree, or, if larger, the longest time for which one process was runnable. The
    /// runnable time detects a busy loop on a busy machine, where the loop waits for a processor.
    fn compute_time_ms(&self, usage: &Usage) -> u64 {
        let used = usage.cpu_ms().saturating_sub(self.previous.cpu_ms());
        let previous = index_processes(&self.previous.processes);
        let wanted = usage.processes.iter().map(|one| {
            let before = previous.get(&one.process);
            before.map_or(0, |before| one.runnable_ms.saturating_sub(before.runnable_ms))
        });
        wanted.fold(used, u64::max)
    }

    /// Returns the value to compare with a limit, and the process that contributes most, if such a
    /// process is known. [`Self::measure_sent`] measures [`LimitKind::Sent`].
    fn measure(
        &self,
        limit_kind: LimitKind,
        usage: &Usage,
        ledger: &ConnectionLog,
        limit: u64,
    ) -> Measurement {
        let most = |of: &dyn Fn(&ProcessUsage) -> u64| {
            let most = usage.processes.iter().max_by_key(|one| of(one))?;
            let pid = most.process.pid;
            Some(BreachSource { share: Some(of(most)), pid, command: String::new() })
        };
        match limit_kind {
            LimitKind::Memory => Measurement {
                value: usage.memory_bytes(),
                remote: None,
                source: most(&|one| one.resident_bytes.min(usage.memory_bytes())),
            },
            LimitKind::Fds => {
                Measurement { source: most(&|one| one.fds), ..Measurement::from_value(usage.fds()) }
            }
            LimitKind::Processes => Measurement::from_value(usage.process_count()),
            LimitKind::CpuSpin => {
                let previous = index_processes(&self.previous.processes);
                let used = |one: &ProcessUsage| {
                    let before = previous.get(&one.process).map_or(0, |before| before.cpu_ms);
                    one.cpu_ms.saturating_sub(before)
                };
                let part = most(&used).map(|part| BreachSource { share: None, ..part });
                let value = self.spinning_since.map_or(0, |since| usage.at.ms_since(since));
                Measurement { source: part, ..Measurement::from_value(value) }
            }
            LimitKind::ConnectionAge => oldest_connection(usage, ledger),
            // The limit is exceeded while the bucket is above its burst size. The reported value is
            // the current rate. This rate may already be below the limit; the value is then one
            // above the limit.
            LimitKind::OutputRate
                if self.output_bucket > limit.saturating_mul(OUTPUT_BURST_SECONDS) =>
            {
                let elapsed = usage.at.ms_since(self.previous.at).max(1);
                let written = usage.output_bytes.saturating_sub(self.previous.output_bytes);
                Measurement::from_value((written.saturating_mul(1_000) / elapsed).max(limit + 1))
            }
            LimitKind::OutputRate => {
                Measurement::from_value(self.output_bucket / OUTPUT_BURST_SECONDS)
            }
            LimitKind::Sent => Measurement::from_value(0),
        }
    }

    /// Returns the bytes sent to each remote that is above or close to the limit.
    fn measure_sent(&self, usage: &Usage, ledger: &ConnectionLog, limit: u64) -> Vec<Measurement> {
        let near = ledger
            .sent_by_remote()
            .filter(|(_, bytes)| *bytes >= percent_of(limit, RECOVERY_PERCENT));
        near.map(|(remote, value)| {
            let open = usage.connections.iter().flatten().find(|one| one.remote == remote);
            let part = open.filter(|one| one.pid > 0).map(|one| BreachSource {
                share: None,
                pid: one.pid,
                command: String::new(),
            });
            Measurement { value, remote: Some(remote.to_owned()), source: part }
        })
        .collect()
    }

    /// Returns whether a measurement newly exceeds its limit. If so, remembers this breach.
    fn is_newly_exceeded(
        &mut self,
        limit_kind: LimitKind,
        gauge: &Measurement,
        limit: u64,
    ) -> bool {
        match &gauge.remote {
            Some(remote) if limit_kind == LimitKind::Sent => {
                self.episodes.is_newly_exceeded_by_remote(limit_kind, remote, gauge.value, limit)
            }
            Some(_) | None => self.episodes.is_newly_exceeded(limit_kind, gauge.value, limit),
        }
    }
}

/// Returns the age of the oldest connection that a process holds; 0 without a connection.
fn oldest_connection(usage: &Usage, ledger: &ConnectionLog) -> Measurement {
    let held = usage.connections.iter().flatten().filter(|one| one.pid > 0);
    let oldest = held.max_by_key(|one| ledger.age_ms(one.cookie, usage.at));
    oldest.map_or(Measurement::from_value(0), |one| Measurement {
        value: ledger.age_ms(one.cookie, usage.at),
        remote: Some(one.remote.clone()),
        source: Some(BreachSource { share: None, pid: one.pid, command: String::new() }),
    })
}
