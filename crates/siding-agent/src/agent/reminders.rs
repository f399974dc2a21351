//! What runs and may have been forgotten (SPEC 5.4).

use std::collections::HashSet;

use siding_core::output;
use siding_core::view::ViewDetail;
use siding_model::advice;
use siding_model::id::TaskId;
use siding_tools::{TaskSnapshot, ToolContext};

use super::tasks;
use crate::message::Told;

/// Batches of calls after which all that runs is named again.
const EVERY: u32 = 20;
/// Columns of a line about a task.
const LINE: usize = 160;
/// Tasks that are named at once.
const MOST: usize = 50;

/// Who was reminded of what.
#[derive(Debug, Default)]
pub(super) struct Reminders {
    /// Tasks that ran at the request before, or earlier.
    known: HashSet<TaskId>,
    /// Tasks of which nothing is to be said but with all others: they were named or looked at, or are
    /// another session's. They are not even read, so that a hundred of them cost a batch nothing.
    settled: HashSet<TaskId>,
    /// Batches of calls so far.
    batches: u32,
}

impl Reminders {
    /// Returns what goes with the next request: tasks that run since an earlier one and were not
    /// looked at, each once, and now and then all that run. `shown` stand in this request anyway.
    pub(super) fn next(&mut self, host: &ToolContext, shown: &HashSet<TaskId>) -> Option<Told> {
        self.batches += 1;
        let names_all = self.batches.is_multiple_of(EVERY);
        let mut to_name = Vec::new();
        for id in host.root.live_tasks().unwrap_or_default() {
            if shown.contains(&id) {
                self.known.insert(id);
                continue;
            }
            if !names_all && self.settled.contains(&id) {
                continue;
            }
            let Some(task) = tasks::read(host, id) else { continue };
            let is_ours = tasks::is_ours(host, &task);
            let was_looked_at =
                output::load_read_cursor(&task.dir, &host.session).is_ok_and(|to| to > 0);
            let is_forgotten = is_ours && !self.known.insert(id) && !was_looked_at;
            if is_ours && (names_all || is_forgotten) {
                to_name.push(task);
            } else if is_ours && !was_looked_at || !is_ours && tasks::may_come_to_us(&task) {
                continue;
            }
            self.settled.insert(id);
        }
        let what = if names_all { "Running" } else { "Still running, and not looked at" };
        (!to_name.is_empty()).then(|| list(host, what, &to_name))
    }
}

/// Returns all that runs, for a model that has forgotten everything.
pub(super) fn all(host: &ToolContext) -> Option<Told> {
    let running = tasks::recorded(host).unwrap_or_default();
    (!running.is_empty()).then(|| list(host, "Running", &running))
}

fn list(host: &ToolContext, what: &str, tasks: &[TaskSnapshot]) -> Told {
    let mut text = format!("{what} in the background (automated, not from the user):");
    for view in host.views(&tasks[..tasks.len().min(MOST)], ViewDetail::Brief) {
        text.push('\n');
        text.push_str(&advice::format_task_line(&view, LINE));
    }
    if let Some(left) = tasks.len().checked_sub(MOST).filter(|left| *left > 0) {
        text.push_str(&format!("\n{left} more: {} shows them", host.dialect.format_tool("list")));
    }
    Told::Reminder { text }
}
