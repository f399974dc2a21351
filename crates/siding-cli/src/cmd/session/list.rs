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
use crate::render::local_time::TimeZone;
use crate::{render, stdout};

/// The columns after the first one, with their widths.
const DETAIL_COLUMNS: [(&str, usize); 4] =
    [("STATE", 9), ("OWNER", 7), ("TASKS", 5), ("OPENED", 19)];

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
        let zone = TimeZone::for_stdout();
        stdout::print_text(&format_table(&views, stdout::text_columns(), zone))?;
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

/// Formats a line for each session, with times in this zone. A screen of fewer than 80 `columns`
/// gets only the leftmost ones.
fn format_table(views: &[SessionView], columns: usize, zone: TimeZone) -> String {
    if views.is_empty() {
        return "no session is open and no task runs\n".to_owned();
    }
    let widest = views.iter().map(|view| view.session_id.as_str().len()).max().unwrap_or(0);
    // An id may have 64 characters. The other columns need 48 of the 80 columns, so the first one
    // gets at most 30; a longer id is printed on a separate line.
    let width = widest.clamp("SESSION".len(), 30);
    let mut used = width;
    let fits = |(_, cell): &&(&str, usize)| {
        used += cell + 2;
        used <= columns
    };
    let shown = DETAIL_COLUMNS.iter().take_while(fits).count();
    let line = |first: &str, cells: [&str; 4]| {
        let mut line = format!("{first:<width$}");
        for (cell, (title, width)) in cells.iter().zip(DETAIL_COLUMNS).take(shown) {
            line += &match title {
                "TASKS" => format!("  {cell:>width$}"),
                _ => format!("  {cell:<width$}"),
            };
        }
        format!("{}\n", line.trim_end())
    };
    let mut text = line("SESSION", DETAIL_COLUMNS.map(|(title, _)| title));
    for view in views {
        let owner = view.owner_pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let opened = view.opened_at.as_deref();
        let opened = opened.map_or_else(|| "-".to_owned(), |at| zone.format_seconds(at));
        let mut first = view.session_id.as_str();
        if first.len() > width {
            // The id is not truncated, so that it can be copied. The other columns follow on the
            // next line.
            text.push_str(&format!("{first}\n"));
            first = "";
        }
        let running = view.running.len().to_string();
        text.push_str(&line(first, [view.state.as_str(), &owner, &running, &opened]));
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
        let views =
            [view("cli", None, None), view(&long, owner, opened), view(&longest, owner, opened)];
        let text = format_table(&views, 80, TimeZone::Utc);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("2025-11-21T22:41:12\n"), "{text}");
        assert!(text.starts_with("SESSION "), "{text}");
        let text = format_table(&views[..1], 40, TimeZone::Utc);
        assert!(text.starts_with("SESSION  STATE      OWNER    TASKS\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 40), "{text}");
        for columns in 0..40 {
            let text = format_table(&views, columns, TimeZone::Utc);
            assert!(text.contains(&longest), "{columns}");
        }
    }
}
