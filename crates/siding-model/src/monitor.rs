//! Telling the lines of a task as they come, and not too many of them.
//!
//! A token bucket: [`Monitor::BURST`] records at once, then one every [`Monitor::EVERY_MS`]. Lines
//! for which there is no token are held and told together with the next one, counted; of their
//! text the last lines stay. Nothing is ever forgotten but text.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::process::Mono;
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
    pub const BURST: u32 = 5;
    /// Milliseconds for one more.
    pub const EVERY_MS: u64 = 1000;
    /// Bytes of text in one record.
    pub const TEXT_MAX: usize = 512;
    /// Records after which one a second becomes one a minute: four hours, the built-in cap of a
    /// task's life, come before it. It keeps a journal readable whatever the cap is.
    pub const MANY: u32 = 14_400;
    /// How many times longer the time between two records is after that.
    const SLOWER: u64 = 60;

    /// Returns the usual monitor.
    #[must_use]
    pub const fn new(pattern: Option<String>) -> Self {
        Self { pattern, burst: Self::BURST, every_ms: Self::EVERY_MS }
    }
}

/// Lines that are to be told together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The last of the lines, as many as fit, without the last newline.
    pub text: String,
    /// How many lines there were.
    pub lines: u64,
    /// How many of them, before those in `text`, are not in it.
    pub dropped: u64,
    /// Stream offset behind the last of them.
    pub to: u64,
}

/// Decides when which lines are told. Holds a bounded part of them.
#[derive(Debug)]
pub struct Coalescer {
    burst: u32,
    every_ms: u64,
    tokens: u32,
    /// Since when the next token grows.
    since: Mono,
    /// Records given out so far.
    given: u32,
    held: VecDeque<(String, u64)>,
    bytes: usize,
    /// Held lines whose text was let go.
    dropped: u64,
}

impl Coalescer {
    /// Begins at `now` with a full bucket, after `given` records.
    #[must_use]
    pub fn new(monitor: &Monitor, given: u32, now: Mono) -> Self {
        let burst = monitor.burst.max(1);
        Self {
            burst,
            every_ms: monitor.every_ms.max(1),
            tokens: burst,
            since: now,
            given,
            held: VecDeque::new(),
            bytes: 0,
            dropped: 0,
        }
    }

    /// Takes a line, without its newline, that ends before the stream offset `to`.
    pub fn line(&mut self, text: &str, to: u64) {
        let cut = cut_head(text, Monitor::TEXT_MAX);
        self.bytes += cut.len() + 1;
        self.held.push_back((cut.to_owned(), to));
        // What cannot be told line by line is told in one record.
        while self.held.len() > self.burst as usize && self.bytes > Monitor::TEXT_MAX {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((text, _)) = self.held.pop_front() {
            self.bytes -= text.len() + 1;
            self.dropped += 1;
        }
    }

    /// Returns what may be told now. To be called until there is nothing.
    pub fn due(&mut self, now: Mono) -> Option<Told> {
        self.refill(now);
        if self.held.is_empty() || self.tokens == 0 {
            return None;
        }
        // Each line by itself as long as there are tokens to spare; the last one takes the rest.
        let alone = self.dropped == 0 && (self.tokens > 1 || self.held.len() == 1);
        self.tokens -= 1;
        if alone { self.first() } else { self.rest() }
    }

    fn first(&mut self) -> Option<Told> {
        let (text, to) = self.held.pop_front()?;
        self.bytes -= text.len() + 1;
        self.given = self.given.saturating_add(1);
        Some(Told { text, lines: 1, dropped: 0, to })
    }

    /// Returns all that is held, whatever the rate: for the end, which waits for nobody.
    pub fn rest(&mut self) -> Option<Told> {
        let (_, to) = self.held.back()?;
        let to = *to;
        let lines = self.dropped + self.held.len() as u64;
        while self.bytes > Monitor::TEXT_MAX + 1 && self.held.len() > 1 {
            self.drop_first();
        }
        let dropped = std::mem::take(&mut self.dropped);
        let texts: Vec<String> = self.held.drain(..).map(|(text, _)| text).collect();
        self.bytes = 0;
        self.given = self.given.saturating_add(1);
        Some(Told { text: texts.join("\n"), lines, dropped, to })
    }

    /// Returns when to ask again, `None` while nothing is held.
    #[must_use]
    pub fn wake_at(&self) -> Option<Mono> {
        if self.held.is_empty() {
            return None;
        }
        Some(if self.tokens > 0 { self.since } else { self.since.plus_ms(self.every_ms()) })
    }

    const fn every_ms(&self) -> u64 {
        if self.given < Monitor::MANY {
            self.every_ms
        } else {
            self.every_ms.saturating_mul(Monitor::SLOWER)
        }
    }

    fn refill(&mut self, now: Mono) {
        let every = self.every_ms();
        let grown = now.ms_since(self.since) / every;
        let room = u64::from(self.burst - self.tokens);
        if grown >= room {
            self.tokens = self.burst;
            self.since = now;
        } else {
            self.tokens += u32::try_from(grown).unwrap_or(0);
            self.since = self.since.plus_ms(grown * every);
        }
    }
}
