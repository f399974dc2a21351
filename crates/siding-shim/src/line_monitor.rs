//! Telling the lines of a monitored task: each becomes a record, at the monitor's rate.

use siding_core::monitor::LineWatch;
use siding_core::store::TaskDir;
use siding_core::sys::clock;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;
use siding_model::spec::TaskSpec;

use crate::task_supervisor::TaskSupervisor;

/// Time until lines are told again after there was no room for them on the disk, in milliseconds.
const DISK_RETRY_MS: u64 = 1000;

/// The lines on their way to the journal.
#[derive(Debug)]
pub(crate) struct LineMonitor {
    lines: LineWatch,
    /// When the disk is asked for room again.
    retry_at: MonotonicMs,
}

impl LineMonitor {
    /// Begins with a new task, if it has a monitor.
    pub(crate) fn new(spec: &TaskSpec) -> std::io::Result<Option<Box<Self>>> {
        let Some(monitor) = &spec.monitor else { return Ok(None) };
        Ok(Some(Self::from_watch(LineWatch::new(monitor, 0, clock::monotonic_now())?)))
    }

    /// Goes on where a dead shim left off.
    pub(crate) fn resume(dir: &TaskDir, state: &TaskState) -> std::io::Result<Option<Box<Self>>> {
        let Some(monitor) = &state.spec.monitor else { return Ok(None) };
        Ok(Some(Self::from_watch(LineWatch::resume(monitor, dir, state, clock::monotonic_now())?)))
    }

    fn from_watch(lines: LineWatch) -> Box<Self> {
        Box::new(Self { lines, retry_at: MonotonicMs(0) })
    }

    /// Looks at output that stands at this offset.
    pub(crate) fn feed(&mut self, from: u64, bytes: &[u8]) {
        self.lines.feed(from, bytes);
    }

    fn wake_at(&mut self) -> Option<MonotonicMs> {
        Some(self.lines.wake_at()?.max(self.retry_at))
    }
}

impl TaskSupervisor {
    /// Returns when to come back to [`Self::record_due_lines`].
    pub(crate) fn next_line_at(&mut self) -> Option<MonotonicMs> {
        self.pump.line_monitor()?.wake_at()
    }

    /// Records the lines that are due.
    pub(crate) fn record_due_lines(&mut self, now: MonotonicMs) {
        while self.next_line_at().is_some_and(|at| at <= now) {
            let Some(monitor) = self.pump.line_monitor() else { return };
            if !self.journal.has_room() {
                monitor.retry_at = now.plus_ms(DISK_RETRY_MS);
                return;
            }
            let Some(record) = monitor.lines.next_due_record(now) else { return };
            self.record(vec![record]);
        }
    }

    /// Returns the records of the lines that nobody was told of yet, for the end. They wait for no
    /// rate, but the end itself goes first where the disk is full.
    pub(crate) fn take_remaining_lines(&mut self, at: MonotonicMs) -> Vec<Record> {
        match self.pump.line_monitor() {
            Some(monitor) if self.journal.has_room() => monitor.lines.flush(at),
            Some(_) | None => Vec::new(),
        }
    }
}
