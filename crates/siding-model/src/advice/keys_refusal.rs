//! The text about keys that were not sent to a task, or that may not have been sent.

use std::time::Duration;

use super::Dialect;
use crate::duration::format_duration;
use crate::id::TaskId;
use crate::terminal::KeysRefusal;
use crate::text::one_line;

/// Maximum number of columns of a prompt inside the text.
const PROMPT_COLUMNS: usize = 200;
/// Maximum number of columns of the reason for a lost answer inside the text.
const REASON_COLUMNS: usize = 400;

/// Returns that no key was sent to a task, the reason, and the next step.
#[must_use]
pub fn keys_refusal_text(refusal: &KeysRefusal, id: TaskId, dialect: Dialect) -> String {
    format!("no key was sent: {}", keys_refusal_reason(refusal, id, dialect))
}

/// Returns that the first characters of an input were sent to a task. `reason` says why the rest
/// was not sent, or may not have been, and names the next step.
#[must_use]
pub fn partly_typed_text(characters: usize, reason: &str) -> String {
    let typed = if characters == 1 {
        "the first character was typed".to_owned()
    } else {
        format!("the first {characters} characters were typed")
    };
    format!("{typed}; for the rest: {reason}")
}

/// Returns that keys of a caller may have been typed, the reason, and the next step.
#[must_use]
pub fn unconfirmed_keys_text(why: &str, id: TaskId, dialect: Dialect) -> String {
    format!(
        "it is unknown whether the keys were typed: {}; read the screen with {} before you type \
         again",
        one_line(why, REASON_COLUMNS),
        dialect.format_task_call("screen", id),
    )
}

/// Returns that the secret of a person may have been typed, the reason, and the next step.
#[must_use]
pub fn unconfirmed_secret_text(why: &str, id: TaskId, dialect: Dialect) -> String {
    format!(
        "it is unknown whether the secret was typed: {}; read the screen with {} before you type \
         it again",
        one_line(why, REASON_COLUMNS),
        dialect.format_task_call("screen", id),
    )
}

/// Returns why keys were not sent to a task, and the next step. A person types the commands in the
/// text that start with `siding attach` and `siding answer`, in every dialect.
#[must_use]
pub fn keys_refusal_reason(refusal: &KeysRefusal, id: TaskId, dialect: Dialect) -> String {
    match refusal {
        KeysRefusal::ScreenChanged { hash } => format!(
            "the screen has changed, and its hash is now {}; read the screen with \
             {}, then decide again",
            one_line(hash, PROMPT_COLUMNS),
            dialect.format_task_call("screen", id),
        ),
        KeysRefusal::PersonHasTerminal { since_ms } => format!(
            "a person has had the terminal for {}; wait until the person gives it \
             back, and then read the screen with {}; another person can type with \
             `siding attach {id}`",
            format_duration(Duration::from_millis(*since_ms)),
            dialect.format_task_call("screen", id),
        ),
        KeysRefusal::SecretRequested { prompt } => {
            let prompt = one_line(prompt.trim(), PROMPT_COLUMNS);
            let asked = if prompt.is_empty() { String::new() } else { format!(" (`{prompt}`)") };
            format!(
                "the program asks for a secret{asked}, which only a person may \
                 type; ask the person to run `siding answer {id}` or `siding attach {id}`; the key \
                 `C-c` alone interrupts the program, and {} stops the task",
                dialect.format_task_call("stop", id),
            )
        }
        KeysRefusal::Ended => format!(
            "the task has ended; read its output with {}",
            dialect.format_task_call("output", id),
        ),
        KeysRefusal::NoTerminal => format!(
            "the task has no terminal; write to its standard input with {}, or \
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
    fn keys_that_may_have_been_typed_are_not_reported_as_refused() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        let why = "the connection to build broke before its answer";
        let text = unconfirmed_keys_text(why, id, Dialect::Tools);
        let expected = "it is unknown whether the keys were typed: the connection to build broke \
                        before its answer; read the screen with `screen` before you type again";
        assert_eq!(text, expected);
        let text = unconfirmed_secret_text(why, id, Dialect::Commands);
        assert!(text.contains("the secret was typed") && text.contains("`siding screen b-4k7q"));
    }

    #[test]
    fn a_partial_input_names_the_number_of_the_typed_characters() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        let refusal = KeysRefusal::PersonHasTerminal { since_ms: 12_000 };
        for dialect in [Dialect::Commands, Dialect::Tools, Dialect::Agent, Dialect::Terminal] {
            let reason = keys_refusal_reason(&refusal, id, dialect);
            let text = partly_typed_text(1024, &reason);
            let start = "the first 1024 characters were typed; for the rest: a person has had";
            assert!(text.starts_with(start), "{text}");
            assert!(!text.contains("no key was sent"), "{text}");
        }
        assert_eq!(partly_typed_text(1, "x"), "the first character was typed; for the rest: x");
    }

    #[test]
    fn a_prompt_cannot_change_the_terminal_of_the_reader() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        let refusal = KeysRefusal::SecretRequested { prompt: "\u{1b}[2JPassword:\n".to_owned() };
        let text = keys_refusal_text(&refusal, id, Dialect::Terminal);
        assert!(!text.contains('\u{1b}') && !text.contains('\n'), "{text:?}");
        let silent = KeysRefusal::SecretRequested { prompt: String::new() };
        let text = keys_refusal_text(&silent, id, Dialect::Commands);
        let way_out = "`C-c` alone interrupts the program, and `siding stop b-4k7q0n2m8x5t` stops";
        assert!(text.contains(way_out), "{text}");
        assert!(text.contains("a secret, which"), "{text}");
    }
}
