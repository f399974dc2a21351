//! `siding answer`: types a secret of a person into the terminal of a task.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::sys::signals::SignalFd;
use siding_core::sys::tty::KeyMode;
use siding_core::sys::{clock, file, poll};
use siding_core::task::terminal::{MAX_SECRET_BYTES, TerminalClient, TerminalError, encode_secret};
use siding_core::task::view::ViewDetail;
use siding_model::id::TaskId;
use siding_model::signal::Signal;
use siding_model::terminal::TerminalUser;
use siding_terminal::{
    LiveTerminal, LiveTerminalError, Screen, TerminalCondition, TerminalWaitEnd, format_changes,
};

use crate::caller;
use crate::context::{self, LAST_TASK, SHIM_PROGRAM, Task};
use crate::failure::Failure;
use crate::render::{self, ended_line, out};
use crate::terminal_replay;

/// The name under which the journal records the writer.
const REQUESTER: &str = "siding answer";
/// Maximum wait for the reaction of the program to the secret, in milliseconds.
const REACTION_MS: u64 = 2_000;
/// Time between two checks for a signal during that wait, in milliseconds.
const SIGNAL_CHECK_MS: u64 = 200;
/// Pause before another look at a program that seems to wait for input, but has written nothing.
const REACTION_PAUSE: Duration = Duration::from_millis(50);

/// Asks a person for the secret that a task waits for, without showing it, and types it.
///
/// The secret goes from this terminal to that of the task. It is in no log, no record and no
/// screen, and no model sees it. Only a person at a terminal can call this command. Ctrl-C and
/// Ctrl-Z cancel it: nothing is typed. Afterwards, the call shows the output of the program until it
/// reads again, for at most 2 s.
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
        let signals = block_signals()?;
        let secret = read_secret(&siding_model::text::make_visible(prompt), &signals)?;
        // The shim refuses the secret if the program has stopped asking in the meantime: another
        // program would show it, or run it as a command.
        client.write_secret(&secret)?;
        // The connection has the lease of the terminal.
        drop(client);
        render::print_note("typed; it was shown nowhere");
        show_reaction(&root, id, &screen, &signals)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows the output of the program after the secret, and the end of the task. `before` is the screen
/// with the prompt. The secret was typed, so a failed wait is no failure of the call.
fn show_reaction(
    root: &StateDir,
    id: TaskId,
    before: &Screen,
    signals: &SignalFd,
) -> Result<(), Failure> {
    let end = match wait_for_reaction(root, id, before, signals) {
        Ok(end) => end,
        Err(LiveTerminalError::Terminal(TerminalError::Ended { .. })) => TerminalWaitEnd::Ended,
        Err(_) => TerminalWaitEnd::TimedOut,
    };
    let task = Task::read(root, id)?;
    let after = terminal_replay::open(id, &task.dir, None)?.screen();
    if has_new_text(before, &after) {
        out::print(&format_changes(before, &after, &[]))?;
    }
    match end {
        TerminalWaitEnd::Met => {}
        TerminalWaitEnd::TimedOut => {
            render::print_note(&format!("{id} continues; `siding screen {id}` shows its screen"));
        }
        TerminalWaitEnd::Ended => {
            errln!("siding: {}", ended_line(&task.view(root, ViewDetail::Brief)));
        }
    }
    Ok(())
}

/// Waits until the program has written something and reads again, or has ended. A signal ends the
/// wait.
fn wait_for_reaction(
    root: &StateDir,
    id: TaskId,
    before: &Screen,
    signals: &SignalFd,
) -> Result<TerminalWaitEnd, LiveTerminalError> {
    let mut terminal = LiveTerminal::open(root, SHIM_PROGRAM, id, TerminalUser::Person, REQUESTER)?;
    let until = clock::monotonic_now().plus_ms(REACTION_MS);
    loop {
        let left = until.ms_since(clock::monotonic_now());
        match terminal.wait(&TerminalCondition::Input, left.min(SIGNAL_CHECK_MS))? {
            TerminalWaitEnd::Ended => return Ok(TerminalWaitEnd::Ended),
            TerminalWaitEnd::Met if has_new_text(before, &terminal.screen()?) => {
                return Ok(TerminalWaitEnd::Met);
            }
            // A program of another user, such as sudo, seems to read while it checks the secret.
            TerminalWaitEnd::Met => thread::sleep(REACTION_PAUSE),
            TerminalWaitEnd::TimedOut => {}
        }
        if left == 0 || !signals.read_pending().is_empty() {
            return Ok(TerminalWaitEnd::TimedOut);
        }
    }
}

