//! Reports to a new conversation which tasks siding stopped because their session was stale: it had
//! ended without being closed.

use std::fmt::Write as _;
use std::time::Duration;

use siding_core::notices::Outbox;
use siding_core::session::{self, Session};
use siding_core::store::StateDir;
use siding_model::duration::format_duration;
use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeKind, NoticeStatus, NoticeView};
use siding_model::text::one_line;

use crate::context;
use crate::failure::Failure;

/// Maximum number of tasks to name for one session. The last line gives the number of the others.
const MAX_NAMED_TASKS: usize = 10;
/// Maximum width in columns of a command.
const COMMAND_COLUMNS: usize = 100;

/// Returns a report of the tasks that siding stopped, or is stopping, because their session is
/// stale; `None` if there are none. Closes each stale session that has no running task, so that the
/// session is reported only once. A closed session can be opened again.
pub(super) fn report_and_close_stale(root: &StateDir) -> Result<Option<String>, Failure> {
    let boot = context::boot_id()?;
    let mut text = String::new();
    let live = sessions_with_running_tasks(root)?;
    for session in session::list_sessions(root)? {
        // This process cannot determine whether a process of another machine or PID namespace is
        // running.
        if session.is_closed || session.may_live_elsewhere(&boot) {
            continue;
        }
        // Either the session or one that inherits its tasks is live, or this cannot be determined.
        if !session::is_ended(root, &session.id, &boot) {
            continue;
        }
        if live.contains(&session.id) {
            let _writing_to_string = writeln!(
                text,
                "Session {} has ended; siding is stopping its remaining tasks.",
                session.id
            );
            continue;
        }
        text.push_str(&format_session(root, &session)?);
        // If the session has been resumed meanwhile, it has an owner again and is not closed.
        let _best_effort = session::close_if_unchanged(root, &session)?;
    }
    Ok((!text.is_empty()).then_some(text))
}

/// Returns the sessions of running tasks, except tasks started with `--keep`, which may outlive
/// their session.
fn sessions_with_running_tasks(root: &StateDir) -> Result<Vec<SessionId>, Failure> {
    let specs = crate::cmd::session::running_specs(root)?;
    Ok(specs.into_iter().filter(|spec| !spec.keep).map(|spec| spec.session_id).collect())
}

/// Formats the stopped tasks of one session, except those whose notices its agent has acknowledged.
fn format_session(root: &StateDir, session: &Session) -> Result<String, Failure> {
    let outbox = Outbox::new(root, session.id.clone(), Consumer::agent())?;
    let mut ended = outbox.pending()?.notices;
    ended.retain(|notice| {
        notice.kind == NoticeKind::Ended && notice.status == NoticeStatus::Stopped
    });
    if ended.is_empty() {
        return Ok(String::new());
    }
    let mut text = format!(
        "Session {} ended without being closed. siding stopped its remaining tasks:\n",
        session.id
    );
    for notice in ended.iter().take(MAX_NAMED_TASKS) {
        text.push_str(&format_task_line(notice));
    }
    if ended.len() > MAX_NAMED_TASKS {
        let _writing_to_string =
            writeln!(text, "- and {} more: siding ps --all", ended.len() - MAX_NAMED_TASKS);
    }
    Ok(text)
}

fn format_task_line(notice: &NoticeView) -> String {
    let elapsed = format_duration(Duration::from_millis(notice.elapsed_ms));
    let command = one_line(&notice.command, COMMAND_COLUMNS);
    format!("- {} after {elapsed}: {command}\n", notice.task_id)
}
