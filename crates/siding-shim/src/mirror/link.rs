//! The ssh process of a mirror, or the local siding in its place, and the messages over its pipes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};

use siding_core::remote::ssh;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{file, pipe, poll, signals};
use siding_model::remote::{MessageDecoder, ReceivedMessage, RemoteRequest, UnreadableMessage};

/// Size of the pipe to ssh, in bytes: the largest that an ordinary user can create by default. The
/// first request is written before ssh reads it, and must fit.
pub(super) const REQUEST_PIPE_BYTES: usize = 1 << 20;
/// Maximum number of bytes that one read receives.
const RECEIVE_BYTES: usize = 64 << 10;
/// Maximum number of bytes of the standard error that are kept.
const MAX_ERROR_BYTES: usize = 4096;
/// Time in which ssh exits after it has closed its output, in milliseconds.
const EXIT_TIMEOUT_MS: u64 = 1_000;

/// A running ssh. Dropping the value terminates ssh.
#[derive(Debug)]
pub(super) struct RemoteLink {
    ssh: Child,
    /// The write end of the standard input; `None` if a file is the input.
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
    decoder: MessageDecoder,
    /// The last part of the standard error.
    errors: Vec<u8>,
}

impl RemoteLink {
    /// Starts ssh. The command must have pipes as its standard output and standard error.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        // A `ProxyCommand` of ssh that inherited blocked signals could not be terminated.
        signals::unblock_in_child(command);
        let mut ssh = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("could not start `ssh`: {error}"))
        })?;
        let stdin = ssh.stdin.take().map(OwnedFd::from);
        if let Some(stdin) = &stdin {
            // With a smaller pipe, only a short request can be sent.
            let _best_effort = pipe::set_size(stdin, REQUEST_PIPE_BYTES);
        }
        let stderr = ssh.stderr.take().map(OwnedFd::from);
        let stdout = ssh.stdout.take().map(OwnedFd::from);
        let stdout = stdout.ok_or_else(|| io::Error::other("ssh has no pipe as its output"))?;
        Ok(Self {
            ssh,
            stdin,
            stdout,
            stderr,
            decoder: MessageDecoder::default(),
            errors: Vec::new(),
        })
    }

    /// Returns the descriptor that becomes readable when a message arrives or ssh exits.
    pub(super) fn messages_source(&self) -> BorrowedFd<'_> {
        self.stdout.as_fd()
    }

    /// Returns the descriptor of the standard error, until its end.
    pub(super) fn errors_source(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(AsFd::as_fd)
    }

    /// Returns the capacity of the pipe to ssh.
    pub(super) fn request_pipe_bytes(&self) -> usize {
        self.stdin.as_ref().and_then(|stdin| pipe::capacity(stdin).ok()).unwrap_or(0)
    }

    /// Sends a request, and the bytes that follow it, without waiting. Fails if ssh has not read
    /// earlier requests, as on a stalled connection.
    pub(super) fn send(&mut self, request: &RemoteRequest, bytes: &[u8]) -> io::Result<()> {
        let stdin = self.stdin.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = serde_json::to_vec(request).map_err(io::Error::other)?;
        line.push(b'\n');
        line.extend_from_slice(bytes);
        for piece in line.chunks(poll::PIPE_BLOCK_BYTES) {
            if !poll::wait_writable(stdin.as_fd(), 0)? {
                let why = "a request is larger than 1 MiB, or the connection is stalled";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
            }
            file::write(stdin, piece)?;
        }
        Ok(())
    }

    /// Reads the available bytes. Returns false at the end of ssh's output.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
        if !poll::is_readable(self.stdout.as_fd()) {
            return Ok(true);
        }
        let mut bytes = vec![0; RECEIVE_BYTES];
        let count = file::read(&self.stdout, &mut bytes)?;
        self.decoder.push(&bytes[..count]);
        Ok(count > 0)
    }

    /// Returns the next received message.
    pub(super) fn next_message(&mut self) -> Result<Option<ReceivedMessage>, UnreadableMessage> {
        self.decoder.next_message()
    }

    /// Reads the available part of the standard error.
    pub(super) fn receive_errors(&mut self) {
        let is_readable = |stderr: &&OwnedFd| poll::is_readable(stderr.as_fd());
        let Some(stderr) = self.stderr.as_ref().filter(is_readable) else { return };
        let mut bytes = [0; MAX_ERROR_BYTES];
        let count = file::read(stderr, &mut bytes).unwrap_or(0);
        if count == 0 {
            self.stderr = None;
        }
        self.errors.extend_from_slice(&bytes[..count]);
        let excess = self.errors.len().saturating_sub(MAX_ERROR_BYTES);
        self.errors.drain(..excess);
    }

    /// Waits for an ssh that has closed its output, and terminates it after a time limit. Returns
    /// its exit status, and its last message on the standard error, if any.
    pub(super) fn close(mut self) -> (Option<ExitStatus>, Option<String>) {
        self.stdin = None;
        // A kill before the exit would replace the exit status.
        if let Ok(ssh) = PidFd::open_pid(i32::try_from(self.ssh.id()).unwrap_or(0)) {
            let _ended_or_not = poll::wait_readable(&[ssh.as_fd()], Some(EXIT_TIMEOUT_MS));
        }
        while self.stderr.as_ref().is_some_and(|stderr| poll::is_readable(stderr.as_fd())) {
            self.receive_errors();
        }
        let status = self.end();
        (status, ssh::last_message(&self.errors))
    }

    /// Terminates ssh unless it has exited.
    fn end(&mut self) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.ssh.try_wait() {
            return Some(status);
        }
        let _already_ended = self.ssh.kill();
        // SIGKILL terminates ssh promptly, even on a stalled connection.
        self.ssh.wait().ok()
    }
}

impl Drop for RemoteLink {
    fn drop(&mut self) {
        let _status = self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use siding_model::remote::{ForwardedRequest, RemoteMessage};

    use super::*;

    fn start(script: &str) -> RemoteLink {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        RemoteLink::start(&mut command).expect("sh")
    }

    fn wait_for_end(link: &mut RemoteLink) {
        let mut is_open = true;
        while is_open {
            let _ready = poll::wait_readable(&[link.messages_source()], None).expect("a pipe");
            is_open = link.receive().expect("a pipe");
        }
    }

    #[test]
    fn messages_and_the_last_error_are_received() {
        let mut link = start("echo first >&2; echo '{\"say\":\"unknown\"}'; echo last >&2; exit 3");
        wait_for_end(&mut link);
        let message = link.next_message().expect("valid");
        assert_eq!(message, Some(ReceivedMessage::Message(RemoteMessage::Unknown)));
        let (_, why) = link.close();
        assert_eq!(why.as_deref(), Some("last"));
    }

    #[test]
    fn a_reader_that_does_not_read_never_blocks() {
        let mut link = start("exec sleep 60");
        let request = RemoteRequest::Forward(ForwardedRequest {
            number: 1,
            client: None,
            request: siding_model::protocol::ShimRequest::Release { by: "x".repeat(600 << 10) },
        });
        link.send(&request, &[]).expect("it fits");
        let error = link.send(&request, &[]).expect_err("the pipe is full");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // Dropping the link terminates `sleep`.
    }
}
