//! The client side of a connection to a shim.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_model::protocol::{MAX_PACKET_BYTES, ShimMessage, ShimRequest};

use crate::store::TaskDir;
use crate::store::task_files::SOCKET_NAME;
use crate::sys::{clock, pidfd, poll, procfs, unix_socket};

/// Timeout for a connection to a shim that accepts no connections, in milliseconds. A shim accepts
/// within milliseconds unless it is stopped.
const ACCEPT_TIMEOUT_MS: u64 = 10_000;

/// A connection to the shim of a task.
#[derive(Debug)]
pub struct ShimConnection(OwnedFd);

impl AsFd for ShimConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The result of waiting for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecvResult {
    /// A message from the shim.
    Message(ShimMessage),
    /// No message has arrived within the timeout.
    TimedOut,
    /// The shim has exited, was killed, or has disconnected this client, for example because the
    /// client did not read the shim's messages.
    Disconnected,
}

/// The reason why a request to a shim was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ShimRequestError {
    /// The shim refused the request because of the state of the task, or does not know the request.
    #[error("{why}")]
    Refused {
        /// The reason that the shim gave, as text.
        why: String,
    },
    /// The shim has exited, was killed, or has disconnected this client.
    #[error("the task's shim has exited")]
    Disconnected,
    /// The shim did not reply in time.
    #[error("the task's shim did not answer within {waited_ms} ms")]
    TimedOut {
        /// The timeout of the request, in milliseconds.
        waited_ms: u64,
    },
    /// A system call on the socket failed, or the shim sent an unknown message.
    #[error("could not communicate with the task's shim: {0}")]
    Io(#[from] io::Error),
}

impl ShimConnection {
    /// Wraps one end of a connected socket pair.
    #[must_use]
    pub const fn from_socket(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Connects to a task's shim. `None` if no shim listens.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `TimedOut` if the shim accepts no connections, for example
    /// because it was stopped by a signal.
    pub fn connect(dir: &TaskDir) -> io::Result<Option<Self>> {
        Self::connect_within(dir, ACCEPT_TIMEOUT_MS)
    }

    /// Connects like [`Self::connect`], and waits for at most `timeout_ms` milliseconds for a shim
    /// that accepts no connections.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::connect`].
    pub fn connect_within(dir: &TaskDir, timeout_ms: u64) -> io::Result<Option<Self>> {
        let place = dir.endpoint_dir();
        match place.and_then(|place| unix_socket::connect(place, SOCKET_NAME, timeout_ms)) {
            Ok(socket) => Ok(Some(Self(socket))),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a request without waiting for its answer.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `EPIPE` if the shim has closed the connection.
    pub fn send(&self, request: &ShimRequest) -> io::Result<()> {
        let packet = serde_json::to_vec(request).map_err(io::Error::other)?;
        unix_socket::send(&self.0, &packet, true)
    }

    /// Waits for the next message, for at most `timeout_ms` milliseconds, or without a limit if
    /// that is `None`.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `InvalidData` if the packet is not a known message.
    pub fn recv(&self, timeout_ms: Option<u64>) -> io::Result<RecvResult> {
        let until = timeout_ms.map(|ms| clock::monotonic_now().plus_ms(ms));
        loop {
            let left = until.map(|until| until.ms_since(clock::monotonic_now()));
            let ready = poll::wait_readable(&[self.as_fd()], left)?;
            if ready == [true] {
                return self.try_recv();
            }
            // poll(2) may return early (`EINTR`); the loop waits for the remaining time.
            if left == Some(0) {
                return Ok(RecvResult::TimedOut);
            }
        }
    }

    /// Receives a message without waiting; returns [`RecvResult::TimedOut`] if none has arrived.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::recv`].
    pub fn try_recv(&self) -> io::Result<RecvResult> {
        match unix_socket::receive(&self.0, MAX_PACKET_BYTES, false) {
            Ok(Some(packet)) => serde_json::from_slice(&packet)
                .map(RecvResult::Message)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
            Ok(None) => Ok(RecvResult::Disconnected),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(RecvResult::TimedOut),
            Err(error) => Err(error),
        }
    }

    /// Sends a request and waits until the shim has carried it out. Other messages that arrive
    /// meanwhile are passed to `seen`.
    ///
    /// # Errors
    ///
    /// [`ShimRequestError`].
    pub fn request(
        &self,
        request: &ShimRequest,
        timeout_ms: u64,
        mut seen: impl FnMut(ShimMessage),
    ) -> Result<(), ShimRequestError> {
        match self.send(request) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Err(ShimRequestError::Disconnected);
            }
            result => result?,
        }
        let until = clock::monotonic_now().plus_ms(timeout_ms);
        loop {
            match self.recv(Some(until.ms_since(clock::monotonic_now())))? {
                RecvResult::Message(ShimMessage::Done) => return Ok(()),
                RecvResult::Message(ShimMessage::Refused { why }) => {
                    return Err(ShimRequestError::Refused { why });
                }
                RecvResult::Message(message) => seen(message),
                RecvResult::TimedOut => {
                    return Err(ShimRequestError::TimedOut { waited_ms: timeout_ms });
                }
                RecvResult::Disconnected => return Err(ShimRequestError::Disconnected),
            }
        }
    }
}

/// Resumes a shim that was stopped by a signal, because a stopped shim enforces no deadline.
/// Returns whether the shim was stopped.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn continue_stopped_shim(shim: siding_model::process::ProcRef) -> io::Result<bool> {
    let stopped = procfs::stat(shim.pid)
        .is_some_and(|stat| stat.start_ticks == shim.start_ticks && stat.state == 'T');
    if stopped {
        pidfd::PidFd::open(shim)?.send_signal(siding_model::signal::Signal::CONT)?;
    }
    Ok(stopped)
}
