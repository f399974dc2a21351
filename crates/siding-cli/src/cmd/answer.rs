//! `siding answer`: types a secret of a person into the terminal of a task.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use siding_core::sys::signals::SignalFd;
use siding_core::sys::tty::KeyMode;
use siding_core::sys::{file, poll};
use siding_core::task::terminal::{MAX_SECRET_BYTES, TerminalClient, TerminalError, encode_secret};
use siding_model::id::TaskId;
use siding_model::signal::Signal;
use siding_model::terminal::TerminalUser;

use crate::caller;
use crate::context::{self, LAST_TASK, SHIM_PROGRAM, Task};
use crate::failure::Failure;
use crate::render;
use crate::terminal_replay;

/// The name under which the journal records the writer.
const REQUESTER: &str = "siding answer";

/// Asks a person for the secret that a task waits for, without showing it, and types it.
///
/// The secret goes from this terminal to that of the task. It is in no log, no record and no
/// screen, and no model sees it. Only a person at a terminal can call this command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding answer            the last task
  siding answer b-4k7q     asks with the prompt of the task")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID", default_value = LAST_TASK)]
    id: String,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let task = Task::find(&root, &self.id, false)?;
        let id = task.dir.id();
        // These checks come first, so that the hint below never names a command that would be
        // refused.
        if task.state.spec.terminal.is_none() {
            return Err(terminal_replay::no_terminal_failure(&root, &task));
        }
        if !task.state.is_live() {
            return Err(TerminalError::Ended { id }.into());
        }
        check_person(id)?;
        let user = TerminalUser::Person;
        let mut client = TerminalClient::open(&root, SHIM_PROGRAM, id, user, REQUESTER)?;
        let facts = client.facts()?;
        if facts.input.echo || !facts.input.canonical {
            return Err(Failure::new(format!("{id} does not ask for a secret at present"))
                .with_hint(format!(
                    "`siding screen {id}` shows its screen; `siding attach {id}` types without \
                     siding's help"
                )));
        }
        let screen = terminal_replay::open(id, &task.dir, None)?.screen();
        let prompt = screen.row(usize::from(screen.cursor().row));
        let secret = read_secret(&siding_model::text::make_visible(prompt))?;
        // The shim refuses the secret if the program has stopped asking in the meantime: another
        // program would show it, or run it as a command.
        client.write_secret(&secret)?;
        render::print_note("typed; it was shown nowhere");
        Ok(ExitCode::SUCCESS)
    }
}

/// Rejects every caller except a person at a terminal.
fn check_person(id: TaskId) -> Result<(), Failure> {
    let rule = "only a person at a terminal can answer with a secret";
    let command = format!("siding answer {id}");
    let agent_hint =
        format!("ask the person to run `{command}` in a terminal outside of the agent");
    if !io::stdin().is_terminal() {
        return Err(Failure::new(rule).with_hint(agent_hint));
    }
    caller::require_person_outside_tasks(rule, &command, &agent_hint)
}

/// Reads a line from standard input without showing it. Returns the bytes that type it.
fn read_secret(prompt: &str) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| Failure::new(format!("could not read the secret: {error}"));
    // The mode of the terminal is restored before one of these signals ends this process. Ctrl-Z
    // has no effect here, because the shell would then restore its own mode, which echoes the
    // secret.
    let watched = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP, Signal::TSTP];
    let signals = SignalFd::block(&watched).map_err(failed)?;
    let stdin = io::stdin();
    let mode = KeyMode::enter_hidden(&stdin).map_err(failed)?;
    let text = if prompt.trim().is_empty() { "secret:" } else { prompt.trim() };
    let prompt = |text: &str| {
        let mut stderr = io::stderr().lock();
        stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush())
    };
    prompt(&format!("{text} ")).map_err(failed)?;
    loop {
        let ready = poll::wait_readable(&[stdin.as_fd(), signals.as_fd()], None).map_err(failed)?;
        let received = signals.read_pending();
        if received.iter().any(|signal| *signal != Signal::TSTP) {
            drop(mode);
            prompt("\n").map_err(failed)?;
            return Err(Failure::new("canceled; nothing was typed"));
        }
        if ready.first() == Some(&true) {
            break;
        }
    }
    // A terminal in this mode returns one line per read.
    let mut line = vec![0; MAX_SECRET_BYTES + 2];
    let count = file::read(&stdin, &mut line).map_err(failed)?;
    drop(mode);
    prompt("\n").map_err(failed)?;
    encode_line(line.get(..count).unwrap_or_default())
}

/// Returns the bytes that type the secret in an input line.
fn encode_line(line: &[u8]) -> Result<Vec<u8>, Failure> {
    if line.is_empty() {
        return Err(Failure::new("the input ended before a secret was entered"));
    }
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'));
    let secret = &line[..end.map_or(0, |last| last + 1)];
    encode_secret(secret).map_err(Failure::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_line_is_a_secret() {
        assert_eq!(encode_line(b"hunter2\r\n").ok(), Some(b"hunter2\n".to_vec()));
        assert_eq!(encode_line(b"\n").ok(), Some(b"\n".to_vec()), "an empty password");
        for rejected in [&b""[..], b"a\x12b\n", &[b'x'; MAX_SECRET_BYTES + 1]] {
            assert!(encode_line(rejected).is_err(), "{}", rejected.escape_ascii());
        }
    }
}
