//! Rate limiting for the records of a task's selected output lines.
//!
//! By default, a token bucket allows [`Monitor::BURST_RECORDS`] records in a burst, then one record
//! every [`Monitor::RECORD_INTERVAL_MS`] milliseconds. Lines that arrive while the bucket is empty
//! are reported together in the next record, with their number and the text of the last lines that
//! fit. Only text is dropped; the numbers are complete.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::process::MonotonicMs;
use crate::text::cut_head;

/// Selects the lines of a task that are reported, and limits their rate. A monitor is part of a
/// task's specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Monitor {
    /// Regular expression for the reported lines; `None` reports every line that is not blank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Records that may be written in a burst.
    pub burst: u32,
    /// Interval after which one more record may be written, in milliseconds.
    pub every_ms: u64,
}

impl Monitor {
    /// Default number of records in a burst.
    pub const BURST_RECORDS: u32 = 5;
    /// Default interval between two records, in milliseconds.
    pub const RECORD_INTERVAL_MS: u64 = 1000;
    /// Maximum length of a record's text, in bytes.
    pub const MAX_TEXT_BYTES: usize = 512;
    /// Number of records after which the interval is multiplied by `SLOW_DOWN_FACTOR`, so that the
    /// journal of a task with a long lifetime stays small. At one record per second the number is
    /// reached after four hours, the built-in cap of a task's lifetime.
    pub const SLOW_DOWN_AFTER_RECORDS: u32 = 14_400;
    /// Factor by which the interval is multiplied after `SLOW_DOWN_AFTER_RECORDS`.
    const SLOW_DOWN_FACTOR: u64 = 60;

    /// Returns a monitor with the default rate.
    #[must_use]
    pub const fn new(pattern: Option<String>) -> Self {
        Self { pattern, burst: Self::BURST_RECORDS, every_ms: Self::RECORD_INTERVAL_MS }
    }
}

/// The lines that one record reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineBatch {
    /// The text of the last of these lines, at most [`Monitor::MAX_TEXT_BYTES`], without the final
    /// newline.
    pub text: String,
    /// Number of lines that the record represents.
    pub lines: u64,
    /// Number of lines whose text was dropped; they precede the lines in `text`.
    pub dropped_lines: u64,
    /// Stream offset after the last of the lines.
    pub end_offset: u64,
}

/// Groups lines into records at the rate of a [`Monitor`]. The length of the text that waits for a
/// record is bounded.
#[derive(Debug)]
pub struct LineCoalescer {
    burst: u32,
    every_ms: u64,
    tokens: u32,
    /// Time from which the interval until the next token is counted.
    refilled_at: MonotonicMs,
    /// Number of records so far, including those that earlier shims wrote.
    records_written: u32,
    pending: VecDeque<(String, u64)>,
    pending_bytes: usize,
    /// Number of held lines whose text was dropped.
    dropped_lines: u64,
}

impl LineCoalescer {
    /// Starts at `now` with a full bucket. `records_written` counts the records that the journal
    /// already holds.
    #[must_use]
    pub fn new(monitor: &Monitor, records_written: u32, now: MonotonicMs) -> Self {
        let burst = monitor.burst.max(1);
        Self {
            burst,
            every_ms: monitor.every_ms.max(1),
            tokens: burst,
            refilled_at: now,
            records_written,
            pending: VecDeque::new(),
            pending_bytes: 0,
            dropped_lines: 0,
        }
    }

    /// Adds a line without its newline. `to` is the stream offset after the line.
    pub fn push_line(&mut self, text: &str, to: u64) {
        let cut = cut_head(text, Monitor::MAX_TEXT_BYTES);
        self.pending_bytes += cut.len() + 1;
        self.pending.push_back((cut.to_owned(), to));
        // More lines than the records of a burst are reported in one record. Text that will not fit
        // into this record is dropped now.
        while self.pending.len() > self.burst as usize
            && self.pending_bytes > Monitor::MAX_TEXT_BYTES
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((text, _)) = self.pending.pop_front() {
            self.pending_bytes -= text.len() + 1;
            self.dropped_lines += 1;
        }
    }

    /// Returns the next batch that may be reported now. The caller repeats the call until the
    /// result is `None`.
    pub fn next_batch(&mut self, now: MonotonicMs) -> Option<LineBatch> {
        self.refill(now);
        if self.pending.is_empty() || self.tokens == 0 {
            return None;
        }
        // Each line gets its own record while tokens remain. The last token covers all remaining
        // lines, and so does any token after lines have been dropped.
        let alone = self.dropped_lines == 0 && (self.tokens > 1 || self.pending.len() == 1);
        self.tokens -= 1;
        if alone { self.take_first() } else { self.flush() }
    }

    fn take_first(&mut self) -> Option<LineBatch> {
        let (text, to) = self.pending.pop_front()?;
        self.pending_bytes -= text.len() + 1;
        self.records_written = self.records_written.saturating_add(1);
        Some(LineBatch { text, lines: 1, dropped_lines: 0, end_offset: to })
    }

    /// Returns all held lines as one batch regardless of the rate, or `None` if no line is held.
    /// Other modules call this function only when a task ends.
    pub fn flush(&mut self) -> Option<LineBatch> {
        let (_, to) = self.pending.back()?;
        let to = *to;
        let lines = self.dropped_lines + self.pending.len() as u64;
        while self.pending_bytes > Monitor::MAX_TEXT_BYTES + 1 && self.pending.len() > 1 {
            self.drop_oldest();
        }
        let dropped = std::mem::take(&mut self.dropped_lines);
        let texts: Vec<String> = self.pending.drain(..).map(|(text, _)| text).collect();
        self.pending_bytes = 0;
        self.records_written = self.records_written.saturating_add(1);
        Some(LineBatch { text: texts.join("\n"), lines, dropped_lines: dropped, end_offset: to })
    }

    /// Returns the time at which the next batch is due, or `None` while no line is held.
    #[must_use]
    pub fn wake_at(&self) -> Option<MonotonicMs> {
        if self.pending.is_empty() {
            return None;
        }
        Some(if self.tokens > 0 {
            self.refilled_at
        } else {
            self.refilled_at.plus_ms(self.interval_ms())
        })
    }

    const fn interval_ms(&self) -> u64 {
        if self.records_written < Monitor::SLOW_DOWN_AFTER_RECORDS {
            self.every_ms
        } else {
            self.every_ms.saturating_mul(Monitor::SLOW_DOWN_FACTOR)
        }
    }

    fn refill(&mut self, now: MonotonicMs) {
        let every = self.interval_ms();
        let grown = now.ms_since(self.refilled_at) / every;
        let room = u64::from(self.burst - self.tokens);
        if grown >= room {
            self.tokens = self.burst;
            self.refilled_at = now;
        } else {
            self.tokens += u32::try_from(grown).unwrap_or(0);
            self.refilled_at = self.refilled_at.plus_ms(grown * every);
        }
    }
}
