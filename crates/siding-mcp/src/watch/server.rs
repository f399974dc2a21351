//! A server that is a program: its start, what it says of itself, and its end.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use siding_model::text::one_line;
use tokio::net::unix::pipe;

use super::Say;
use super::connection::Fault;
use super::difference::COLUMNS;

/// What stands before a line that the server wrote to its standard error.
const SAYS: &str = "server:";
/// Bytes of such a line that are kept.
const LINE_MAX: usize = 4 * COLUMNS;
/// Bytes that are read at once.
const BLOCK: usize = 4096;
/// How long a server may take to leave after its input has ended, before it is killed.
const LEAVE: Duration = Duration::from_secs(2);
/// How often is looked whether it has.
const LOOK: Duration = Duration::from_millis(50);

/// A server's process. It is in the tree of this one's task, whose shim ends both.
#[derive(Debug)]
pub(super) struct Process(Child);

/// What it is spoken to through.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) from: pipe::Receiver,
    pub(super) to: pipe::Sender,
}

/// Starts a server.
///
/// # Errors
///
/// [`Fault::Hopeless`] when it is no program that can be executed.
pub(super) fn start(command: &[String], say: &Say) -> Result<(Process, Pipes), Fault> {
    let Some((program, args)) = command.split_first() else {
        return Err(Fault::Hopeless("no server is named".to_owned()));
    };
    let failed = |error: std::io::Error| {
        let why = format!("could not start `{program}`: {error}");
        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) {
            Fault::Hopeless(why)
        } else {
            Fault::Gone(why)
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
    let pipes = pipes(&mut child, say);
    Ok((Process(child), pipes.map_err(failed)?))
}

/// Takes the ends of a process's pipes. What it writes to its standard error is said from now on.
fn pipes(child: &mut Child, say: &Say) -> std::io::Result<Pipes> {
    let missing = || std::io::Error::from(ErrorKind::BrokenPipe);
    let errors = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
    let from = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
    let to = OwnedFd::from(child.stdin.take().ok_or_else(missing)?);
    tokio::spawn(repeat(pipe::Receiver::from_owned_fd(errors)?, Say::clone(say)));
    Ok(Pipes { from: pipe::Receiver::from_owned_fd(from)?, to: pipe::Sender::from_owned_fd(to)? })
}

/// Whether a shell says by its end that there is no such program, or that it may not be executed
/// (POSIX, Shell Command Language, 2.8.2).
pub(super) fn is_no_program(status: ExitStatus) -> bool {
    matches!(status.code(), Some(126 | 127))
}

impl Process {
    /// Returns how it ended, if it has or does so at once.
    pub(super) async fn ended(&mut self, patience: Duration) -> Option<ExitStatus> {
        let mut left = patience;
        loop {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Some(status);
            }
            if left.is_zero() {
                return None;
            }
            tokio::time::sleep(LOOK.min(left)).await;
            left = left.saturating_sub(LOOK);
        }
    }

    /// Waits until it has left, now that its input has ended, and kills it if it does not.
    pub(super) async fn leave(mut self) {
        if self.ended(LEAVE).await.is_none() {
            // It may have ended just now.
            let _gone = self.0.kill();
            let _gone = self.0.wait();
        }
    }
}

/// Says what a server writes to its standard error, line by line.
async fn repeat(errors: pipe::Receiver, say: Say) {
    let mut line: Vec<u8> = Vec::new();
    let mut block = [0; BLOCK];
    let tell = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        if !text.trim().is_empty() {
            say(&one_line(&format!("{SAYS} {}", text.trim_end()), COLUMNS));
        }
        line.clear();
    };
    while errors.readable().await.is_ok() {
        match errors.try_read(&mut block) {
            Ok(0) => break,
            Ok(count) => {
                for &byte in &block[..count] {
                    if byte == b'\n' {
                        tell(&mut line);
                    } else if line.len() < LINE_MAX {
                        line.push(byte);
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    tell(&mut line);
}
