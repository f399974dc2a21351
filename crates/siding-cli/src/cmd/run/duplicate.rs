//! Decides whether a command that already runs in the same directory is started again, and reports
//! the decision.

use std::process::ExitCode;
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::task::view::ViewDetail;
use siding_model::duration::format_duration;
use siding_model::id::TaskId;

use crate::context::Task;
use crate::exit;
use crate::failure::Failure;
use crate::render;

/// The action on a command that already runs in the same directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DuplicateAction {
    /// Starts the command without a note.
    Start,
    /// Starts the command, with a note that names the first task.
    StartWithNote,
    /// Starts nothing.
    Refuse,
}

impl DuplicateAction {
    /// Returns the action for a caller; `is_allowed` is `--allow-duplicate`. An agent often starts
    /// a server again because it has forgotten the first one; a person who repeats a command means
    /// it.
    pub(super) const fn decide(is_allowed: bool, is_person: bool) -> Self {
        match (is_allowed, is_person) {
            (true, _) => Self::Start,
            (false, true) => Self::StartWithNote,
            (false, false) => Self::Refuse,
        }
    }
}

/// Prints a note that the command was started although `first` already runs it.
pub(super) fn report_second_start(root: &StateDir, first: TaskId) {
    // The first task may have been removed in the meantime.
    let task = Task::read(root, first).ok();
    let elapsed = task.map(|task| task.view(root, ViewDetail::Brief).state_time_ms());
    render::print_note(&second_start_note(first, elapsed.map(Duration::from_millis)));
}

/// Reports that nothing was started, because `first` already runs the same command.
pub(super) fn report_refusal(
    root: &StateDir,
    first: TaskId,
    is_json: bool,
) -> Result<ExitCode, Failure> {
    let message = refusal_message(first);
    if is_json {
        let mut view = Task::read(root, first)?.view(root, ViewDetail::Full);
        view.duplicate_of = Some(first);
        view.message = Some(message);
        render::json::print(&view)?;
    } else {
        render::print_note(&message);
    }
    Ok(ExitCode::from(exit::ALREADY_RUNNING))
}

fn second_start_note(first: TaskId, elapsed: Option<Duration>) -> String {
    let elapsed =
        elapsed.map_or_else(String::new, |elapsed| format!(" (for {})", format_duration(elapsed)));
    format!(
        "{first} already runs the same command in the same directory{elapsed}; this is a second one"
    )
}

fn refusal_message(first: TaskId) -> String {
    format!(
        "not started: {first} already runs the same command in the same directory; \
         --allow-duplicate starts a second one, `siding output --follow {first}` follows the \
         first, `siding wait {first}` waits for its end"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_agent_without_the_flag_is_refused() {
        assert_eq!(DuplicateAction::decide(false, false), DuplicateAction::Refuse);
        assert_eq!(DuplicateAction::decide(false, true), DuplicateAction::StartWithNote);
        assert_eq!(DuplicateAction::decide(true, false), DuplicateAction::Start);
        assert_eq!(DuplicateAction::decide(true, true), DuplicateAction::Start);
    }

    #[test]
    fn messages_name_the_first_task() {
        let first: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        assert_eq!(
            second_start_note(first, Some(Duration::from_secs(120))),
            "b-4k7q0n2m8x5t already runs the same command in the same directory (for 2m); this is \
             a second one"
        );
        assert!(!second_start_note(first, None).contains('('));
        assert!(refusal_message(first).ends_with(
            "`siding output --follow b-4k7q0n2m8x5t` follows the first, \
             `siding wait b-4k7q0n2m8x5t` waits for its end"
        ));
    }
}
