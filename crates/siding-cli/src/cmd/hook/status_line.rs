//! The text of a host's status line: the number of running tasks, the longest-running one, and the
//! tasks that need input.

use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use super::conversation::Conversation;
use super::host::HookHost;
use super::input::HookInput;
use super::running;
use crate::failure::Failure;

/// Maximum width in columns of the longest-running command, and of a command that needs input.
/// These limits keep the status line within 80 columns.
const LONGEST_COMMAND_COLUMNS: usize = 40;
const ASKING_COMMAND_COLUMNS: usize = 18;

/// Returns the status line for the conversation that `input` names. `input` is the JSON that the
/// host writes to the standard input of its status line program.
pub(crate) fn status_line(input: &[u8]) -> Result<String, Failure> {
    let input = HookInput::parse(input).map_err(|why| {
        Failure::new(format!("the host's JSON on standard input cannot be read: {why}"))
    })?;
    let Some(conversation) = Conversation::from_input(&input, HookHost::ClaudeCode, None)? else {
        return Ok(format_line(&[]));
    };
    let sessions = conversation.sessions()?;
    Ok(format_line(&running::running_tasks(&conversation.root, &sessions, |_| true)?))
}

/// Formats the status line. `views` must be sorted, oldest first.
fn format_line(views: &[TaskView]) -> String {
    let Some(longest) = views.first() else { return "siding: nothing is running".to_owned() };
    let elapsed = format_duration(Duration::from_secs(longest.state_time_ms() / 1000));
    let count = views.len();
    let asking: Vec<&TaskView> = views.iter().filter(|view| needs_input(view)).collect();
    match asking.as_slice() {
        [] => {
            let command = one_line(longest.display_name(), LONGEST_COMMAND_COLUMNS);
            let several = if count > 1 { format!("{count} run, longest ") } else { String::new() };
            format!("siding: {several}{command} for {elapsed}")
        }
        [one] => {
            let command = one_line(one.display_name(), ASKING_COMMAND_COLUMNS);
            format!(
                "siding: {} needs input: {command} · {count} run, longest {elapsed}",
                one.task_id
            )
        }
        [first, ..] => format!(
            "siding: {} need input, {} first · {count} run, longest {elapsed}",
            asking.len(),
            first.task_id
        ),
    }
}

fn needs_input(view: &TaskView) -> bool {
    view.attention.as_ref().is_some_and(|quiet| quiet.verdict.asks_for_input())
}

#[cfg(test)]
mod tests {
    use siding_model::evidence::WhyVerdict;

    use super::*;
    use crate::render::sample::{running_task, sample_attention};

    fn asking_task(verdict: WhyVerdict) -> TaskView {
        TaskView { attention: Some(sample_attention(verdict)), ..running_task() }
    }

    #[test]
    fn the_line_keeps_to_eighty_columns() {
        let long = |view: TaskView| TaskView {
            command: "\u{1b}[2J\u{65e5}long ".repeat(40),
            elapsed_ms: 3 * 3_600_000 + 59 * 60_000 + 59_000,
            ..view
        };
        let asks = long(asking_task(WhyVerdict::PasswordLikely));
        for views in [
            vec![long(running_task())],
            vec![long(running_task()); 99],
            [vec![long(running_task()); 99], vec![asks.clone()]].concat(),
            [vec![long(running_task()); 99], vec![asks; 99]].concat(),
        ] {
            let line = format_line(&views);
            assert_eq!(line, one_line(&line, 80));
        }
    }

    #[test]
    fn a_task_that_needs_input_is_shown_first() {
        let shown = format_line(&[running_task(), asking_task(WhyVerdict::InputWait)]);
        let expected = "siding: b-4k7q0n2m8x5t needs input: npm test · 2 run, longest 15s";
        assert_eq!(shown, expected);
        let shown = format_line(&[running_task(), asking_task(WhyVerdict::Busy)]);
        assert_eq!(shown, "siding: 2 run, longest npm test for 15s");
    }
}
