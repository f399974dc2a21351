//! The client side of a connection to a shim.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use siding_model::protocol::{MAX_PACKET_BYTES, ShimMessage, ShimRequest};
use siding_model::terminal::KeysRefusal;

use crate::store::TaskDir;
use crate::store::task_files::SOCKET_NAME;
use crate::sys::{clock, pidfd, poll, procfs, unix_socket};

/// Timeout for a connection to a shim that accepts no connections, in milliseconds. A shim accepts
/// within milliseconds unless it is stopped.
const ACCEPT_TIMEOUT_MS: u64 = 10_000;

/// A connection to the shim of a task.
#[derive(Debug)]
pub struct ShimConnection {
    socket: OwnedFd,
    /// Number of requests whose response has not been received, without those that are
    /// [answered later](ShimRequest::is_answered_later). Responses do not name their request, so
    /// this number tells the response to a request from those to the earlier ones.
    unanswered: AtomicUsize,
}

impl AsFd for ShimConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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

/// The reason why a request to a shim failed. Except after a refusal, the shim may have carried out
/// the request, or may still do so.
#[derive(Debug, thiserror::Error)]
pub enum ShimRequestError {
    /// The shim refused the request because of the state of the task, or does not know the request.
    #[error("{why}")]
    Refused {
        /// The reason that the shim gave, as text.
        why: String,
    },
    /// The terminal of the task has accepted no byte.
    #[error("its terminal does not accept the keys at present")]
    KeysRefused {
        /// The reason.
        refusal: KeysRefusal,
    },
    /// The output does not have the length that the request requires, so nothing was written.
    #[error("its output has changed")]
    OutputDiffers {
        /// Length of the output in bytes.
        bytes: u64,
    },
    /// It is unknown whether the terminal has accepted the bytes.
    #[error("it is unknown whether the keys were typed: {why}")]
    WriteUnconfirmed {
        /// The reason, for a person.
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
        Self { socket, unanswered: AtomicUsize::new(0) }
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
            Ok(socket) => Ok(Some(Self::from_socket(socket))),
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
        unix_socket::send(&self.socket, &packet, true)?;
        if !request.is_answered_later() {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
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
        match unix_socket::receive(&self.socket, MAX_PACKET_BYTES, false) {
            Ok(Some(packet)) => {
                let message: ShimMessage = serde_json::from_slice(&packet)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                if message.is_response() {
                    self.count_response();
                }
                Ok(RecvResult::Message(message))
            }
            Ok(None) => Ok(RecvResult::Disconnected),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(RecvResult::TimedOut),
            Err(error) => Err(error),
        }
    }

    /// Counts a response. If the response to a stop arrives while other requests are unanswered, it
    /// is counted as a response to these: the task has then ended.
    fn count_response(&self) {
        let count = self.unanswered.load(Ordering::Relaxed);
        self.unanswered.store(count.saturating_sub(1), Ordering::Relaxed);
    }

    /// Sends a request and waits until the shim has carried it out. Messages other than responses
    /// that arrive meanwhile are passed to `seen`; responses to earlier requests are discarded.
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
        let mut earlier = self.unanswered.load(Ordering::Relaxed);
        match self.send(request) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Err(ShimRequestError::Disconnected);
            }
            result => result?,
        }
        let until = clock::monotonic_now().plus_ms(timeout_ms);
        loop {
            match self.recv(Some(until.ms_since(clock::monotonic_now())))? {
                RecvResult::Message(message) if message.is_response() && earlier > 0 => {
                    earlier -= 1;
                }
                RecvResult::Message(ShimMessage::Done) => return Ok(()),
                RecvResult::Message(
                    ShimMessage::Refused { why } | ShimMessage::ResizeRefused { why },
                ) => {
                    return Err(ShimRequestError::Refused { why });
                }
                RecvResult::Message(ShimMessage::KeysRefused { refusal }) => {
                    return Err(ShimRequestError::KeysRefused { refusal });
                }
                RecvResult::Message(ShimMessage::OutputDiffers { bytes }) => {
                    return Err(ShimRequestError::OutputDiffers { bytes });
                }
                RecvResult::Message(ShimMessage::WriteUnconfirmed { why }) => {
                    return Err(ShimRequestError::WriteUnconfirmed { why });
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

#[cfg(test)]
mod tests {
    use siding_model::outcome::BackgroundReason;

    use super::*;

    /// A request that the tests send without waiting for its response.
    const SUBSCRIBE: ShimRequest = ShimRequest::Subscribe { follow: true, shown: None };
    const PLACE: ShimRequest = ShimRequest::Place { why: BackgroundReason::User };
    /// Time to wait for a response that the shim has either already sent or will never send, in
    /// milliseconds.
    const TIMEOUT_MS: u64 = 5;

    /// Returns a connection, and the shim's end of it, which has sent these messages.
    fn connect(sent: &[ShimMessage]) -> (ShimConnection, OwnedFd) {
        let (client, shim) = unix_socket::pair().expect("two free descriptors");
        for message in sent {
            let packet = serde_json::to_vec(message).expect("a message is JSON");
            unix_socket::send(&shim, &packet, false).expect("the client is connected");
        }
        (ShimConnection::from_socket(client), shim)
    }

    fn refusal() -> ShimMessage {
        ShimMessage::Refused { why: "no".to_owned() }
    }

    #[test]
    fn the_response_to_an_earlier_request_does_not_answer_a_later_one() {
        let (client, _keeps_alive) = connect(&[ShimMessage::Done, refusal()]);
        client.send(&SUBSCRIBE).expect("the shim is connected");
        let result = client.request(&PLACE, TIMEOUT_MS, drop);
        assert!(matches!(result, Err(ShimRequestError::Refused { .. })), "{result:?}");

        let (client, _keeps_alive) = connect(&[ShimMessage::Done]);
        client.send(&SUBSCRIBE).expect("the shim is connected");
        let result = client.request(&PLACE, TIMEOUT_MS, drop);
        assert!(matches!(result, Err(ShimRequestError::TimedOut { .. })), "{result:?}");
    }

    #[test]
    fn a_response_that_was_received_before_is_not_awaited_again() {
        let done = ShimMessage::Done;
        let (client, _keeps_alive) = connect(&[done.clone(), done.clone(), refusal()]);
        client.send(&SUBSCRIBE).expect("the shim is connected");
        let received = client.try_recv().expect("a message");
        assert_eq!(received, RecvResult::Message(done));
        client.request(&PLACE, TIMEOUT_MS, drop).expect("it is answered");
        let result = client.request(&ShimRequest::Ping, TIMEOUT_MS, drop);
        assert!(matches!(result, Err(ShimRequestError::Refused { .. })), "{result:?}");
    }

    /// A stop is answered when the task has ended, so the next response is that to the next request.
    #[test]
    fn a_stop_does_not_delay_the_response_to_a_later_request() {
        let (client, _keeps_alive) = connect(&[ShimMessage::Done]);
        let stop = ShimRequest::Stop { by: "user".to_owned(), grace_ms: None, signal: None };
        client.send(&stop).expect("the shim is connected");
        client.request(&PLACE, TIMEOUT_MS, drop).expect("it is answered");
    }
}
