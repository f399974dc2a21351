//! The meter: what the task uses, and whether that passes a limit.
//!
//! A task without limits is looked at only when the shim is awake anyway, so that an idle one costs
//! nothing; what its processes had used when they ended the kernel tells for free. One with limits
//! is looked at in time. A look lets go of all it needs but the numbers of the last one.

use siding_core::probe::{self, Wanted};
use siding_core::sys::{clock, machine, process};
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::limits::{Breach, Gauges, Ledger, Limits, Pace, Peaks, ProcessUse, Usage};
use siding_model::process::Mono;
use siding_model::text;

use crate::stall::Scene;

/// Time between two looks at what costs more than the rest and is not limited, in milliseconds: the
/// connections, for which the names of all descriptors are read, the number of descriptors, and the
/// kernel's count of kills.
const RARELY_MS: u64 = 60_000;
/// Columns of a process's name in a sentence.
const NAME: usize = 60;

/// The meter and what it has seen.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    gauges: Gauges,
    ledger: Ledger,
    pace: Pace,
    peaks: Peaks,
    /// When such a look was taken.
    rarely_at: Mono,
    /// The kernel's count of kills for want of memory, at the look before the last and at the last:
    /// whoever it ends may take longer to die than there is between two looks.
    oom_kills: [Option<u64>; 2],
}

impl Meter {
    /// Begins with a task that has written so much.
    pub(crate) fn new(state: &TaskState, written: u64, now: Mono) -> Self {
        let limits = state.spec.limits;
        Self {
            limits,
            gauges: Gauges::new(limits, now, written, &state.breaches),
            ledger: Ledger::default(),
            pace: Pace::new(now),
            peaks: Peaks::default(),
            rarely_at: now,
            oom_kills: [machine::oom_kills(); 2],
        }
    }

    /// Returns when to come back to [`Self::look`].
    pub(crate) fn wake_at(&self, state: &TaskState) -> Option<Mono> {
        (!self.limits.is_none() && runs(state)).then(|| self.pace.due())
    }

    /// Looks, when it is time to or the shim is awake anyway. `seen` is what another look has just
    /// found. Returns what is to be put on record.
    pub(crate) fn look(
        &mut self,
        scene: &Scene<'_>,
        seen: Option<Vec<ProcessUse>>,
        now: Mono,
    ) -> Vec<Breach> {
        if !self.pace.may(now) || !runs(scene.state) {
            return Vec::new();
        }
        let began = clock::mono_us();
        let rarely = self.is_rare(now);
        let wanted = self.wanted(now);
        if rarely {
            self.rarely_at = now;
            self.oom_kills = [self.oom_kills[1], machine::oom_kills()];
        }
        let connections = rarely || self.limits.need_connections();
        let processes = seen.unwrap_or_else(|| scene.uses(wanted));
        let usage = self.measure(scene, processes, connections, now);
        let mut moves = false;
        let mut breaches = Vec::new();
        if !self.limits.is_none() {
            let name = |pid| text::one_line(&scene.command(pid), NAME);
            let reading = self.gauges.read(usage, &self.ledger, &name);
            (moves, breaches) = (reading.moves, reading.breaches);
        }
        self.pace.looked(now, clock::mono_us().saturating_sub(began), moves);
        breaches
    }

    /// Looks for somebody who asks how much the task uses.
    pub(crate) fn ask(&mut self, scene: &Scene<'_>) -> Peaks {
        let processes = scene.uses(Wanted { runnable: false, fds: true });
        let _only_the_peaks = self.measure(scene, processes, true, clock::mono());
        Peaks { sent: self.ledger.most(), ..self.peaks.clone() }
    }

    /// Returns the most that was seen, once the task has ended.
    pub(crate) fn total(&self) -> Peaks {
        let ended = process::ended_use();
        // Who took over is not told what strangers had used: then nothing was seen, and not zero.
        let seen = ended.resident_bytes > 0;
        Peaks {
            memory_bytes: self.peaks.memory_bytes.max(seen.then_some(ended.resident_bytes)),
            cpu_ms: self.peaks.cpu_ms.max(seen.then_some(ended.cpu_ms)),
            sent: self.ledger.most(),
            ..self.peaks.clone()
        }
    }

    /// Whether the kernel has lately ended a process of this machine for want of memory.
    pub(crate) fn saw_oom_kill(&self) -> bool {
        matches!((self.oom_kills[0], machine::oom_kills()), (Some(before), Some(now)) if now > before)
    }

    fn measure(
        &mut self,
        scene: &Scene<'_>,
        processes: Vec<ProcessUse>,
        connections: bool,
        now: Mono,
    ) -> Usage {
        let connections =
            connections.then(|| probe::connections(&processes, |one| self.ledger.knows(one)));
        let mut usage = Usage {
            at: now,
            shared_once_bytes: None,
            ended_cpu_ms: process::ended_use().cpu_ms,
            output_bytes: scene.pump.bytes(),
            connections: connections.flatten(),
            processes,
        };
        if self.limits.memory > 0 && usage.resident_bytes() > self.limits.memory {
            usage.shared_once_bytes = Some(probe::shared_once(&usage.processes));
        }
        if let Some(connections) = &usage.connections {
            self.ledger.take(now, connections);
        }
        self.peaks.see(&usage);
        usage
    }

    /// Returns what a look of somebody else has to ask for, to be of use here.
    pub(crate) fn wanted(&self, now: Mono) -> Wanted {
        Wanted {
            runnable: self.limits.cpu_spin_ms > 0,
            fds: !self.limits.is_none() || self.peaks.fds.is_none() || self.is_rare(now),
        }
    }

    /// Whether it is time for what is not looked at each time.
    const fn is_rare(&self, now: Mono) -> bool {
        now.ms_since(self.rarely_at) >= RARELY_MS
    }
}

/// Whether the task is one that may be stopped for what it uses: it has begun, and is not being
/// stopped already.
const fn runs(state: &TaskState) -> bool {
    matches!(state.life.phase(), Phase::Running { .. } | Phase::Lingering { .. })
}
