//! Prints the lines that a monitor selects while the command runs.

use std::ops::ControlFlow;

use regex::Regex;
use siding_core::output::{LineMatch, LineMatcher, MatchHandler, SIDING_LINE_PREFIX};
use siding_core::store::TaskDir;
use siding_core::task::run::{OutputNews, ShimEvent};
use siding_core::task::watch::TaskWatch;
use siding_model::monitor::Monitor;
use siding_model::protocol::ShimRequest;

use crate::failure::Failure;
use crate::render::out;

/// Finds the lines that a monitor selects, and prints them as readable text.
#[derive(Debug)]
pub(super) struct MatchPrinter {
    lines: LineMatcher<MatchedText>,
    /// Offset after the output that was searched.
    next: u64,
}

/// The matching lines that are not printed yet.
#[derive(Debug, Default)]
struct MatchedText(String);

impl MatchHandler for MatchedText {
    fn on_match(&mut self, hit: LineMatch<'_>) -> ControlFlow<()> {
        // The message about the end has the content of the line that siding appends.
        if !hit.text.starts_with(SIDING_LINE_PREFIX) {
            self.0.push_str(hit.text);
            self.0.push('\n');
        }
        ControlFlow::Continue(())
    }
}

impl MatchPrinter {
    /// Returns a printer that has printed nothing yet.
    pub(super) fn new(monitor: &Monitor) -> Result<Self, Failure> {
        let pattern = monitor.pattern.as_deref().map(Regex::new).transpose();
        let pattern = pattern.map_err(|error| Failure::new(format!("--match: {error}")))?;
        Ok(Self { lines: LineMatcher::new(pattern, MatchedText::default()), next: 0 })
    }

    /// Subscribes to the growth of the output before the wait (`event` is `None`), again if a new
    /// shim may have taken over, and after each growth. Prints new matching lines when the shim's
    /// message announces output.
    pub(super) fn follow(
        &mut self,
        watch: &mut TaskWatch<'_>,
        event: Option<&ShimEvent>,
    ) -> Result<(), Failure> {
        match OutputNews::from_event(event) {
            OutputNews::NotFollowed => subscribe_growth(watch),
            OutputNews::Grown => {
                self.print_new(&watch.dir()?)?;
                subscribe_growth(watch)
            }
            OutputNews::Stored => self.print_new(&watch.dir()?),
            OutputNews::Unaffected => Ok(()),
        }
    }

    /// Prints the matching lines that were completed since the last call.
    pub(super) fn print_new(&mut self, dir: &TaskDir) -> Result<(), Failure> {
        self.next = self.lines.read_from(dir, self.next).map_err(|error| {
            Failure::new(format!("task {}: could not read its output: {error}", dir.id()))
        })?;
        self.print_matches()
    }

    /// Prints the last line, which lacks its newline, if it matches.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.lines.finish();
        self.print_matches()
    }

    fn print_matches(&mut self) -> Result<(), Failure> {
        let text = std::mem::take(&mut self.lines.handler().0);
        if text.is_empty() { Ok(()) } else { out::print_exact(&text).map(drop) }
    }
}

/// Asks the shim to report, once, that more output was written.
fn subscribe_growth(watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
    Ok(watch.send(&ShimRequest::Subscribe { follow: true, shown: None })?)
}
