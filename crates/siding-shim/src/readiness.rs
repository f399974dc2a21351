//! Noticing that a task is ready: what was waited for since its start has come.
//!
//! Only a task that was started with something to wait for is looked at, and only until it is there
//! (`docs/adr/0012-ready.md`).

use std::os::fd::BorrowedFd;

use siding_core::readiness::Readiness;
use siding_core::sys::clock;
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

use crate::task_supervisor::TaskSupervisor;

/// Time until the disk is asked again for room for the record, in milliseconds.
const DISK_RETRY_MS: u64 = 1000;

/// What is looked at until a task is ready; nothing for most tasks.
#[derive(Debug, Default)]
pub(crate) struct ReadinessProbe(Option<Box<PendingReadiness>>);

#[derive(Debug)]
struct PendingReadiness {
    readiness: Readiness,
    /// When the disk is asked again for room, once it had none.
    retry_at: Option<MonotonicMs>,
}

impl ReadinessProbe {
    /// Begins to look, where the task waits for something that has not come yet.
    pub(crate) fn new(state: &TaskState) -> std::io::Result<Self> {
        if !state.is_waiting_for_ready() {
            return Ok(Self::default());
        }
        let now = clock::monotonic_now();
        let readiness = Readiness::new(&state.spec, now)?;
        Ok(Self(
            readiness.map(|readiness| Box::new(PendingReadiness { readiness, retry_at: None })),
        ))
    }

    /// Returns what to poll. Nothing once nobody takes in what it tells.
    pub(crate) fn sources(&self, state: &TaskState) -> impl Iterator<Item = BorrowedFd<'_>> {
        let waiting = self.0.iter().filter(|_| can_become_ready(state));
        waiting.flat_map(|waiting| waiting.readiness.sources())
    }

    /// Returns when to look next.
    pub(crate) fn wake_at(&self, state: &TaskState) -> Option<MonotonicMs> {
        let waiting = self.0.as_ref().filter(|_| can_become_ready(state))?;
        waiting.retry_at.or_else(|| waiting.readiness.wake_at())
    }
}

/// Whether a task in this phase can become ready. Nobody is told so of one that is being ended.
const fn can_become_ready(state: &TaskState) -> bool {
    matches!(state.lifecycle.phase(), Phase::Running { .. } | Phase::Lingering { .. })
}

impl TaskSupervisor {
    /// Notes that there is more output.
    pub(crate) fn feed_readiness(&mut self) {
        if let Some(waiting) = &mut self.readiness_probe.0 {
            waiting.readiness.scan_output(&self.dir, clock::monotonic_now());
        }
    }

    /// Looks whether it is ready, and puts that on record. Returns whether it did.
    pub(crate) fn check_readiness(&mut self, now: MonotonicMs) -> bool {
        let Self { root, state, tree, readiness_probe: ReadinessProbe(Some(waiting)), .. } = self
        else {
            return false;
        };
        if !can_become_ready(state) || waiting.retry_at.is_some_and(|at| now < at) {
            return false;
        }
        waiting.readiness.check_due(&state.spec, now, || tree.member_pids(root, state));
        let Some(ready) = waiting.readiness.ready_if_all_met(clock::monotonic_now()) else {
            return false;
        };
        if !self.journal.has_room() {
            waiting.retry_at = Some(now.plus_ms(DISK_RETRY_MS));
            return false;
        }
        self.readiness_probe = ReadinessProbe::default();
        self.record(vec![Record::Ready(Box::new(ready))]);
        true
    }

    /// Returns the record of a task that became ready with the last it did, for the end.
    pub(crate) fn final_readiness(&mut self, at: MonotonicMs) -> Option<Record> {
        let mut waiting = self.readiness_probe.0.take()?;
        if !can_become_ready(&self.state) || !self.journal.has_room() {
            return None;
        }
        waiting.readiness.check_after_end(&self.dir, &self.state.spec);
        waiting.readiness.ready_if_all_met(at).map(|ready| Record::Ready(Box::new(ready)))
    }
}
