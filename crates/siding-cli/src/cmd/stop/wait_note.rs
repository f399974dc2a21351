//! The note for a person about a slow stop: a process may use its whole grace, and a
//! cluster may not answer.

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::task::stop;
use siding_model::advice::stop_wait_text;
use siding_model::id::TaskId;
use siding_model::text::one_line;

use super::REASON_COLUMNS;
use crate::context::Task;
use crate::render;

/// Time after which the note is printed.
const NOTE_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of tasks that the note mentions.
const MAX_NOTES: usize = 3;

/// Runs `work`, which stops these tasks. Meanwhile, shows a person at a terminal the reason for the
/// delay. `grace` replaces the grace of the tasks.
pub(super) fn run_with_note<T>(
    root: &StateDir,
    ids: &[TaskId],
    grace: Option<Duration>,
    work: impl FnOnce() -> T,
) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let (sender, receiver) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let note = move || {
            // The sender is dropped when all stops have ended.
            if receiver.recv_timeout(NOTE_AFTER) == Err(RecvTimeoutError::Timeout) {
                print_notes(root, ids, grace);
            }
        };
        // If the thread cannot be started, only the note is missing.
        let _best_effort = thread::Builder::new().spawn_scoped(scope, note);
        let result = work();
        drop(sender);
        result
    })
}

fn print_notes(root: &StateDir, ids: &[TaskId], grace: Option<Duration>) {
    let tasks = ids.iter().filter_map(|id| Task::read(root, *id).ok());
    for task in tasks.filter(|task| task.state.is_live()).take(MAX_NOTES) {
        let grace = grace.unwrap_or(Duration::from_millis(task.state.spec.grace_ms));
        let text = stop_wait_text(&task.state, stop::time_limit(grace));
        render::print_note(&one_line(&text, REASON_COLUMNS));
    }
}
