//! What a host's status line says: what runs, what has run longest, and what waits for an answer.

use std::time::Duration;

use siding_model::evidence::Verdict;
use siding_model::report::TaskView;
use siding_model::span::human;
use siding_model::text::one_line;

use super::conversation::Conversation;
use super::host::Host;
use super::input::Input;
use super::running;
use crate::failure::Failure;

/// Columns of a command, of which the line has two at most.
const COMMAND_COLUMNS: usize = 24;

/// Returns the line for a conversation, from what its host writes to a status line's standard input.
pub(crate) fn status_line(input: &[u8]) -> Result<String, Failure> {
    let input = Input::parse(input).map_err(|why| {
        Failure::new(format!("the host's JSON on standard input cannot be read: {why}"))
    })?;
    let Some(conversation) = Conversation::of(&input, Host::ClaudeCode, None)? else {
        return Ok(line(&[]));
    };
    let sessions = conversation.sessions()?;
    Ok(line(&running::tasks(&conversation.root, &sessions, |_| true)?))
}

/// `views` are the oldest first.
fn line(views: &[TaskView]) -> String {
    let command = |view: &TaskView| one_line(view.what(), COMMAND_COLUMNS);
    let Some(longest) = views.first() else { return "siding: nothing runs".to_owned() };
    let elapsed = human(Duration::from_secs(longest.elapsed_ms / 1000));
    let (count, verb) = match views.len() {
        1 => (String::new(), ""),
        count => (format!("{count} run, "), "longest "),
    };
    let runs = format!("{count}{verb}{} for {elapsed}", command(longest));
    let asking: Vec<&TaskView> = views.iter().filter(|view| needs_input(view)).collect();
    let asks = match asking.as_slice() {
        [] => String::new(),
        [one] => format!("{} needs input: {} · ", one.task_id, command(one)),
        [first, ..] => format!("{} need input, {} first · ", asking.len(), first.task_id),
    };
    format!("siding: {asks}{runs}")
}

fn needs_input(view: &TaskView) -> bool {
    view.attention.as_ref().is_some_and(|quiet| {
        matches!(quiet.verdict, Verdict::InputWait | Verdict::InputLikely | Verdict::PasswordLikely)
    })
}