/// Returns whether the second screen has text that is not on the first one. The line end after a
/// prompt may have scrolled the screen.
fn has_new_text(before: &Screen, after: &Screen) -> bool {
    let texts = |screen: &Screen| {
        let rows = screen.rows().filter(|row| !row.is_empty());
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    !texts(before).ends_with(&texts(after))
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

/// Blocks the signals that cancel the call, and returns the descriptor that receives them.
fn block_signals() -> Result<SignalFd, Failure> {
    // The mode of the terminal is restored before one of these signals ends this process. Ctrl-Z
    // also cancels: a stopped process would leave the prompt to the shell, whose mode echoes the
    // secret, and a process that ignored the key would read the next command of the person as the
    // secret.
    let watched = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP, Signal::TSTP];
    SignalFd::block(&watched).map_err(read_failure)
}

fn read_failure(error: io::Error) -> Failure {
    Failure::new(format!("could not read the secret: {error}"))
}

/// Reads a line from standard input without showing it. Returns the bytes that type it. A signal
/// cancels the call.
fn read_secret(prompt: &str, signals: &SignalFd) -> Result<Vec<u8>, Failure> {
    let stdin = io::stdin();
    let mode = KeyMode::enter_hidden(&stdin).map_err(read_failure)?;
    let text = if prompt.trim().is_empty() { "secret:" } else { prompt.trim() };
    let prompt = |text: &str| {
        let mut stderr = io::stderr().lock();
        stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush())
    };
    prompt(&format!("{text} ")).map_err(read_failure)?;
    loop {
        let ready =
            poll::wait_readable(&[stdin.as_fd(), signals.as_fd()], None).map_err(read_failure)?;
        if !signals.read_pending().is_empty() {
            drop(mode);
            prompt("\n").map_err(read_failure)?;
            return Err(Failure::new("canceled; nothing was typed"));
        }
        if ready.first() == Some(&true) {
            break;
        }
    }
    // A terminal in this mode returns one line per read.
    let mut line = vec![0; MAX_SECRET_BYTES + 2];
    let count = file::read(&stdin, &mut line).map_err(read_failure)?;
    drop(mode);
    prompt("\n").map_err(read_failure)?;
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
    use siding_model::terminal::TerminalSize;
    use siding_terminal::Emulator;

    use super::*;

    #[test]
    fn a_line_end_after_a_prompt_is_no_new_text() {
        let screen = |bytes: &[u8]| {
            let mut emulator = Emulator::new(TerminalSize { columns: 20, rows: 2 });
            emulator.feed(bytes);
            emulator.screen()
        };
        let before = screen(b"$ sudo true\r\nPassword: ");
        assert!(!has_new_text(&before, &before));
        assert!(!has_new_text(&before, &screen(b"$ sudo true\r\nPassword: \r\n")));
        assert!(has_new_text(&before, &screen(b"$ sudo true\r\nPassword: \r\nSorry.")));
        assert!(has_new_text(&before, &screen(b"$ sudo true\r\nPassword: ok")));
    }

    #[test]
    fn only_a_complete_line_is_a_secret() {
        assert_eq!(encode_line(b"hunter2\r\n").ok(), Some(b"hunter2\n".to_vec()));
        assert_eq!(encode_line(b"\n").ok(), Some(b"\n".to_vec()), "an empty password");
        for rejected in [&b""[..], b"a\x12b\n", &[b'x'; MAX_SECRET_BYTES + 1]] {
            assert!(encode_line(rejected).is_err(), "{}", rejected.escape_ascii());
        }
    }
}
