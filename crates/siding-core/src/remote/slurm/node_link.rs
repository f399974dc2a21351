//! The connection to siding on the node of a running job, over srun(1). It transmits only requests
//! and responses: the records and the output are read from the shared directory.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};

use siding_model::id::TaskId;
use siding_model::protocol::ShimMessage;
use siding_model::remote::{
    ForwardedRequest, MessageDecoder, REMOTE_PROTOCOL, ReceivedMessage, RemoteMessage,
    RemotePosition, RemoteRequest,
};

use super::super::pending_request::PendingRequest;
use super::super::ssh;
use super::commands;
use crate::sys::poll;

/// Maximum wait for the last message of srun, in milliseconds.
const EXIT_TIMEOUT_MS: u64 = 1_000;

/// A running srun. Dropping the value terminates srun; the task continues.
#[derive(Debug)]
pub(super) struct NodeLink {
    srun: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    decoder: MessageDecoder,
    /// The unanswered requests, oldest first.
    pending: VecDeque<PendingRequest>,
}

impl NodeLink {
    /// Starts srun for the task of a job. `state_dir` is the state directory of the attempt.
    pub(super) fn start(
        id: TaskId,
        job_id: &str,
        program: &Path,
        state_dir: &Path,
    ) -> io::Result<Self> {
        let mut srun = commands::node_command(job_id, program, state_dir).spawn()?;
        let (Some(stdin), Some(stdout)) = (srun.stdin.take(), srun.stdout.take()) else {
            return Err(io::Error::other("srun has no pipes"));
        };
        let mut link = Self {
            srun,
            stdin,
            stdout,
            decoder: MessageDecoder::default(),
            pending: VecDeque::new(),
        };
        // No records or output exist after this position, so only responses arrive.
        let position = RemotePosition { records: u64::MAX, bytes: u64::MAX, attempt: 0 };
        let protocol = REMOTE_PROTOCOL;
        link.send(&RemoteRequest::Follow { protocol, task_id: id, position, job: None })?;
        Ok(link)
    }

    /// Returns the descriptor that becomes readable when a response arrives or srun exits.
    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.stdout.as_fd()
    }

    /// Sends a request to the shim.
    pub(super) fn forward(&mut self, forwarded: ForwardedRequest) -> io::Result<()> {
        self.pending.push_back((&forwarded).into());
        self.send(&RemoteRequest::Forward(forwarded))
    }

    fn send(&mut self, request: &RemoteRequest) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stdin.write_all(&line)
    }

    /// Reads once, and appends the complete messages. Blocks if no data is available. Returns false
    /// at the end of srun's output.
    pub(super) fn receive(&mut self, messages: &mut Vec<(u64, ShimMessage)>) -> io::Result<bool> {
        let mut bytes = [0; 16 << 10];
        let count = self.stdout.read(&mut bytes)?;
        self.decoder.push(&bytes[..count]);
        while let Some(received) = self.decoder.next_message().map_err(io::Error::other)? {
            if let ReceivedMessage::Message(RemoteMessage::Shim { number, message }) = received {
                if message.is_response() {
                    self.pending.retain(|pending| pending.number != number);
                }
                messages.push((number, message));
            }
        }
        Ok(count > 0)
    }

    /// Terminates srun, and thereby the step. Returns the unanswered requests, and the last message
    /// of srun.
    pub(super) fn close(mut self) -> (Vec<PendingRequest>, Option<String>) {
        let pending = std::mem::take(&mut self.pending).into();
        let _ended_already = self.srun.kill();
        let mut text = Vec::new();
        // A second process of srun holds the pipe until the cluster has answered that process.
        if let Some(mut stderr) = self.srun.stderr.take() {
            let mut bytes = [0; 4096];
            while poll::wait_readable(&[stderr.as_fd()], Some(EXIT_TIMEOUT_MS))
                .is_ok_and(|ready| ready.first() == Some(&true))
            {
                match stderr.read(&mut bytes) {
                    Ok(count) if count > 0 => text.extend_from_slice(&bytes[..count]),
                    Ok(_) | Err(_) => break,
                }
            }
        }
        (pending, ssh::last_message(&text))
    }
}

impl Drop for NodeLink {
    fn drop(&mut self) {
        let _ended_already = self.srun.kill();
        let _status = self.srun.wait();
    }
}
