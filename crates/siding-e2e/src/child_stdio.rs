//! Transfers the bytes of a child's three standard streams without threads. Never waits for an end
//! of file, which a descriptor leaked to another process could delay forever.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

const READ_BUFFER_BYTES: usize = 64 * 1024;

/// This process's ends of a child's standard streams, and the bytes received so far.
#[derive(Debug, Default)]
pub(crate) struct ChildStdio {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    unsent_stdin: Vec<u8>,
    close_when_written: bool,
    /// All bytes read from the child's stdout so far.
    pub(crate) stdout_bytes: Vec<u8>,
    /// All bytes read from the child's stderr so far.
    pub(crate) stderr_bytes: Vec<u8>,
}

impl ChildStdio {
    /// Moves the piped streams out of a child that was just started, and makes them non-blocking.
    pub(crate) fn from_child(child: &mut Child) -> Self {
        let streams = Self {
            stdin: child.stdin.take().map(OwnedFd::from),
            stdout: child.stdout.take().map(OwnedFd::from),
            stderr: child.stderr.take().map(OwnedFd::from),
            ..Self::default()
        };
        let ends = [&streams.stdin, &streams.stdout, &streams.stderr];
        for end in ends.into_iter().flatten() {
            let flags = rustix::fs::fcntl_getfl(end).expect("a pipe has flags");
            rustix::fs::fcntl_setfl(end, flags | rustix::fs::OFlags::NONBLOCK)
                .expect("a pipe can be non-blocking");
        }
        streams
    }

    /// Queues bytes for the child's stdin; they are written while the streams are pumped.
    pub(crate) fn queue_stdin(&mut self, bytes: &[u8]) {
        self.unsent_stdin.extend_from_slice(bytes);
    }

    /// Closes the child's stdin once all queued bytes are written.
    pub(crate) fn close_stdin(&mut self) {
        self.close_when_written = true;
        self.flush_stdin();
    }

    /// Closes this process's ends of the child's stdin and stdout. Queued and unread bytes are
    /// lost.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
        self.stdout = None;
    }

    /// Returns whether stdout or stderr is still open: it was piped, and has neither been closed by
    /// [`Self::hang_up`] nor reached its end of file.
    pub(crate) fn is_output_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Waits at most `timeout` until output arrives, the child's stdin accepts queued bytes, or
    /// `exit` becomes readable. Transfers all bytes that need no further wait, and returns whether
    /// `exit` is readable.
    pub(crate) fn pump(&mut self, exit: Option<BorrowedFd<'_>>, timeout: Duration) -> bool {
        let mut polled = vec![];
        if let Some(exit) = exit {
            polled.push(PollFd::from_borrowed_fd(exit, PollFlags::IN));
        }
        for end in [&self.stdout, &self.stderr].into_iter().flatten() {
            polled.push(PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
        }
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !self.unsent_stdin.is_empty()) {
            polled.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::OUT));
        }
        let patience = Timespec::try_from(timeout).expect("a bounded wait fits a timespec");
        match rustix::event::poll(&mut polled, Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll of a child's streams failed: {error}"),
        }
        let ended = exit.is_some() && !polled[0].revents().is_empty();
        drop(polled);
        self.flush_stdin();
        self.read_output();
        ended
    }

    /// Reads the available bytes. After the child's exit, all bytes that the child wrote are
    /// available, even if another process still holds the stream open.
    pub(crate) fn read_output(&mut self) {
        read_available(&mut self.stdout, &mut self.stdout_bytes);
        read_available(&mut self.stderr, &mut self.stderr_bytes);
    }

    fn flush_stdin(&mut self) {
        while let Some(stdin) = self.stdin.as_ref().filter(|_| !self.unsent_stdin.is_empty()) {
            match rustix::io::write(stdin, &self.unsent_stdin) {
                Ok(written) => drop(self.unsent_stdin.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The child has closed its stdin; the remaining bytes are dropped.
                Err(_) => self.stdin = None,
            }
        }
        if self.close_when_written && self.unsent_stdin.is_empty() {
            self.stdin = None;
        }
    }
}

fn read_available(end: &mut Option<OwnedFd>, into: &mut Vec<u8>) {
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    while let Some(open) = end.as_ref() {
        match rustix::io::read(open, &mut buffer[..]) {
            Ok(0) => *end = None,
            Ok(count) => into.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("read of a child's stream failed: {error}"),
        }
    }
}
