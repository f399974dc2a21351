//! The progress line of a person who waits for tasks.

use std::os::fd::AsFd as _;

use siding_core::store::StateDir;
use siding_core::sys::signals::{self, SignalFd};
use siding_core::sys::{clock, poll};
use siding_core::task::wait::{WaitResult, Waiter};
use siding_model::id::TaskId;
use siding_model::progress_line::ProgressSchedule;
use siding_model::settings::AssistantMode;
use siding_model::signal::Signal;

use crate::caller;
use crate::failure::Failure;
use crate::render;
use crate::stderr;
use crate::task_progress::{LastLine, PaintResult, TaskProgress};

/// Duration of a wait after which the line appears, in milliseconds.
const DELAY_MS: u64 = 1_000;
/// Signals that end or suspend this process. The line is erased before they take effect.
const SIGNALS: [Signal; 5] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::TSTP];

/// A wait with a progress line.
#[derive(Debug)]
pub(super) struct WaitProgress<'r> {
    line: TaskProgress<'r>,
    signals: SignalFd,
    schedule: ProgressSchedule,
    /// Number of tasks for which the call waits.
    tasks: usize,
}

impl<'r> WaitProgress<'r> {
    /// Returns a wait with a progress line, or `None` if no person waits at a terminal or the
    /// signals cannot be blocked.
    pub(super) fn for_person(
        root: &'r StateDir,
        mode: AssistantMode,
        tasks: usize,
    ) -> Option<Self> {
        if !caller::is_person(mode) {
            return None;
        }
        let line = TaskProgress::for_terminal(root)?;
        // Without the signals, an interrupt would leave the line on the screen.
        let signals = SignalFd::block(&SIGNALS).ok()?;
        let schedule = ProgressSchedule::new(DELAY_MS, clock::monotonic_now());
        Some(Self { line, signals, schedule, tasks })
    }

    /// Blocks until the wait ends, and erases the line.
    pub(super) fn run(mut self, mut waiter: Waiter<'_>) -> Result<WaitResult, Failure> {
        let result = self.wait(&mut waiter);
        stderr::clear_progress();
        result
    }

    fn wait(&mut self, waiter: &mut Waiter<'_>) -> Result<WaitResult, Failure> {
        loop {
            if let Some(answer) = waiter.poll_once()? {
                return Ok(answer);
            }
            let now = clock::monotonic_now();
            if self.schedule.paint_at().is_some_and(|at| at <= now) {
                self.paint(waiter);
            }
            let wake_at =
                self.schedule.paint_at().map_or(waiter.wake_at(), |at| at.min(waiter.wake_at()));
            let mut sources = waiter.sources();
            sources.push(self.signals.as_fd());
            poll::wait_readable(&sources, Some(wake_at.ms_since(clock::monotonic_now())))
                .map_err(|error| Failure::new(format!("could not wait: {error}")))?;
            self.handle_signals(waiter);
        }
    }

    /// Erases the line before a signal ends or suspends this process. If the signal is an interrupt,
    /// prints that the tasks continue.
    fn handle_signals(&mut self, waiter: &Waiter<'_>) {
        for signal in self.signals.read_pending() {
            stderr::clear_progress();
            if signal == Signal::INT {
                if !self.schedule.is_visible() {
                    // There was no line to erase, so the terminal's `^C` is in the row of the
                    // cursor.
                    stderr::note_terminal_output(b"^C");
                }
                let unfinished: Vec<TaskId> = waiter.unfinished_tasks().collect();
                if let Some(note) = interrupt_note(&unfinished) {
                    render::print_note(&note);
                }
            }
            signals::raise_unblocked(signal);
            // This process was suspended and continues, or it ignores the signal.
            self.schedule.resume(clock::monotonic_now());
            self.schedule.on_output(clock::monotonic_now());
        }
    }

    fn paint(&mut self, waiter: &Waiter<'_>) {
        let Some(first) = waiter.unfinished_tasks().next() else { return };
        let ended = self.tasks - waiter.unfinished_tasks().count();
        let counts = (self.tasks > 1).then_some((ended, self.tasks));
        match self.line.paint(first, counts, None, LastLine::Included) {
            PaintResult::Painted => self.schedule.on_painted(clock::monotonic_now()),
            PaintResult::InBackground => self.schedule.pause(),
        }
    }
}

/// Returns the message for a person who interrupts a wait for these tasks.
fn interrupt_note(unfinished: &[TaskId]) -> Option<String> {
    match unfinished {
        [] => None,
        [id] => Some(format!("interrupted; {id} continues")),
        several => {
            Some(format!("interrupted; {} tasks continue; `siding ps` lists them", several.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_answered_with_the_tasks_that_continue() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        let note = |ids: &[TaskId]| interrupt_note(ids).unwrap_or_default();
        assert_eq!(note(&[]), "");
        assert_eq!(note(&[id]), "interrupted; b-4k7q0n2m8x5t continues");
        assert!(note(&[id, id]).contains("2 tasks continue"));
    }
}
