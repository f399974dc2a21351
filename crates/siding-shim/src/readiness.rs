//! Determines when a task is ready: when all conditions with which it was started are met.
//!
//! Only tasks that were started with `--wait-for` are checked, and only until they are ready
//! (`docs/adr/0012-ready.md`).

use std::os::fd::BorrowedFd;

use siding_core::store::TaskDir;
use siding_core::sys::clock;
use siding_core::task::readiness::Readiness;
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::process::MonotonicMs;
use siding_model::wait::ReadyRecord;

use crate::journal_writer::OPTIONAL_RECORD_RETRY_MS;
use crate::task_context::TaskContext;

/// The conditions that are checked until a task is ready. Most tasks have none.
#[derive(Debug, Default)]
pub(crate) struct ReadinessProbe(Option<Box<PendingReadiness>>);

#[derive(Debug)]
struct PendingReadiness {
    readiness: Readiness,
    /// Earliest time of the next check, after the journal had no space for the record; `None` if
    /// no record was postponed.
    retry_at: Option<MonotonicMs>,
}

impl ReadinessProbe {
    /// Returns the probe of a task; an empty probe if the task is ready or has no conditions.
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

    /// Returns the descriptors to poll for responses of servers; none in phases in which the task
    /// cannot become ready, because an unread response would wake the shim without end.
    pub(crate) fn sources(&self, state: &TaskState) -> impl Iterator<Item = BorrowedFd<'_>> {
        let waiting = self.0.iter().filter(|_| can_become_ready(state));
        waiting.flat_map(|waiting| waiting.readiness.sources())
    }

    /// Returns the time at which to call [`Self::check`]; `None` if no condition needs a timed
    /// check, or while the task cannot become ready.
    pub(crate) fn wake_at(&self, state: &TaskState) -> Option<MonotonicMs> {
        let waiting = self.0.as_ref().filter(|_| can_become_ready(state))?;
        waiting.retry_at.or_else(|| waiting.readiness.wake_at())
    }

    /// Matches new output against the task's conditions.
    pub(crate) fn scan_output(&mut self, dir: &TaskDir) {
        if let Some(waiting) = &mut self.0 {
            waiting.readiness.scan_output(dir, clock::monotonic_now());
        }
    }

    /// Checks the conditions that are due. Returns the readiness record if all conditions are met;
    /// later calls return it again, until [`Self::stop`]. Returns `None` while a condition is not
    /// met, while the record is postponed, and while the task cannot become ready.
    pub(crate) fn check(
        &mut self,
        context: &TaskContext<'_>,
        now: MonotonicMs,
    ) -> Option<Box<ReadyRecord>> {
        let waiting = self.0.as_mut().filter(|_| can_become_ready(context.state))?;
        if waiting.retry_at.is_some_and(|at| now < at) {
            return None;
        }
        waiting.readiness.check_due(&context.state.spec, now, || context.member_pids());
        waiting.readiness.ready_if_all_met(clock::monotonic_now()).map(Box::new)
    }

    /// Postpones the record, because the journal had no space for it.
    pub(crate) fn postpone(&mut self, now: MonotonicMs) {
        if let Some(waiting) = &mut self.0 {
            waiting.retry_at = Some(now.plus_ms(OPTIONAL_RECORD_RETRY_MS));
        }
    }

    /// Stops checking: the task is ready.
    pub(crate) fn stop(&mut self) {
        self.0 = None;
    }

    /// Checks the output and the files for the last time, once no process of the task is left.
    /// Returns the readiness record if all conditions are met and the task was not being stopped.
    pub(crate) fn check_after_end(
        &mut self,
        dir: &TaskDir,
        state: &TaskState,
        at: MonotonicMs,
    ) -> Option<Box<ReadyRecord>> {
        let mut waiting = self.0.take().filter(|_| can_become_ready(state))?;
        waiting.readiness.check_after_end(dir, &state.spec);
        waiting.readiness.ready_if_all_met(at).map(Box::new)
    }
}

/// Returns whether a task can become ready in its phase. A task that is starting or is being
/// stopped cannot.
const fn can_become_ready(state: &TaskState) -> bool {
    matches!(state.lifecycle.phase(), Phase::Running { .. } | Phase::Lingering { .. })
}
