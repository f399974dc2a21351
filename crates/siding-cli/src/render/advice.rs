//! Advice on the next step, worded for the command line and its reader.

use siding_core::session;
use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::clock;
use siding_core::task::port_conflict::port_conflict_advice;
use siding_model::advice::{self, Dialect, NoticeChannel};
use siding_model::journal::TaskState;
use siding_model::task_view::{PhaseName, TaskView};

/// Returns advice about a task, whose view is `view`; `None` if there is nothing to explain.
/// `dialect` is [`Dialect::Commands`], or [`Dialect::Terminal`] for a person.
pub(crate) fn advice(
    root: &StateDir,
    (dir, state): (&TaskDir, &TaskState),
    view: &TaskView,
    dialect: Dialect,
) -> Option<String> {
    // Only the advice about a running task says how the task's end will be reported.
    let is_running = view.phase == PhaseName::Running;
    let channel = match is_running && session::has_notice_channel(root, &view.session_id) {
        true => NoticeChannel::Pushed,
        false => NoticeChannel::PollOnly,
    };
    let conflict = port_conflict_advice(root, dir, state, dialect);
    advice::task_advice(view, dialect, channel, clock::unix_now())
        .into_iter()
        .chain(conflict)
        .reduce(|all, next| format!("{all}; {next}"))
}

#[cfg(test)]
mod tests;
