//! To-dos as a model reads them.

use std::fmt::Write as _;
use std::time::Duration;

use siding_model::process::UnixMs;
use siding_model::{duration, text};

use super::board::{Board, State, Todo};
use super::holder::{Holder, Presence};
use super::id::TodoId;

/// Columns of a subject, and of a name, in a list.
const SUBJECT: usize = 120;
const NAME: usize = 40;
/// To-dos of a list that are shown.
const SHOWN: usize = 200;

/// Returns the to-dos of a list that are not completed, and the number of the others; or all.
pub(super) fn list(board: &Board, all: bool, who: &Holder) -> String {
    let is_completed = |todo: &Todo| matches!(todo.state, State::Completed { .. });
    let completed = board.all().filter(|(_, todo)| is_completed(todo)).count();
    let shown: Vec<_> = board.all().filter(|(_, todo)| all || !is_completed(todo)).collect();
    let mut out = String::new();
    for (id, todo) in shown.iter().take(SHOWN) {
        let subject = text::one_line(&todo.subject, SUBJECT);
        let _in_memory = writeln!(out, "{id} {subject} [{}]", state(board, todo, who));
    }
    if shown.len() > SHOWN {
        let _in_memory = writeln!(out, "… and {} more", shown.len() - SHOWN);
    }
    let _in_memory = match (board.is_empty(), shown.is_empty(), all) {
        (true, _, _) => writeln!(out, "The list is empty; create_task puts work on it."),
        (_, true, _) => writeln!(out, "All {completed} to-dos are completed."),
        (_, false, false) if completed > 0 => writeln!(out, "{completed} more are completed."),
        _ => Ok(()),
    };
    out
}

/// Returns all that is known of a to-do.
pub(super) fn whole(board: &Board, id: TodoId, todo: &Todo, who: &Holder, now: UnixMs) -> String {
    let subject = text::make_visible(&todo.subject);
    let mut out = format!("{id} {subject}\nstatus: {}\n", state(board, todo, who));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _in_memory = writeln!(out, "{name}: {value}");
        }
    };
    let ago = |since: UnixMs| {
        let ms = u64::try_from(now.0.saturating_sub(since.0)).unwrap_or(0);
        format!("{} ago", duration::format_duration(Duration::from_secs(ms / 1_000)))
    };
    match &todo.state {
        State::Pending => {}
        State::InProgress { since, .. } => line("claimed", ago(*since)),
        State::Completed { at, .. } => line("completed", ago(*at)),
    }
    line("blocked by", ids(todo.blocked_by.iter().copied()));
    let blocks = board.all().filter(|(_, other)| other.blocked_by.contains(&id));
    line("blocks", ids(blocks.map(|(id, _)| id)));
    if !todo.description.is_empty() {
        let _in_memory = write!(out, "\n{}\n", text::make_visible(&todo.description));
    }
    out
}

/// Says how far a to-do is.
fn state(board: &Board, todo: &Todo, who: &Holder) -> String {
    let name = |by: &Holder| {
        if by.owner == who.owner { "you".to_owned() } else { text::one_line(&by.owner, NAME) }
    };
    match &todo.state {
        State::Pending => match ids(board.waits_for(todo)) {
            none if none.is_empty() => "pending".to_owned(),
            blockers => format!("pending, waits for {blockers}"),
        },
        State::InProgress { by, .. } => {
            let lost = match who.looks_for(by) {
                Presence::Gone => ", whose process is gone: it may be claimed",
                Presence::Here | Presence::Unseen => "",
            };
            format!("in_progress, owner {}{lost}", name(by))
        }
        State::Completed { by, .. } => format!("completed by {}", name(by)),
    }
}

/// Returns ids with commas between them.
pub(super) fn ids(ids: impl Iterator<Item = TodoId>) -> String {
    ids.map(|id| id.to_string()).collect::<Vec<_>>().join(", ")
}
