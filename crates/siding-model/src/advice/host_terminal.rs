//! The texts about the terminal of an adopted task, which siding has not opened.

use super::Dialect;
use crate::id::TaskId;
use crate::text::one_line;

/// Maximum width in columns of the path of a terminal.
const PATH_COLUMNS: usize = 60;

/// Returns the reason why siding cannot use the terminal at this path. The path is untrusted.
#[must_use]
pub fn host_terminal_text(id: TaskId, path: &str) -> String {
    let path = one_line(path, PATH_COLUMNS);
    format!(
        "{id} runs on {path}, a terminal that siding has not opened: its screen cannot be read, and \
         nothing can be typed there"
    )
}

/// Returns the next steps after [`host_terminal_text`].
#[must_use]
pub fn host_terminal_advice(id: TaskId, dialect: Dialect) -> String {
    format!(
        "the program that has opened the terminal shows it and types there; {} says whether the \
         command waits for input, and {} with {} starts a command whose terminal siding shows",
        dialect.format_task_call("why", id),
        dialect.format_tool("run"),
        dialect.format_option("pty"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_steps_are_in_the_terms_of_the_reader() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        for (dialect, why, run) in [
            (Dialect::Commands, "`siding why b-4k7q0n2m8x5t` says", "`siding run` with --pty"),
            (Dialect::Tools, "`why` says", "`run` with `pty`"),
            (Dialect::Agent, "`task_why` says", "`bash` with `pty`"),
        ] {
            let text = host_terminal_advice(id, dialect);
            assert!(text.contains(why) && text.contains(run), "{text}");
        }
    }

    #[test]
    fn a_path_cannot_control_the_terminal_of_the_reader() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        let text = host_terminal_text(id, "/dev/\u{1b}[2J");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
