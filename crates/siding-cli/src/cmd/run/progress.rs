//! The progress line of a person who waits for a command in the foreground. It appears while the
//! command is silent, and disappears before the next output.

use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_model::id::TaskId;
use siding_model::process::MonotonicMs;
use siding_model::progress_line::ProgressSchedule;

use super::plan::RunPlan;
use crate::stderr;
use crate::task_progress::{LastLine, PaintResult, TaskProgress};

/// Silence after which the line appears, in milliseconds.
const SILENCE_MS: u64 = 3_000;

/// The progress line of one command.
#[derive(Debug)]
pub(super) struct RunProgress<'r> {
    task_id: TaskId,
    line: TaskProgress<'r>,
    schedule: ProgressSchedule,
    /// The hint that the visible line contains.
    hint: Option<String>,
}

impl<'r> RunProgress<'r> {
    /// Returns the line if a person waits at a terminal; otherwise `None`.
    pub(super) fn for_person(root: &'r StateDir, plan: &RunPlan) -> Option<Self> {
        plan.is_person.then(|| TaskProgress::for_terminal(root)).flatten().map(|line| Self {
            task_id: plan.task.id(),
            line,
            schedule: ProgressSchedule::new(SILENCE_MS, clock::monotonic_now()),
            hint: None,
        })
    }

    pub(super) const fn paint_at(&self) -> Option<MonotonicMs> {
        self.schedule.paint_at()
    }

    pub(super) const fn is_visible(&self) -> bool {
        self.schedule.is_visible()
    }

    /// Adds a hint to the line, until output of the command replaces the line.
    pub(super) fn set_hint(&mut self, hint: String) {
        self.hint = Some(hint);
    }

    /// Records that output of the command replaces the line.
    pub(super) fn on_output(&mut self) {
        if self.is_visible() {
            stderr::clear_progress();
            self.hint = None;
        }
        self.schedule.on_output(clock::monotonic_now());
    }

    /// Lets the line appear again, after this process was continued in the foreground.
    pub(super) fn resume(&mut self) {
        self.schedule.resume(clock::monotonic_now());
    }

    pub(super) fn paint(&mut self) {
        match self.line.paint(self.task_id, None, self.hint.as_deref(), LastLine::Omitted) {
            PaintResult::Painted => self.schedule.on_painted(clock::monotonic_now()),
            PaintResult::InBackground => self.schedule.pause(),
        }
    }
}
