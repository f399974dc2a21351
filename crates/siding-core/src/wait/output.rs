//! Waiting for a line of output.

use std::io;
use std::ops::ControlFlow;

use regex::Regex;
use siding_model::process::MonotonicMs;
use siding_model::task_view::WaitDetail;
use siding_model::text::cut_head;

use crate::output::{Hit, Hits, Matching};
use crate::store::TaskDir;

/// Silence after which a line without its newline is looked at as it stands, in milliseconds: a
/// prompt waits for an answer, not for a newline.
const SETTLE_MS: u64 = 300;
/// Bytes of the line that are reported.
const LINE_MAX: usize = 1024;
/// How siding's own last line in an output begins. What it says is not what the task says.
const OWN: &str = "[siding] ";

/// Looks at the output of one task from its beginning, once.
#[derive(Debug)]
pub(super) struct Scan {
    matching: Matching<First>,
    next: u64,
    /// When the line that is not ended yet has settled.
    settles_at: Option<MonotonicMs>,
}

#[derive(Debug, Default)]
struct First(Option<WaitDetail>);

impl Hits for First {
    fn hit(&mut self, hit: Hit<'_>) -> ControlFlow<()> {
        if hit.text.starts_with(OWN) {
            return ControlFlow::Continue(());
        }
        self.0 = Some(found(hit.from, hit.text));
        ControlFlow::Break(())
    }
}

fn found(offset: u64, line: &str) -> WaitDetail {
    WaitDetail::Line { offset, line: cut_head(line, LINE_MAX).to_owned() }
}

impl Scan {
    pub(super) fn new(pattern: Regex) -> Self {
        let matching = Matching::new(Some(pattern), First::default());
        Self { matching, next: 0, settles_at: None }
    }

    /// Looks at what was added since. Returns the first line that matches.
    pub(super) fn more(
        &mut self,
        dir: &TaskDir,
        now: MonotonicMs,
    ) -> io::Result<Option<WaitDetail>> {
        let before = self.next;
        self.next = self.matching.read(dir, before)?;
        if self.next > before {
            self.settles_at = Some(now.plus_ms(SETTLE_MS));
        }
        Ok(self.matching.hits().0.take())
    }

    /// Returns when to call [`Self::settle`].
    pub(super) const fn wake_at(&self) -> Option<MonotonicMs> {
        self.settles_at
    }

    /// Looks at the line that is not ended, once nothing has come for a while.
    pub(super) fn settle(&mut self, now: MonotonicMs) -> Option<WaitDetail> {
        self.settles_at.take_if(|at| now >= *at)?;
        self.matching.unended_hit().map(|(from, text)| found(from, &text))
    }

    /// Looks at the rest of a task that has ended.
    pub(super) fn finish(&mut self, dir: &TaskDir) -> io::Result<Option<WaitDetail>> {
        self.next = self.matching.read(dir, self.next)?;
        // The first that was found is the first there is.
        if self.matching.hits().0.is_none() {
            self.matching.end();
        }
        Ok(self.matching.hits().0.take())
    }
}
