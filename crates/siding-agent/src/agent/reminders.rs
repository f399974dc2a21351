//! Reminders of running tasks that the model may have forgotten (promise P68).

use std::collections::HashSet;

use siding_core::output;
use siding_core::task::view::ViewDetail;
use siding_model::advice;
use siding_model::id::TaskId;
use siding_tools::{TaskSnapshot, ToolContext};

use super::tasks;
use crate::message::UserContent;

/// Number of batches of calls between two reminders that name all running tasks.
const BATCHES_PER_FULL_REMINDER: u32 = 20;
/// Maximum columns of the line for one task.
const LINE_COLUMNS: usize = 160;
/// Maximum number of tasks that one reminder names.
const MAX_NAMED_TASKS: usize = 50;

/// The running tasks seen so far and the number of batches, which determine the next reminder.
#[derive(Debug, Default)]
pub(super) struct Reminders {
    /// Tasks that were already running at an earlier request.
    seen_running: HashSet<TaskId>,
    /// Tasks that only a full reminder may still name: those already named, those whose output was
    /// read, and those of other sessions that this session cannot inherit. The files of these tasks
    /// are read only for a full reminder, so that even a hundred such tasks do not slow down a
    /// batch.
    settled: HashSet<TaskId>,
    /// Number of batches of calls that the agent has finished since it was built.
    batches: u32,
}

impl Reminders {
    /// Returns the reminder for the next request. It names, once each, the session's tasks that
    /// have been running since an earlier request and whose output was not read; every
    /// [`BATCHES_PER_FULL_REMINDER`] batches it names all running tasks. Tasks in `shown` are
    /// omitted, because results in the same request show them. `None` if there is no task to name.
    pub(super) fn next_reminder(
        &mut self,
        host: &ToolContext,
        shown: &HashSet<TaskId>,
    ) -> Option<UserContent> {
        self.batches += 1;
        let names_all = self.batches.is_multiple_of(BATCHES_PER_FULL_REMINDER);
        let mut to_name = Vec::new();
        for id in host.root.live_tasks().unwrap_or_default() {
            if shown.contains(&id) {
                self.seen_running.insert(id);
                continue;
            }
            if !names_all && self.settled.contains(&id) {
                continue;
            }
            let Some(task) = tasks::read_live(host, id) else { continue };
            let is_ours = tasks::is_of_session(host, &task);
            let was_read =
                output::load_read_cursor(&task.dir, &host.session).is_ok_and(|to| to > 0);
            let is_forgotten = is_ours && !self.seen_running.insert(id) && !was_read;
            if is_ours && (names_all || is_forgotten) {
                to_name.push(task);
            } else if is_ours && !was_read || !is_ours && tasks::may_be_inherited(&task) {
                continue;
            }
            self.settled.insert(id);
        }
        let what = if names_all { "Running" } else { "Still running, output not read" };
        (!to_name.is_empty()).then(|| format_reminder(host, what, &to_name))
    }
}

/// Returns a reminder of all running tasks, for a conversation that has just been loaded or
/// summarized. `None` if no task is running.
pub(super) fn full_reminder(host: &ToolContext) -> Option<UserContent> {
    let running = tasks::list_recorded(host).unwrap_or_default();
    (!running.is_empty()).then(|| format_reminder(host, "Running", &running))
}

fn format_reminder(host: &ToolContext, what: &str, tasks: &[TaskSnapshot]) -> UserContent {
    let mut text = format!("{what} in the background (automated, not from the user):");
    for view in host.views(&tasks[..tasks.len().min(MAX_NAMED_TASKS)], ViewDetail::Brief) {
        text.push('\n');
        text.push_str(&advice::format_task_line(&view, LINE_COLUMNS));
    }
    if let Some(left) = tasks.len().checked_sub(MAX_NAMED_TASKS).filter(|left| *left > 0) {
        text.push_str(&format!("\n{left} more: {} shows them", host.dialect.format_tool("list")));
    }
    UserContent::Reminder { text }
}
