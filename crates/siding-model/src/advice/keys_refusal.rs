//! The text about keys that were not sent to a task.

use std::time::Duration;

use super::Dialect;
use crate::duration::format_duration;
use crate::id::TaskId;
use crate::terminal::KeysRefusal;
use crate::text::one_line;

/// Maximum number of columns of a prompt inside the text.
const PROMPT_COLUMNS: usize = 200;

/// Returns why no key was sent to a task, and the next step. A person types the commands in the
/// text that start with `siding attach` and `siding answer`, in every dialect.
#[must_use]
pub fn keys_refusal_text(refusal: &KeysRefusal, id: TaskId, dialect: Dialect) -> String {
    match refusal {
        KeysRefusal::ScreenChanged { hash } => format!(
            "no key was sent: the screen has changed, and its hash is now {}; read the screen with \
             {}, then decide again",
            one_line(hash, PROMPT_COLUMNS),
            dialect.format_task_call("screen", id),
        ),
        KeysRefusal::PersonHasTerminal { since_ms } => format!(
            "no key was sent: a person has had the terminal for {}; wait until the person gives it \
             back, and then read the screen with {}; another person can type with \
             `siding attach {id}`",
            format_duration(Duration::from_millis(*since_ms)),
            dialect.format_task_call("screen", id),
        ),
        KeysRefusal::SecretRequested { prompt } => {
            let prompt = one_line(prompt.trim(), PROMPT_COLUMNS);
            let asked = if prompt.is_empty() { String::new() } else { format!(" (`{prompt}`)") };
            format!(
                "no key was sent: the program asks for a secret{asked}, which only a person may \
                 type; ask the person to run `siding answer {id}` or `siding attach {id}`"
            )
        }
        KeysRefusal::Ended => format!(
            "no key was sent: the task has ended; read its output with {}",
            dialect.format_task_call("output", id),
        ),
        KeysRefusal::NoTerminal => format!(
            "no key was sent: the task has no terminal; write to its standard input with {}, or \
             start the command again with {} and {}",
            dialect.format_task_call("input", id),
            dialect.format_tool("run"),
            dialect.format_option("pty"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_names_the_next_step_in_the_terms_of_its_reader() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        for (refusal, command_step, tool_step) in [
            (
                KeysRefusal::ScreenChanged { hash: "5f3a".to_owned() },
                "now 5f3a; read the screen with `siding screen b-4k7q0n2m8x5t`",
                "now 5f3a; read the screen with `screen`",
            ),
            (
                KeysRefusal::PersonHasTerminal { since_ms: 12_000 },
                "for 12s; wait until the person gives it back",
                "`siding attach b-4k7q0n2m8x5t`",
            ),
            (
                KeysRefusal::SecretRequested { prompt: "[sudo] password for u: ".to_owned() },
                "a secret (`[sudo] password for u:`), which only a person",
                "run `siding answer b-4k7q0n2m8x5t`",
            ),
            (
                KeysRefusal::Ended,
                "read its output with `siding output b-4k7q0n2m8x5t`",
                "read its output with `output`",
            ),
            (
                KeysRefusal::NoTerminal,
                "with `siding input b-4k7q0n2m8x5t`, or start the command again with `siding run` \
                 and --pty",
                "with `input`, or start the command again with `run` and `pty`",
            ),
        ] {
            let text = keys_refusal_text(&refusal, id, Dialect::Commands);
            assert!(text.contains(command_step), "{text}");
            let text = keys_refusal_text(&refusal, id, Dialect::Tools);
            assert!(text.contains(tool_step), "{text}");
        }
    }

    #[test]
    fn a_prompt_cannot_change_the_terminal_of_the_reader() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        let refusal = KeysRefusal::SecretRequested { prompt: "\u{1b}[2JPassword:\n".to_owned() };
        let text = keys_refusal_text(&refusal, id, Dialect::Terminal);
        assert!(!text.contains('\u{1b}') && !text.contains('\n'), "{text:?}");
        let silent = KeysRefusal::SecretRequested { prompt: String::new() };
        let text = keys_refusal_text(&silent, id, Dialect::Commands);
        assert!(text.contains("a secret, which"), "{text}");
    }
}
