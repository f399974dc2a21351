//! Telling the lines of a monitored task: each becomes a record, at the monitor's rate.

use siding_core::monitor::LineWatch;
use siding_core::store::TaskDir;
use siding_core::sys::clock;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;
use siding_model::spec::TaskSpec;

use crate::keeper::Keeper;

/// Time until lines are told again after there was no room for them on the disk, in milliseconds.
const NO_ROOM_MS: u64 = 1000;

/// The lines on their way to the journal.
#[derive(Debug)]
pub(crate) struct Told {
    lines: LineWatch,
    /// When the disk is asked for room again.
    not_before: MonotonicMs,
}

impl Told {
    /// Begins with a new task, if it has a monitor.
    pub(crate) fn new(spec: &TaskSpec) -> std::io::Result<Option<Box<Self>>> {
        let Some(monitor) = &spec.monitor else { return Ok(None) };
        Ok(Some(Self::over(LineWatch::new(monitor, 0, clock::monotonic_now())?)))
    }

    /// Goes on where a dead shim left off.
    pub(crate) fn resume(dir: &TaskDir, state: &TaskState) -> std::io::Result<Option<Box<Self>>> {
        let Some(monitor) = &state.spec.monitor else { return Ok(None) };
        Ok(Some(Self::over(LineWatch::resume(monitor, dir, state, clock::monotonic_now())?)))
    }

    fn over(lines: LineWatch) -> Box<Self> {
        Box::new(Self { lines, not_before: MonotonicMs(0) })
    }

    /// Looks at output that stands at this offset.
    pub(crate) fn feed(&mut self, from: u64, bytes: &[u8]) {
        self.lines.feed(from, bytes);
    }

    fn wake_at(&mut self) -> Option<MonotonicMs> {
        Some(self.lines.wake_at()?.max(self.not_before))
    }
}

impl Keeper {
    /// Returns when to come back to [`Self::tell_lines`].
    pub(crate) fn lines_at(&mut self) -> Option<MonotonicMs> {
        self.pump.told()?.wake_at()
    }

    /// Records the lines that are due.
    pub(crate) fn tell_lines(&mut self, now: MonotonicMs) {
        while self.lines_at().is_some_and(|at| at <= now) {
            let Some(told) = self.pump.told() else { return };
            if !self.log.has_room() {
                told.not_before = now.plus_ms(NO_ROOM_MS);
                return;
            }
            let Some(record) = told.lines.next_due_record(now) else { return };
            self.record(vec![record]);
        }
    }

    /// Returns the records of the lines that nobody was told of yet, for the end. They wait for no
    /// rate, but the end itself goes first where the disk is full.
    pub(crate) fn last_lines(&mut self, at: MonotonicMs) -> Vec<Record> {
        match self.pump.told() {
            Some(told) if self.log.has_room() => told.lines.flush(at),
            Some(_) | None => Vec::new(),
        }
    }
}
