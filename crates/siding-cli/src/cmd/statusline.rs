//! `siding statusline`: prints one line for the status line of an agent program.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::hook::status_line;
use crate::failure::Failure;
use crate::render::out;

/// Maximum size of the input, in bytes; hosts write a few KiB.
const INPUT_MAX_BYTES: u64 = 1 << 20;
/// Maximum size of the output of the `--before` command, in bytes.
const OUTPUT_MAX_BYTES: u64 = 64 << 10;
/// Maximum time for the `--before` command. A host kills a status line program that still runs at
/// the next update, and siding's own line would then be lost too.
const PREVIOUS_LINE_TIMEOUT: Duration = Duration::from_secs(5);

/// Prints one line about the tasks of a conversation: how many run, the longest-running one, and
/// those that need an answer.
///
/// Reads what Claude Code writes to its status line program: a JSON object with the session_id.
/// `siding install claude-code --statusline` adds this command to the settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding statusline < event.json
  siding statusline --before ~/.claude/my-line.sh
  siding install claude-code --statusline --dry-run

The command of --before gets the same input, and its output is printed first.")]
pub(crate) struct Args {
    /// Run this command line in a shell, and print its output above siding's line
    #[arg(long, value_name = "COMMAND")]
    before: Option<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut input = Vec::new();
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            // After a read error the input is incomplete, and parsing it below reports that.
            let _best_effort = stdin.lock().take(INPUT_MAX_BYTES).read_to_end(&mut input);
        }
        // The command is started before the status line is computed, so that both run concurrently.
        let previous =
            self.before.as_deref().map(|command| PreviousStatusLine::start(command, &input));
        let line = status_line(&input);
        let mut text = match previous.transpose()? {
            Some(previous) => previous.wait_for_output(),
            None => Vec::new(),
        };
        if !text.is_empty() && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        match line {
            Ok(line) => text.extend(format!("{line}\n").into_bytes()),
            // A failure is only reported, so that the output of the `--before` command is still
            // printed.
            Err(failure) => {
                failure.report();
            }
        }
        let _peer_gone = out::map_broken_pipe(out::write(&text))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The running `--before` command.
struct PreviousStatusLine {
    child: Child,
    output: Receiver<Vec<u8>>,
}

impl PreviousStatusLine {
    fn start(command: &str, input: &[u8]) -> Result<Self, Failure> {
        let failed = |error| Failure::new(format!("could not run the other status line: {error}"));
        let mut child = Command::new("/bin/sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.to_vec();
            let write = move || {
                let _peer_gone = stdin.write_all(&input);
            };
            std::thread::Builder::new().spawn(write).map_err(failed)?;
        }
        let (sender, output) = channel();
        if let Some(stdout) = child.stdout.take() {
            let read = move || {
                let mut text = Vec::new();
                let _best_effort = stdout.take(OUTPUT_MAX_BYTES).read_to_end(&mut text);
                let _receiver_dropped = sender.send(text);
            };
            std::thread::Builder::new().spawn(read).map_err(failed)?;
        }
        Ok(Self { child, output })
    }

    /// Returns the command's output, or nothing if it is incomplete after `PREVIOUS_LINE_TIMEOUT`.
    /// Kills the command's shell if the shell still runs.
    fn wait_for_output(mut self) -> Vec<u8> {
        let text = self.output.recv_timeout(PREVIOUS_LINE_TIMEOUT).unwrap_or_default();
        let _already_ended = self.child.kill();
        let _already_ended = self.child.wait();
        text
    }
}
