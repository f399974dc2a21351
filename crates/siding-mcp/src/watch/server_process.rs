//! A server that is a program: its start, what it says of itself, and its end.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use siding_model::text::one_line;
use tokio::net::unix::pipe;

use super::LineOutput;
use super::connection::ConnectionError;
use super::diff::LINE_COLUMNS;

/// What stands before a line that the server wrote to its standard error.
const STDERR_LINE_PREFIX: &str = "server:";
/// Bytes of such a line that are kept.
const MAX_LINE_BYTES: usize = 4 * LINE_COLUMNS;
/// Bytes that are read at once.
const READ_BUFFER_BYTES: usize = 4096;
/// How long a server may take to leave after its input has ended, before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often is looked whether it has.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A server's process. It is in the tree of this one's task, whose shim ends both.
#[derive(Debug)]
pub(super) struct ServerProcess(Child);

/// What it is spoken to through.
#[derive(Debug)]
pub(super) struct ServerPipes {
    pub(super) stdout: pipe::Receiver,
    pub(super) stdin: pipe::Sender,
}

/// Starts a server.
///
/// # Errors
///
/// [`ConnectionError::Permanent`] when it is no program that can be executed.
pub(super) fn start(
    command: &[String],
    say: &LineOutput,
) -> Result<(ServerProcess, ServerPipes), ConnectionError> {
    let Some((program, args)) = command.split_first() else {
        return Err(ConnectionError::Permanent("no server is named".to_owned()));
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

/// Takes the ends of a process's pipes. What it writes to its standard error is said from now on.
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

/// Whether a shell says by its end that there is no such program, or that it may not be executed
/// (POSIX, Shell Command Language, 2.8.2).
pub(super) fn is_missing_program(status: ExitStatus) -> bool {
    matches!(status.code(), Some(126 | 127))
}

impl ServerProcess {
    /// Returns how it ended, if it has or does so at once.
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

    /// Waits until it has left, now that its input has ended, and kills it if it does not.
    pub(super) async fn shutdown(mut self) {
        if self.wait_exit(EXIT_TIMEOUT).await.is_none() {
            // It may have ended just now.
            let _already_ended = self.0.kill();
            let _already_ended = self.0.wait();
        }
    }
}

/// Says what a server writes to its standard error, line by line.
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
