//! The pager, which shows the output of a task in place of the screen.

use std::io;
use std::process::{Command, ExitStatus};

use siding_core::store::StateDir;
use siding_model::id::TaskId;
use siding_model::text::one_line;
use siding_terminal::{SCROLLBACK_ROWS, TerminalHistory, TerminalReplay, full_screen_text};

/// Exit code of a shell that has not found a program.
const NOT_FOUND_CODE: i32 = 127;
/// Maximum width of the pager's command in a message.
const PAGER_COLUMNS: usize = 40;

/// The form in which the pager shows the output of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PagedForm {
    /// The exact bytes.
    Bytes,
    /// The readable text, for output with control sequences, which the pager cannot show.
    Text,
    /// The screen of a full-screen program, after the rows that have left its top.
    Screen,
}

impl PagedForm {
    /// Chooses the form for a task. If the screen of a terminal cannot be computed, chooses
    /// readable text.
    pub(crate) fn choose(root: &StateDir, id: TaskId) -> Self {
        let Ok(dir) = root.task_dir(id) else { return Self::Bytes };
        let Ok(replayed) = dir.read() else { return Self::Bytes };
        let state = replayed.state;
        let Some(terminal) = &state.terminal else { return Self::Bytes };
        let history = TerminalHistory::from(terminal);
        let text = TerminalReplay::open(&dir, &history, None, !state.is_live())
            .and_then(|replay| full_screen_text(&dir, &replay));
        match text {
            Ok(Some(_)) => Self::Screen,
            Ok(None) | Err(_) => Self::Text,
        }
    }

    /// Returns the arguments of siding before the id of the task.
    fn arguments(self) -> String {
        match self {
            Self::Bytes => "output --all".to_owned(),
            Self::Text => "output --max-bytes none".to_owned(),
            Self::Screen => format!("screen --scrollback {SCROLLBACK_ROWS}"),
        }
    }
}

/// Returns the command that shows all output of a task in the pager that the shell text `pager`
/// starts. Unless `LESS` is set, less(1) shows escape sequences other than colors as text.
pub(crate) fn pager_command(pager: &str, id: TaskId, form: PagedForm) -> io::Result<Command> {
    // Ctrl-C is for the pager. A shell without a trap would end before the pager.
    let arguments = form.arguments();
    let script = format!("trap : INT QUIT; \"$1\" {arguments} -- \"$2\" | {pager}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).arg(std::env::current_exe()?).arg(id.to_string());
    if std::env::var_os("LESS").is_none() {
        shell.env("LESS", "R");
    }
    Ok(shell)
}

/// Returns a sentence about a pager that has failed; `None` if it has not.
pub(crate) fn pager_failure(pager: &str, status: ExitStatus) -> Option<String> {
    if status.success() {
        return None;
    }
    let pager = one_line(pager, PAGER_COLUMNS);
    Some(match status.code() {
        Some(NOT_FOUND_CODE) => {
            format!("the pager `{pager}` was not found; set PAGER to an installed one")
        }
        Some(code) => format!("the pager `{pager}` ended with exit code {code}"),
        None => format!("the pager `{pager}` was ended by a signal"),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_failed_pager_is_named() {
        let failure = |raw: i32| pager_failure("bat -p", ExitStatus::from_raw(raw));
        assert_eq!(failure(0), None);
        let missing = failure(127 << 8).expect("a sentence");
        assert!(missing.contains("`bat -p`") && missing.contains("set PAGER"), "{missing}");
        assert!(failure(2 << 8).is_some_and(|text| text.ends_with("exit code 2")));
        assert!(failure(15).is_some_and(|text| text.ends_with("by a signal")));
    }
}
