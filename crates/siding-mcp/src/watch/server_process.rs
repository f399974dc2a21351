//! A server process: its start, its standard error, and its end.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use siding_model::text::one_line;
use tokio::net::unix::pipe;

use super::LineOutput;
use super::connection::ConnectionError;
use super::diff::LINE_COLUMNS;

/// The prefix of lines from the server's standard error.
const STDERR_LINE_PREFIX: &str = "server:";
/// Maximum bytes of a line from the server's standard error.
const MAX_LINE_BYTES: usize = 4 * LINE_COLUMNS;
/// Size of a read in bytes.
const READ_BUFFER_BYTES: usize = 4096;
/// Maximum time for a server to exit after its standard input was closed, before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two checks for the exit of the server.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A server's process. The process is in the tree of this program's task, so the shim ends it with
/// the task.
#[derive(Debug)]
pub(super) struct ServerProcess(Child);

/// The pipes over which this program exchanges messages with the server.
#[derive(Debug)]
pub(super) struct ServerPipes {
    pub(super) stdout: pipe::Receiver,
    pub(super) stdin: pipe::Sender,
}

/// Starts a server.
///
/// # Errors
///
/// [`ConnectionError::Permanent`] when the program does not exist or may not be executed;
/// [`ConnectionError::Retryable`] when the system lacks resources, for example.
pub(super) fn start(
    command: &[String],
    say: &LineOutput,
) -> Result<(ServerProcess, ServerPipes), ConnectionError> {
    let Some((program, args)) = command.split_first() else {
        return Err(ConnectionError::Permanent(
            "no server is given; name its program after `--`".to_owned(),
        ));
    };
    let failed = |error: std::io::Error| {
        let why = format!("could not start `{program}`: {error}");
        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) {
            ConnectionError::Permanent(why)
        } else {
            ConnectionError::Retryable(why)
        }
    };
    let piped = Stdio::piped;
    let mut child = Command::new(program)
        .args(args)
        .stdin(piped())
        .stdout(piped())
        .stderr(piped())
        .spawn()
        .map_err(failed)?;
    let pipes = take_pipes(&mut child, say);
    Ok((ServerProcess(child), pipes.map_err(failed)?))
}

/// Takes the pipes of a process, and starts to forward its standard error to `say`.
fn take_pipes(child: &mut Child, say: &LineOutput) -> std::io::Result<ServerPipes> {
    let missing = || std::io::Error::from(ErrorKind::BrokenPipe);
    let errors = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
    let from = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
    let to = OwnedFd::from(child.stdin.take().ok_or_else(missing)?);
    tokio::spawn(forward_stderr(pipe::Receiver::from_owned_fd(errors)?, LineOutput::clone(say)));
    Ok(ServerPipes {
        stdout: pipe::Receiver::from_owned_fd(from)?,
        stdin: pipe::Sender::from_owned_fd(to)?,
    })
}

/// Returns whether a shell reports with this status that the program does not exist or cannot be
/// executed (POSIX, Shell Command Language, 2.8.2).
pub(super) fn is_missing_program(status: ExitStatus) -> bool {
    matches!(status.code(), Some(126 | 127))
}

impl ServerProcess {
    /// Waits up to `max_wait` for the process to exit. Returns the status of the process, or `None`
    /// if the process still runs.
    pub(super) async fn wait_exit(&mut self, max_wait: Duration) -> Option<ExitStatus> {
        let mut remaining = max_wait;
        loop {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Some(status);
            }
            if remaining.is_zero() {
                return None;
            }
            tokio::time::sleep(EXIT_POLL_INTERVAL.min(remaining)).await;
            remaining = remaining.saturating_sub(EXIT_POLL_INTERVAL);
        }
    }

    /// Waits for the process to exit, and kills it after [`EXIT_TIMEOUT`].
    pub(super) async fn shutdown(mut self) {
        if self.wait_exit(EXIT_TIMEOUT).await.is_none() {
            // The process may have just exited, so errors are ignored.
            let _already_ended = self.0.kill();
            let _already_ended = self.0.wait();
        }
    }
}

/// Forwards a server's standard error to `say`, line by line.
async fn forward_stderr(errors: pipe::Receiver, say: LineOutput) {
    let mut line: Vec<u8> = Vec::new();
    let mut block = [0; READ_BUFFER_BYTES];
    let forward = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        if !text.trim().is_empty() {
            say(&one_line(&format!("{STDERR_LINE_PREFIX} {}", text.trim_end()), LINE_COLUMNS));
        }
        line.clear();
    };
    while errors.readable().await.is_ok() {
        match errors.try_read(&mut block) {
            Ok(0) => break,
            Ok(count) => {
                for &byte in &block[..count] {
                    if byte == b'\n' {
                        forward(&mut line);
                    } else if line.len() < MAX_LINE_BYTES {
                        line.push(byte);
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    forward(&mut line);
}
