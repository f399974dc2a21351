//! Finds the first line of a task's output that matches a pattern.

use std::io;
use std::ops::ControlFlow;

use regex::Regex;
use siding_model::process::MonotonicMs;
use siding_model::text::cut_head;
use siding_model::wait::WaitDetail;

use crate::output::{LineMatch, LineMatcher, MatchHandler, SIDING_LINE_PREFIX};
use crate::store::TaskDir;

/// Silence after which an incomplete line is matched, in milliseconds. The line may be a prompt,
/// whose program waits for input and never completes the line.
const PARTIAL_LINE_SETTLE_MS: u64 = 300;
/// Maximum length of a reported line, in bytes. A longer line is truncated.
const MAX_LINE_BYTES: usize = 1024;

/// Matches the output of one task once, from its beginning.
#[derive(Debug)]
pub(crate) struct OutputScan {
    matching: LineMatcher<FirstMatch>,
    next: u64,
    /// Time from which the incomplete line is matched, unless more output arrives before then.
    settles_at: Option<MonotonicMs>,
}

#[derive(Debug, Default)]
struct FirstMatch(Option<WaitDetail>);

impl MatchHandler for FirstMatch {
    fn on_match(&mut self, hit: LineMatch<'_>) -> ControlFlow<()> {
        // The line that siding appends meets no condition.
        if hit.text.starts_with(SIDING_LINE_PREFIX) {
            return ControlFlow::Continue(());
        }
        self.0 = Some(output_detail(hit.from, hit.text));
        ControlFlow::Break(())
    }
}

fn output_detail(offset: u64, line: &str) -> WaitDetail {
    WaitDetail::Line { offset, line: cut_head(line, MAX_LINE_BYTES).to_owned() }
}

impl OutputScan {
    pub(crate) fn new(pattern: Regex) -> Self {
        let matching = LineMatcher::new(Some(pattern), FirstMatch::default());
        Self { matching, next: 0, settles_at: None }
    }

    /// Matches the output that was written since the last call. Returns the first matching line.
    pub(crate) fn scan_new(
        &mut self,
        dir: &TaskDir,
        now: MonotonicMs,
    ) -> io::Result<Option<WaitDetail>> {
        let before = self.next;
        self.next = self.matching.read_from(dir, before)?;
        if self.next > before {
            self.settles_at = Some(now.plus_ms(PARTIAL_LINE_SETTLE_MS));
        }
        Ok(self.matching.handler().0.take())
    }

    /// Returns the time at which [`Self::scan_partial_line`] is to be called; `None` if no output
    /// has been read, or if that function has already checked the incomplete line.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        self.settles_at
    }

    /// Matches the incomplete line if no output has followed for [`PARTIAL_LINE_SETTLE_MS`].
    pub(crate) fn scan_partial_line(&mut self, now: MonotonicMs) -> Option<WaitDetail> {
        self.settles_at.take_if(|at| now >= *at)?;
        let (from, text) = self.matching.partial_match()?;
        (!text.starts_with(SIDING_LINE_PREFIX)).then(|| output_detail(from, &text))
    }

    /// Matches the remaining output of a task that has ended.
    pub(crate) fn scan_remaining(&mut self, dir: &TaskDir) -> io::Result<Option<WaitDetail>> {
        self.next = self.matching.read_from(dir, self.next)?;
        // A match that was already found precedes the incomplete line.
        if self.matching.handler().0.is_none() {
            self.matching.finish();
        }
        Ok(self.matching.handler().0.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_partial(output: &[u8]) -> Option<WaitDetail> {
        let mut scan = OutputScan::new(Regex::new("ready").expect("a pattern"));
        scan.matching.feed(0, output);
        scan.settles_at = Some(MonotonicMs(0));
        scan.scan_partial_line(MonotonicMs(0))
    }

    #[test]
    fn a_line_of_siding_neither_matches_nor_hides_the_prompt_after_it() {
        assert_eq!(scan_partial(b"[siding] ready\n"), None);
        assert_eq!(scan_partial(b"[siding] ready"), None);
        let prompt = WaitDetail::Line { offset: 15, line: "ready?".to_owned() };
        assert_eq!(scan_partial(b"[siding] ready\nready?"), Some(prompt));
    }
}
