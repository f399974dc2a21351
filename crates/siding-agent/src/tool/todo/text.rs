//! Formats to-dos as text for a model.

use std::fmt::Write as _;
use std::time::Duration;

use siding_model::process::UnixMs;
use siding_model::{duration, text};

use super::id::TodoId;
use super::owner::{OwnerPresence, TodoOwner};
use super::state::{Todo, TodoState, TodoStatus};

/// Maximum columns of a subject in a list.
const SUBJECT_COLUMNS: usize = 120;
const OWNER_COLUMNS: usize = 40;
/// Maximum number of to-dos that a list shows.
const MAX_SHOWN_TODOS: usize = 200;

/// Formats all to-dos, or the open ones and the number of completed ones. At most 200 are listed.
pub(super) fn format_list(board: &TodoState, all: bool, owner: &TodoOwner) -> String {
    let is_completed = |todo: &Todo| matches!(todo.status, TodoStatus::Completed { .. });
    let completed = board.iter().filter(|(_, todo)| is_completed(todo)).count();
    let shown: Vec<_> = board.iter().filter(|(_, todo)| all || !is_completed(todo)).collect();
    let mut out = String::new();
    for (id, todo) in shown.iter().take(MAX_SHOWN_TODOS) {
        let subject = text::one_line(&todo.subject, SUBJECT_COLUMNS);
        let _writing_to_string =
            writeln!(out, "{id} {subject} [{}]", format_status(board, todo, owner));
    }
    if shown.len() > MAX_SHOWN_TODOS {
        let _writing_to_string = writeln!(out, "… and {} more", shown.len() - MAX_SHOWN_TODOS);
    }
    let _writing_to_string = match (board.is_empty(), shown.is_empty(), all) {
        (true, _, _) => writeln!(out, "The list is empty; create_task adds a to-do."),
        (_, true, _) if completed == 1 => writeln!(out, "The only to-do is completed."),
        (_, true, _) => writeln!(out, "All {completed} to-dos are completed."),
        (_, false, false) if completed == 1 => writeln!(out, "1 more is completed."),
        (_, false, false) if completed > 0 => writeln!(out, "{completed} more are completed."),
        _ => Ok(()),
    };
    out
}

/// Formats a to-do with all details.
pub(super) fn format_todo(
    board: &TodoState,
    id: TodoId,
    todo: &Todo,
    owner: &TodoOwner,
    now: UnixMs,
) -> String {
    let subject = text::make_visible(&todo.subject);
    let mut out = format!("{id} {subject}\nstatus: {}\n", format_status(board, todo, owner));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _writing_to_string = writeln!(out, "{name}: {value}");
        }
    };
    let ago = |since: UnixMs| {
        let ms = u64::try_from(now.0.saturating_sub(since.0)).unwrap_or(0);
        format!("{} ago", duration::format_duration(Duration::from_secs(ms / 1_000)))
    };
    match &todo.status {
        TodoStatus::Pending => {}
        TodoStatus::InProgress { since, .. } => line("claimed", ago(*since)),
        TodoStatus::Completed { at, .. } => line("completed", ago(*at)),
    }
    line("blocked by", join_ids(todo.blocked_by.iter().copied()));
    let blocks = board.iter().filter(|(_, other)| other.blocked_by.contains(&id));
    line("blocks", join_ids(blocks.map(|(id, _)| id)));
    if !todo.description.is_empty() {
        let _writing_to_string = write!(out, "\n{}\n", text::make_visible(&todo.description));
    }
    out
}

/// Formats the status of a to-do, with its open blockers or its owner.
fn format_status(state: &TodoState, todo: &Todo, owner: &TodoOwner) -> String {
    let name = |by: &TodoOwner| {
        if by.owner == owner.owner {
            "you".to_owned()
        } else {
            text::one_line(&by.owner, OWNER_COLUMNS)
        }
    };
    match &todo.status {
        TodoStatus::Pending => match join_ids(state.open_blockers(todo)) {
            none if none.is_empty() => "pending".to_owned(),
            blockers => format!("pending, waits for {blockers}"),
        },
        TodoStatus::InProgress { by, .. } => {
            let lost = match owner.presence_of(by) {
                OwnerPresence::Exited => ", whose process has ended: it may be claimed",
                OwnerPresence::Running | OwnerPresence::Unknown => "",
            };
            format!("in_progress, owner {}{lost}", name(by))
        }
        TodoStatus::Completed { by, .. } => format!("completed by {}", name(by)),
    }
}

/// Joins ids with commas.
pub(super) fn join_ids(ids: impl Iterator<Item = TodoId>) -> String {
    ids.map(|id| id.to_string()).collect::<Vec<_>>().join(", ")
}
