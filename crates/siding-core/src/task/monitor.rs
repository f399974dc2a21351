//! Runs a monitor: finds matching lines of a task's output and returns records of these lines at
//! the allowed rate.
//!
//! The shim passes the output that it pumps to the monitor, and writes the records that the monitor
//! returns. After a takeover the new shim resumes after the last recorded line, so that no line is
//! missed or reported twice.

use std::io;
use std::ops::ControlFlow;

use regex::Regex;
use siding_model::journal::TaskState;
use siding_model::monitor::{LineBatch, LineCoalescer, Monitor};
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

use crate::output::{LineMatch, LineMatcher, MatchHandler};
use crate::store::TaskDir;

/// The progress of one task's monitor.
#[derive(Debug)]
pub struct LineWatch(LineMatcher<CoalescerSink>);

#[derive(Debug)]
struct CoalescerSink(LineCoalescer);

impl MatchHandler for CoalescerSink {
    fn on_match(&mut self, hit: LineMatch<'_>) -> ControlFlow<()> {
        self.0.push_line(hit.text, hit.to);
        ControlFlow::Continue(())
    }
}

impl LineWatch {
    /// Starts a monitor at the beginning of the output. `records_written` is the number of the
    /// monitor's records that the journal already contains.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the pattern is not a valid regular expression.
    pub fn new(monitor: &Monitor, records_written: u32, now: MonotonicMs) -> io::Result<Self> {
        let pattern = match &monitor.pattern {
            Some(pattern) => Some(
                Regex::new(pattern)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
            ),
            None => None,
        };
        Ok(Self(LineMatcher::new(
            pattern,
            CoalescerSink(LineCoalescer::new(monitor, records_written, now)),
        )))
    }

    /// Resumes a monitor after a takeover, and scans the stored output after the last recorded
    /// line.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::new`], and the I/O error of the system call.
    pub fn resume(
        monitor: &Monitor,
        dir: &TaskDir,
        state: &TaskState,
        now: MonotonicMs,
    ) -> io::Result<Self> {
        let mut watch = Self::new(monitor, state.matched.records, now)?;
        watch.0.read_from(dir, state.matched.end_offset)?;
        Ok(watch)
    }

    /// Scans output bytes; `from` is the offset of the first byte in the output.
    pub fn feed(&mut self, from: u64, bytes: &[u8]) {
        self.0.feed(from, bytes);
    }

    /// Returns the time at which [`Self::next_due_record`] will return a record; `None` if there is
    /// no unrecorded line.
    #[must_use]
    pub fn wake_at(&mut self) -> Option<MonotonicMs> {
        self.coalescer().wake_at()
    }

    /// Returns the next record if the rate allows one now.
    pub fn next_due_record(&mut self, at: MonotonicMs) -> Option<Record> {
        self.coalescer().next_batch(at).map(|batch| monitor_record(at, batch))
    }

    /// Returns the remaining records at the end of the task, regardless of the rate. A last line
    /// without a newline is included.
    pub fn flush(&mut self, at: MonotonicMs) -> Vec<Record> {
        self.0.finish();
        let coalescer = self.coalescer();
        let mut batches: Vec<LineBatch> = std::iter::from_fn(|| coalescer.next_batch(at)).collect();
        batches.extend(coalescer.flush());
        batches.into_iter().map(|batch| monitor_record(at, batch)).collect()
    }

    const fn coalescer(&mut self) -> &mut LineCoalescer {
        &mut self.0.handler().0
    }
}

/// Returns the monitor records that are missing from the journal of a task that ended
/// without a shim.
#[must_use]
pub fn lines_after_shim_loss(dir: &TaskDir, state: &TaskState, at: MonotonicMs) -> Vec<Record> {
    let Some(monitor) = &state.spec.monitor else { return Vec::new() };
    // An unreadable output must not prevent recording the end.
    LineWatch::resume(monitor, dir, state, at).map_or_else(|_| Vec::new(), |mut all| all.flush(at))
}

fn monitor_record(at: MonotonicMs, batch: LineBatch) -> Record {
    let LineBatch { text, lines, dropped_lines: dropped, end_offset: to } = batch;
    Record::Matched { at, text, lines, dropped, to }
}
