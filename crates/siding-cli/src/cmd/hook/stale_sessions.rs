//! What conversations that ended without closing have left, told to the next one.

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

/// Tasks that are named; the others are counted.
const MAX_NAMED_TASKS: usize = 10;
/// Columns of a command.
const COMMAND_COLUMNS: usize = 100;

/// Returns what siding ended when sessions were over, each once: a session of which nothing runs
/// any more is closed then. It may be opened again.
pub(super) fn report_and_close_stale(root: &StateDir) -> Result<Option<String>, Failure> {
    let boot = context::boot_id()?;
    let mut text = String::new();
    let live = sessions_with_running_tasks(root)?;
    for session in session::list_sessions(root)? {
        // What may live elsewhere is nobody's here to judge.
        if session.is_closed || session.may_live_elsewhere(&boot) {
            continue;
        }
        // A subagent's that lives on is told to by that.
        if !session::is_ended(root, &session.id, &boot) {
            continue;
        }
        if live.contains(&session.id) {
            let _writing_to_string = writeln!(
                text,
                "Session {} is over; siding is ending what it left running.",
                session.id
            );
            continue;
        }
        text.push_str(&format_session(root, &session)?);
        // Somebody may resume it in this moment: then it is theirs.
        let _best_effort = session::close_if_unowned(root, &session)?;
    }
    Ok((!text.is_empty()).then_some(text))
}

/// Returns the sessions that have tasks which run, and are not to outlive them.
fn sessions_with_running_tasks(root: &StateDir) -> Result<Vec<SessionId>, Failure> {
    let specs = crate::cmd::session::running_specs(root)?;
    Ok(specs.into_iter().filter(|spec| !spec.keep).map(|spec| spec.session_id).collect())
}

/// Returns what was ended of one session and its agent was not told.
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
        "Session {} ended without closing. siding ended what it left running:\n",
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
