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

use crate::output::{Hit, Hits, Matching};
use crate::store::TaskDir;

/// The lines of one task, on their way to its journal.
#[derive(Debug)]
pub struct LineWatch(Matching<Taker>);

#[derive(Debug)]
struct Taker(LineCoalescer);

impl Hits for Taker {
    fn hit(&mut self, hit: Hit<'_>) -> ControlFlow<()> {
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
    pub fn new(monitor: &Monitor, given: u32, now: MonotonicMs) -> io::Result<Self> {
        let pattern = match &monitor.pattern {
            Some(pattern) => Some(
                Regex::new(pattern)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
            ),
            None => None,
        };
        Ok(Self(Matching::new(pattern, Taker(LineCoalescer::new(monitor, given, now)))))
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
        watch.0.read(dir, state.matched.end_offset)?;
        Ok(watch)
    }

    /// Looks at bytes of the output that stand at this offset.
    pub fn feed(&mut self, from: u64, bytes: &[u8]) {
        self.0.feed(from, bytes);
    }

    /// Returns when [`Self::due`] has something.
    #[must_use]
    pub fn wake_at(&mut self) -> Option<MonotonicMs> {
        self.coalescer().wake_at()
    }

    /// Returns the next record that may be written now.
    pub fn due(&mut self, at: MonotonicMs) -> Option<Record> {
        self.coalescer().next_batch(at).map(|told| record(at, told))
    }

    /// Returns what is left at the end of the task, the last line without a newline included. It
    /// waits for no rate.
    pub fn rest(&mut self, at: MonotonicMs) -> Vec<Record> {
        self.0.end();
        let coalescer = self.coalescer();
        let mut told: Vec<LineBatch> = std::iter::from_fn(|| coalescer.next_batch(at)).collect();
        told.extend(coalescer.flush());
        told.into_iter().map(|told| record(at, told)).collect()
    }

    const fn coalescer(&mut self) -> &mut LineCoalescer {
        &mut self.0.hits().0
    }
}

/// Returns the lines of a task that ended while nobody kept it, where it has a monitor.
#[must_use]
pub fn last_lines(dir: &TaskDir, state: &TaskState, at: MonotonicMs) -> Vec<Record> {
    let Some(monitor) = &state.spec.monitor else { return Vec::new() };
    // Better an end without its last lines than no end.
    LineWatch::resume(monitor, dir, state, at).map_or_else(|_| Vec::new(), |mut all| all.rest(at))
}

fn record(at: MonotonicMs, told: LineBatch) -> Record {
    let LineBatch { text, lines, dropped_lines: dropped, end_offset: to } = told;
    Record::Matched { at, text, lines, dropped, to }
}
