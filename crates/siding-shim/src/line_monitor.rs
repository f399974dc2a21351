//! The monitor of a task's output: each matching line becomes a record, at a limited rate.

use siding_core::store::TaskDir;
use siding_core::sys::clock;
use siding_core::task::monitor::LineWatch;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;
use siding_model::spec::TaskSpec;

use crate::journal_writer::OPTIONAL_RECORD_RETRY_MS;

/// Collects the matching lines until they are recorded.
#[derive(Debug)]
pub(crate) struct LineMonitor {
    lines: LineWatch,
    /// The time at which the journal is checked again, after it had no space for a record.
    retry_at: MonotonicMs,
}

impl LineMonitor {
    /// Returns the monitor of a new task; `None` if the specification contains none.
    pub(crate) fn new(spec: &TaskSpec) -> std::io::Result<Option<Box<Self>>> {
        let Some(monitor) = &spec.monitor else { return Ok(None) };
        Ok(Some(Self::from_watch(LineWatch::new(monitor, 0, clock::monotonic_now())?)))
    }

    /// Returns the monitor of a task whose shim died; `None` if the specification contains none.
    /// The monitor has already scanned the stored output that follows the last recorded line.
    pub(crate) fn resume(dir: &TaskDir, state: &TaskState) -> std::io::Result<Option<Box<Self>>> {
        let Some(monitor) = &state.spec.monitor else { return Ok(None) };
        Ok(Some(Self::from_watch(LineWatch::resume(monitor, dir, state, clock::monotonic_now())?)))
    }

    fn from_watch(lines: LineWatch) -> Box<Self> {
        Box::new(Self { lines, retry_at: MonotonicMs(0) })
    }

    /// Adds output that begins at offset `from` of the stream.
    pub(crate) fn feed(&mut self, from: u64, bytes: &[u8]) {
        self.lines.feed(from, bytes);
    }

    /// Returns the time at which the next record is due; `None` while no line waits to be recorded.
    pub(crate) fn wake_at(&mut self) -> Option<MonotonicMs> {
        Some(self.lines.wake_at()?.max(self.retry_at))
    }

    /// Returns and removes the next record that is due; `None` if there is none. The journal must
    /// have space for the record.
    pub(crate) fn next_due_record(&mut self, now: MonotonicMs) -> Option<Record> {
        self.lines.next_due_record(now)
    }

    /// Postpones the next record, because the journal had no space for it.
    pub(crate) const fn postpone(&mut self, now: MonotonicMs) {
        self.retry_at = now.plus_ms(OPTIONAL_RECORD_RETRY_MS);
    }

    /// Returns and removes the records of all remaining lines, without regard to the rate.
    pub(crate) fn flush(&mut self, at: MonotonicMs) -> Vec<Record> {
        self.lines.flush(at)
    }
}
