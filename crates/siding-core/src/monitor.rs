//! A monitor at work: lines found, and told at its rate.
//!
//! The shim that keeps the task feeds what it pumps and writes the records. Who takes over from it
//! goes on behind the last line that is on record, so that no line is missed or told twice.

use std::io;
use std::ops::ControlFlow;

use regex::Regex;
use siding_model::journal::TaskState;
use siding_model::monitor::{LineBatch, LineCoalescer, Monitor};
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

use crate::output::{LineMatch, LineMatcher, MatchHandler};
use crate::store::TaskDir;

/// The lines of one task, on their way to its journal.
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
    /// Begins, after `given` records.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the pattern is no regular expression.
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

    /// Begins where another left off: looks at what is stored behind the last line on record.
    ///
    /// # Errors
    ///
    /// As [`Self::new`], and the operating system's.
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

    /// Looks at bytes of the output that stand at this offset.
    pub fn feed(&mut self, from: u64, bytes: &[u8]) {
        self.0.feed(from, bytes);
    }

    /// Returns when [`Self::next_due_record`] has something.
    #[must_use]
    pub fn wake_at(&mut self) -> Option<MonotonicMs> {
        self.coalescer().wake_at()
    }

    /// Returns the next record that may be written now.
    pub fn next_due_record(&mut self, at: MonotonicMs) -> Option<Record> {
        self.coalescer().next_batch(at).map(|told| monitor_record(at, told))
    }

    /// Returns what is left at the end of the task, the last line without a newline included. It
    /// waits for no rate.
    pub fn flush(&mut self, at: MonotonicMs) -> Vec<Record> {
        self.0.finish();
        let coalescer = self.coalescer();
        let mut batches: Vec<LineBatch> = std::iter::from_fn(|| coalescer.next_batch(at)).collect();
        batches.extend(coalescer.flush());
        batches.into_iter().map(|told| monitor_record(at, told)).collect()
    }

    const fn coalescer(&mut self) -> &mut LineCoalescer {
        &mut self.0.handler().0
    }
}

/// Returns the lines of a task that ended while nobody kept it, where it has a monitor.
#[must_use]
pub fn lines_after_shim_loss(dir: &TaskDir, state: &TaskState, at: MonotonicMs) -> Vec<Record> {
    let Some(monitor) = &state.spec.monitor else { return Vec::new() };
    // Better an end without its last lines than no end.
    LineWatch::resume(monitor, dir, state, at).map_or_else(|_| Vec::new(), |mut all| all.flush(at))
}

fn monitor_record(at: MonotonicMs, told: LineBatch) -> Record {
    let LineBatch { text, lines, dropped_lines: dropped, end_offset: to } = told;
    Record::Matched { at, text, lines, dropped, to }
}
