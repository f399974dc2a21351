//! Advice on the next step, worded for the command line and its reader.

use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_model::advice::{self, Dialect, NoticeChannel};
use siding_model::task_view::{PhaseName, TaskView};

/// Returns advice about a task; `None` if there is nothing to explain. `dialect` is
/// [`Dialect::Commands`], or [`Dialect::Terminal`] for a person.
pub(crate) fn advice(root: &StateDir, view: &TaskView, dialect: Dialect) -> Option<String> {
    // Only the advice about a running task says how the task's end will be reported.
    let is_running = view.phase == PhaseName::Running;
    let channel = match is_running && session::has_notice_channel(root, &view.session_id) {
        true => NoticeChannel::Pushed,
        false => NoticeChannel::PollOnly,
    };
    advice::task_advice(view, dialect, channel, clock::unix_now())
}

#[cfg(test)]
mod tests;
