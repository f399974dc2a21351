//! Telling the lines of a task as they come, and not too many of them.
//!
//! A token bucket: [`Monitor::BURST_RECORDS`] records at once, then one every [`Monitor::RECORD_INTERVAL_MS`]. Lines
//! for which there is no token are held and told together with the next one, counted; of their
//! text the last lines stay. Nothing is ever forgotten but text.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::process::MonotonicMs;
use crate::text::cut_head;

/// Which lines are told, and how often. Part of a task's specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Monitor {
    /// Regular expression of the lines that are told; `None` for every line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Records that may be written at once.
    pub burst: u32,
    /// Time after which one more may be written, in milliseconds.
    pub every_ms: u64,
}

impl Monitor {
    /// Records at once, unless asked otherwise.
    pub const BURST_RECORDS: u32 = 5;
    /// Milliseconds for one more.
    pub const RECORD_INTERVAL_MS: u64 = 1000;
    /// Bytes of text in one record.
    pub const MAX_TEXT_BYTES: usize = 512;
    /// Records after which one a second becomes one a minute: four hours, the built-in cap of a
    /// task's life, come before it. It keeps a journal readable whatever the cap is.
    pub const SLOW_DOWN_AFTER_RECORDS: u32 = 14_400;
    /// How many times longer the time between two records is after that.
    const SLOW_DOWN_FACTOR: u64 = 60;

    /// Returns the usual monitor.
    #[must_use]
    pub const fn new(pattern: Option<String>) -> Self {
        Self { pattern, burst: Self::BURST_RECORDS, every_ms: Self::RECORD_INTERVAL_MS }
    }
}

/// Lines that are to be told together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineBatch {
    /// The last of the lines, as many as fit, without the last newline.
    pub text: String,
    /// How many lines there were.
    pub lines: u64,
    /// How many of them, before those in `text`, are not in it.
    pub dropped_lines: u64,
    /// Stream offset behind the last of them.
    pub end_offset: u64,
}

/// Decides when which lines are told. Holds a bounded part of them.
#[derive(Debug)]
pub struct LineCoalescer {
    burst: u32,
    every_ms: u64,
    tokens: u32,
    /// Since when the next token grows.
    refilled_at: MonotonicMs,
    /// Records given out so far.
    records_written: u32,
    pending: VecDeque<(String, u64)>,
    pending_bytes: usize,
    /// Held lines whose text was let go.
    dropped_lines: u64,
}

impl LineCoalescer {
    /// Begins at `now` with a full bucket, after `given` records.
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

    /// Takes a line, without its newline, that ends before the stream offset `to`.
    pub fn push_line(&mut self, text: &str, to: u64) {
        let cut = cut_head(text, Monitor::MAX_TEXT_BYTES);
        self.pending_bytes += cut.len() + 1;
        self.pending.push_back((cut.to_owned(), to));
        // What cannot be told line by line is told in one record.
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

    /// Returns what may be told now. To be called until there is nothing.
    pub fn next_batch(&mut self, now: MonotonicMs) -> Option<LineBatch> {
        self.refill(now);
        if self.pending.is_empty() || self.tokens == 0 {
            return None;
        }
        // Each line by itself as long as there are tokens to spare; the last one takes the rest.
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

    /// Returns all that is held, whatever the rate: for the end, which waits for nobody.
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

    /// Returns when to ask again, `None` while nothing is held.
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
