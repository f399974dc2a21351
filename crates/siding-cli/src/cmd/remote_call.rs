//! Calls about tasks of another machine, which the siding there carries out: a task that another
//! machine has sent there has no mirror on this one.

use std::io::{self, BufRead as _, BufReader, IsTerminal as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

use siding_core::remote::ssh;
use siding_core::task::run::{UnknownExecutor, remote_executor};
use siding_model::executor::{LOCAL_EXECUTOR, SLURM_EXECUTOR};
use siding_model::remote::RemoteMessage;
use siding_model::text::make_visible;

use super::executors::program_copy;
use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::render::out;

/// The exit code of ssh if it cannot connect, or the connection breaks.
const SSH_FAILED: i32 = 255;

/// The option `--on` of a command about tasks.
#[derive(Debug, clap::Args)]
pub(super) struct RemoteCall {
    /// Run the command on the machine of this executor, for tasks that `siding ps --on` lists there
    #[arg(long, value_name = "EXECUTOR")]
    on: Option<String>,
}

impl RemoteCall {
    /// Carries out the call of this process on the machine of the executor, and returns the exit
    /// code of siding there. `None` if the tasks are on this machine, which has also those that it
    /// has submitted to a cluster.
    pub(super) fn run(&self) -> Result<Option<ExitCode>, Failure> {
        let Some(name) = self.on.as_deref().filter(|name| *name != LOCAL_EXECUTOR) else {
            return Ok(None);
        };
        let settings = context::load_settings()?;
        let executor = match settings.executor.get(name) {
            Some(executor) if executor.host.is_some() => executor,
            Some(_) => return Ok(None),
            None if name == SLURM_EXECUTOR => return Ok(None),
            None => return Err(UnknownExecutor::new(name, &settings.executor).into()),
        };
        let copy = program_copy(&settings.executor)?;
        let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        let words = without_executor(words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let executor = remote_executor(name, executor);
        let mut command = ssh::query_command(&executor, copy.as_ref(), &words);
        pass_output(name, &mut command).map(Some)
    }
}

/// Returns the words of a call without the option `--on`.
fn without_executor(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--on" {
            words.next();
        } else if !word.starts_with("--on=") {
            kept.push(word);
        }
    }
    kept
}

/// Runs a query, and passes its output on as it arrives. Returns its exit code.
fn pass_output(name: &str, command: &mut Command) -> Result<ExitCode, Failure> {
    let failure = |error: io::Error| Failure::new(format!("{name}: could not run `ssh`: {error}"));
    let mut ssh = command.stdin(Stdio::null()).spawn().map_err(failure)?;
    let messages = ssh.stderr.take().map(|stderr| {
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                // The text comes from another machine.
                errln!("{}", make_visible(&String::from_utf8_lossy(&line)));
            }
        })
    });
    let passed = pass_answer(name, &mut ssh);
    if !matches!(passed, Ok(true)) {
        // The reader has closed the pipe, or there is no answer to read.
        let _ended_already = ssh.kill();
    }
    let status = ssh.wait().map_err(failure)?;
    if let Some(messages) = messages {
        let _best_effort = messages.join();
    }
    passed?;
    match status.code() {
        Some(SSH_FAILED) => {
            Err(Failure::new(format!("{name} cannot be reached over ssh (code 255)"))
                .with_hint(format!("`siding executors --check {name}` shows the reason")))
        }
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(exit::SIDING_FAILED))),
        None => Ok(ExitCode::from(exit::SIDING_FAILED)),
    }
}

/// Prints the answer of siding on the other machine. Returns false if nothing reads it.
fn pass_answer(name: &str, ssh: &mut Child) -> Result<bool, Failure> {
    let Some(stdout) = ssh.stdout.take() else { return Ok(false) };
    let mut reader = BufReader::new(stdout);
    let failure = |error| Failure::new(format!("{name}: the output cannot be read: {error}"));
    if !ssh::skip_to_answer(&mut reader).map_err(failure)? {
        return Ok(true);
    }
    // A program that reads the output receives the exact bytes, as from a task of this machine.
    let is_terminal = io::stdout().is_terminal();
    let (mut line, mut is_first) = (Vec::new(), true);
    while reader.read_until(b'\n', &mut line).map_err(failure)? > 0 {
        if is_first && matches!(serde_json::from_slice(&line), Ok(RemoteMessage::Missing { .. })) {
            return Err(Failure::new(format!(
                "{name} has no siding, because no task was sent there"
            )));
        }
        is_first = false;
        let bytes = if is_terminal { visible_line(&line).into_bytes() } else { line.clone() };
        if out::map_broken_pipe(out::write(&bytes))?.is_none() {
            return Ok(false);
        }
        line.clear();
    }
    Ok(true)
}

/// Returns a line in which a terminal executes nothing.
fn visible_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    match text.strip_suffix('\n') {
        Some(text) => make_visible(text) + "\n",
        None => make_visible(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_machine_receives_the_call_without_the_executor() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for call in ["wait --on build b-x --timeout 1m", "wait b-x --timeout 1m --on=build"] {
            assert_eq!(without_executor(words(call)), words("wait b-x --timeout 1m"), "{call}");
        }
        assert_eq!(without_executor(words("output --only b-x")), words("output --only b-x"));
    }

    #[test]
    fn a_line_for_a_terminal_has_no_escape_sequence() {
        assert_eq!(visible_line(b"plain\n"), "plain\n");
        assert!(!visible_line(b"\x1b]0;title\x07x").contains('\x1b'));
    }
}
