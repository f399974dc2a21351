//! Lines that somebody asked for, out of all.

use std::collections::VecDeque;
use std::io;

use regex::Regex;
use siding_model::record::OutputGap;

use super::chunks::Flow;
use super::errors::looks_like_error;
use super::lines::{Line, Sink};

/// Lines shown before and after one that looks like an error.
const CONTEXT: usize = 2;
/// Bytes held for the last lines, however many were asked for.
const LAST_MAX: usize = 8 << 20;

/// Which lines are shown.
#[derive(Debug, Clone)]
pub enum Choose {
    /// All.
    Everything,
    /// Those in which the expression matches.
    Matching(Regex),
    /// Those that look like errors, with two lines before and after each.
    Errors,
}

impl Choose {
    const fn context(&self) -> usize {
        match self {
            Self::Everything | Self::Matching(_) => 0,
            Self::Errors => CONTEXT,
        }
    }

    fn wants(&self, line: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Matching(regex) => regex.is_match(line.strip_suffix('\n').unwrap_or(line)),
            Self::Errors => looks_like_error(line),
        }
    }
}

/// A line that is held.
#[derive(Debug)]
struct Held {
    from: u64,
    to: u64,
    text: String,
    begins: bool,
}

impl Held {
    fn new(line: Line<'_>) -> Self {
        Self { from: line.from, to: line.to, text: line.text.to_owned(), begins: line.begins }
    }

    fn line(&self) -> Line<'_> {
        Line { from: self.from, to: self.to, text: &self.text, begins: self.begins }
    }
}

/// Passes on the lines that are wanted.
#[derive(Debug)]
pub(super) struct Select<'c, S> {
    choose: &'c Choose,
    sink: S,
    before: VecDeque<Held>,
    /// Lines still to be shown after the last one that was wanted.
    after: usize,
    /// Whether lines were left out since the last one that was shown.
    apart: bool,
    shown: bool,
}

impl<'c, S: Sink> Select<'c, S> {
    pub(super) const fn new(choose: &'c Choose, sink: S) -> Self {
        Self { choose, sink, before: VecDeque::new(), after: 0, apart: false, shown: false }
    }

    fn show_context(&mut self, from: u64) -> io::Result<Flow> {
        let begin = self.before.front().map_or(from, |held| held.from);
        if self.apart && self.shown {
            self.sink.line(Line { from: begin, to: begin, text: "--\n", begins: true })?;
        }
        self.apart = false;
        for held in self.before.drain(..) {
            if self.sink.line(held.line())? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::On)
    }
}

impl<S: Sink> Sink for Select<'_, S> {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        if matches!(self.choose, Choose::Everything) {
            return self.sink.line(line);
        }
        let context = self.choose.context();
        if self.choose.wants(line.text) {
            self.after = context;
            if context > 0 && self.show_context(line.from)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        } else if self.after > 0 {
            self.after -= 1;
        } else {
            self.before.push_back(Held::new(line));
            if self.before.len() > context {
                self.before.pop_front();
                self.apart = true;
            }
            return Ok(Flow::On);
        }
        self.shown = true;
        if line.text.ends_with('\n') {
            return self.sink.line(line);
        }
        // The next line that is shown is another one.
        let text = format!("{}\n", line.text);
        self.sink.line(Line { text: &text, begins: true, ..line })
    }

    fn gone(&mut self, gap: OutputGap) -> io::Result<Flow> {
        self.before.clear();
        (self.after, self.apart) = (0, false);
        self.sink.gone(gap)
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<Flow> {
        self.sink.skipped(from, to)
    }

    fn end(&mut self) -> io::Result<Flow> {
        self.sink.end()
    }
}

/// Passes on the last lines only, when the end has come.
#[derive(Debug)]
pub(super) struct Last<S> {
    count: usize,
    sink: S,
    held: VecDeque<Held>,
    bytes: usize,
}

impl<S: Sink> Last<S> {
    pub(super) const fn new(count: usize, sink: S) -> Self {
        Self { count, sink, held: VecDeque::new(), bytes: 0 }
    }
}

impl<S: Sink> Sink for Last<S> {
    fn line(&mut self, line: Line<'_>) -> io::Result<Flow> {
        self.bytes += line.text.len();
        self.held.push_back(Held::new(line));
        while self.held.len() > self.count || self.bytes > LAST_MAX {
            let Some(oldest) = self.held.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
        Ok(Flow::On)
    }

    fn gone(&mut self, gap: OutputGap) -> io::Result<Flow> {
        self.sink.gone(gap)
    }

    fn skipped(&mut self, from: u64, to: u64) -> io::Result<Flow> {
        self.sink.skipped(from, to)
    }

    fn end(&mut self) -> io::Result<Flow> {
        for held in self.held.drain(..) {
            if self.sink.line(held.line())? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        self.sink.end()
    }
}
