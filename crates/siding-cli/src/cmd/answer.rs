//! `siding answer`: types a secret of a person into the terminal of a task.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use siding_core::sys::signals::SignalFd;
use siding_core::sys::tty::KeyMode;
use siding_core::task::terminal::TerminalClient;
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
        if !io::stdin().is_terminal() || !caller::is_person_by_settings() {
            return Err(Failure::new("only a person at a terminal can answer with a secret")
                .with_hint(format!("ask the person to run `siding answer {id}`")));
        }
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
        let mut secret = read_secret(&siding_model::text::make_visible(prompt))?;
        secret.push(b'\n');
        // The program may have stopped asking in the meantime, and would show what is typed.
        let facts = client.facts()?;
        if facts.input.echo {
            return Err(Failure::new(format!(
                "{id} no longer asks for a secret; nothing was typed"
            ))
            .with_hint(format!("`siding screen {id}` shows its screen")));
        }
        client.write(&secret, None)?;
        render::print_note("typed; it was shown nowhere");
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads a line from standard input without showing it.
fn read_secret(prompt: &str) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| Failure::new(format!("could not read the secret: {error}"));
    // After Ctrl-Z the shell would restore its own mode, in which the secret is shown.
    let keeps_blocked = SignalFd::block(&[Signal::TSTP]).map_err(failed)?;
    let mode = KeyMode::enter_hidden(io::stdin()).map_err(failed)?;
    let mut stderr = io::stderr().lock();
    let text = if prompt.trim().is_empty() { "secret:" } else { prompt.trim() };
    write!(stderr, "{text} ").and_then(|()| stderr.flush()).map_err(failed)?;
    let mut line = Vec::new();
    let count = io::stdin().lock().read_until(b'\n', &mut line).map_err(failed)?;
    drop((mode, keeps_blocked));
    writeln!(stderr).map_err(failed)?;
    if count == 0 {
        return Err(Failure::new("the input ended before a secret was entered"));
    }
    while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        line.pop();
    }
    // A control character such as C-r would show what was typed before it.
    if line.iter().any(u8::is_ascii_control) {
        return Err(Failure::new("the secret contains a control character; nothing was typed"));
    }
    Ok(line)
}
