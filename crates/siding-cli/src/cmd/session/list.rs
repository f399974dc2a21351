//! `siding session list`: lists sessions.

use std::collections::BTreeMap;
use std::process::ExitCode;

use siding_core::session;
use siding_core::store::StateDir;
use siding_model::id::{SessionId, TaskId};
use siding_model::process::BootId;

use super::{SessionStatus, SessionView};
use crate::context;
use crate::failure::Failure;
use crate::{render, stdout};

/// Lists sessions and the number of running tasks in each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding session list
  siding session list --all    include ended ones without tasks
  siding session list --json   all, with the ids of their tasks")]
pub(super) struct Args {
    /// Include sessions that have ended and have no running task
    #[arg(long)]
    all: bool,
    /// Print all sessions as a JSON list
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        // A task whose shim was killed may have ended without a record, so all tasks are repaired
        // before the running ones are listed.
        let _logged_by_callee = context::recover_all(&root)?;
        let mut views = session_views(&root)?;
        if self.json {
            render::json::print(&views)?;
            return Ok(ExitCode::SUCCESS);
        }
        if !self.all {
            views.retain(is_listed_by_default);
        }
        stdout::print_text(&format_table(&views))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns whether a session is listed without `--all`. A session whose end is not known, or that
/// cannot be read, is listed.
fn is_listed_by_default(view: &SessionView) -> bool {
    match view.state {
        SessionStatus::Live | SessionStatus::Elsewhere | SessionStatus::Damaged => true,
        SessionStatus::Ended | SessionStatus::Closed => !view.running.is_empty(),
    }
}

/// Returns all sessions, including the implicit one if it has running tasks.
fn session_views(root: &StateDir) -> Result<Vec<SessionView>, Failure> {
    let boot = context::boot_id()?;
    let mut tasks: BTreeMap<SessionId, Vec<TaskId>> = BTreeMap::new();
    for spec in super::running_specs(root)? {
        tasks.entry(spec.session_id).or_default().push(spec.task_id);
    }
    let mut views = Vec::new();
    for name in root.session_names()? {
        // An entry whose name is not a valid session id was not created by siding, and is skipped.
        let Ok(id) = name.parse::<SessionId>() else { continue };
        let running = tasks.remove(&id).unwrap_or_default();
        match session_view(root, id.clone(), &boot, running.clone()) {
            Some(view) => views.push(view),
            None if running.is_empty() => {}
            // The directory contains only notices, as that of the implicit session does.
            None => {
                tasks.insert(id, running);
            }
        }
    }
    // The remaining tasks belong to sessions without a record: the implicit session, and sessions
    // whose directory or record is missing.
    for (session_id, running) in tasks {
        let state =
            if session_id.is_implicit() { SessionStatus::Live } else { SessionStatus::Ended };
        views.push(SessionView::without_record(session_id, state, running));
    }
    Ok(views)
}

fn session_view(
    root: &StateDir,
    id: SessionId,
    boot: &BootId,
    running: Vec<TaskId>,
) -> Option<SessionView> {
    match session::read(root, &id) {
        Ok(Some(session)) => Some(SessionView::new(&session, boot, running)),
        // The directory exists, but no owner is recorded in it.
        Ok(None) => None,
        Err(error) => {
            errln!("siding: {error}");
            Some(SessionView::without_record(id, SessionStatus::Damaged, running))
        }
    }
}

fn format_table(views: &[SessionView]) -> String {
    if views.is_empty() {
        return "no session is open and no task runs\n".to_owned();
    }
    let widest = views.iter().map(|view| view.session_id.as_str().len()).max().unwrap_or(0);
    // An id may have 64 characters. The other columns need 48 of the 80 columns, so the first one
    // gets at most 30; a longer id is printed on a separate line.
    let width = widest.clamp("SESSION".len(), 30);
    let mut text = format!("{:<width$}  STATE      OWNER    TASKS  OPENED\n", "SESSION");
    for view in views {
        let owner = view.owner_pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let opened = view.opened_at.as_deref().map_or("-", |at| at.get(..19).unwrap_or(at));
        let mut name = format!("{:<width$}", view.session_id.as_str());
        if name.len() > width {
            // The id is not truncated, so that it can be copied. The other columns follow on the
            // next line.
            name = format!("{name}\n{:<width$}", "");
        }
        text.push_str(&format!(
            "{name}  {:<9}  {owner:<7}  {:>5}  {opened}\n",
            view.state.as_str(),
            view.running.len(),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ended_sessions_without_tasks_are_left_out() {
        let task: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        let id: SessionId = "chat".parse().expect("a name");
        for (state, is_listed) in [
            (SessionStatus::Live, true),
            (SessionStatus::Elsewhere, true),
            (SessionStatus::Damaged, true),
            (SessionStatus::Ended, false),
            (SessionStatus::Closed, false),
        ] {
            let idle = SessionView::without_record(id.clone(), state, Vec::new());
            assert_eq!(is_listed_by_default(&idle), is_listed, "{state:?}");
            let busy = SessionView::without_record(id.clone(), state, vec![task]);
            assert!(is_listed_by_default(&busy), "{state:?}");
        }
    }

    #[test]
    fn the_table_fits_eighty_columns() {
        let view = |name: &str, owner_pid, opened_at: Option<&str>| SessionView {
            session_id: name.parse().expect("a name"),
            owner_pid,
            state: SessionStatus::Elsewhere,
            opened_at: opened_at.map(str::to_owned),
            running: Vec::new(),
            parent_session: None,
            reaped: None,
        };
        let (long, longest) = ("x".repeat(30), "y".repeat(64));
        let opened = Some("2025-11-21T22:41:12.345Z");
        let owner = Some(4_194_304);
        let text = format_table(&[
            view("cli", None, None),
            view(&long, owner, opened),
            view(&longest, owner, opened),
        ]);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("2025-11-21T22:41:12\n"), "{text}");
        assert!(text.starts_with("SESSION "), "{text}");
    }
}
