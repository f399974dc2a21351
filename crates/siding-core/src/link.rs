//! A client's end of the talk with a shim.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_model::protocol::{MAX_PACKET_BYTES, ShimMessage, ShimRequest};

use crate::store::TaskDir;
use crate::sys::{clock, pidfd, poll, procfs, socket};

/// Name of the shim's socket in the task's directory.
pub const NAME: &str = "ctl";

/// A connection to the shim of one task.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a wait for a message gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The shim said something.
    Message(ShimMessage),
    /// The time is over.
    Nothing,
    /// The shim has left, or was killed. The journal tells which.
    Gone,
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The shim says that it makes no sense now.
    #[error("{why}")]
    Refused {
        /// Why.
        why: String,
    },
    /// The shim has left, or was killed.
    #[error("the task's shim has gone")]
    Gone,
    /// The shim did not answer in time.
    #[error("the task's shim did not answer within {waited_ms} ms")]
    Silent {
        /// How long it was given.
        waited_ms: u64,
    },
    /// The operating system refused.
    #[error("could not talk to the task's shim: {0}")]
    Io(#[from] io::Error),
}

impl Link {
    /// Takes over an end of a connected pair.
    #[must_use]
    pub const fn over(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Connects to a task's shim. `None` when no shim is there.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn connect(dir: &TaskDir) -> io::Result<Option<Self>> {
        match dir.place().and_then(|place| socket::connect(place, NAME)) {
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
    /// The operating system's; `EPIPE` when the shim has gone.
    pub fn send(&self, request: &ShimRequest) -> io::Result<()> {
        let packet = serde_json::to_vec(request).map_err(io::Error::other)?;
        socket::send(&self.0, &packet, true)
    }

    /// Waits for the next message, at most `timeout_ms` (`None`: for ever).
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` when the shim speaks another language.
    pub fn hear(&self, timeout_ms: Option<u64>) -> io::Result<Heard> {
        let until = timeout_ms.map(|ms| clock::mono().plus_ms(ms));
        loop {
            let left = until.map(|until| until.ms_since(clock::mono()));
            let ready = poll::wait(&[self.as_fd()], left)?;
            if ready == [true] {
                return self.take();
            }
            // An interrupted wait goes on for the rest of its time.
            if left == Some(0) {
                return Ok(Heard::Nothing);
            }
        }
    }

    /// Takes a message that is there already.
    ///
    /// # Errors
    ///
    /// As [`Self::hear`].
    pub fn take(&self) -> io::Result<Heard> {
        match socket::receive(&self.0, MAX_PACKET_BYTES, false) {
            Ok(Some(packet)) => serde_json::from_slice(&packet)
                .map(Heard::Message)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
            Ok(None) => Ok(Heard::Gone),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Heard::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Sends a request and waits until it was carried out. Pushed records are passed to `seen`.
    ///
    /// # Errors
    ///
    /// [`AskError`].
    pub fn ask(
        &self,
        request: &ShimRequest,
        timeout_ms: u64,
        mut seen: impl FnMut(ShimMessage),
    ) -> Result<(), AskError> {
        match self.send(request) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(AskError::Gone),
            result => result?,
        }
        let until = clock::mono().plus_ms(timeout_ms);
        loop {
            match self.hear(Some(until.ms_since(clock::mono())))? {
                Heard::Message(ShimMessage::Done) => return Ok(()),
                Heard::Message(ShimMessage::Refused { why }) => {
                    return Err(AskError::Refused { why });
                }
                Heard::Message(message) => seen(message),
                Heard::Nothing => return Err(AskError::Silent { waited_ms: timeout_ms }),
                Heard::Gone => return Err(AskError::Gone),
            }
        }
    }
}

/// Continues a shim that somebody stopped: a stopped keeper holds no deadline. Returns whether it
/// was stopped.
///
/// # Errors
///
/// The operating system's.
pub fn continue_stopped_shim(shim: siding_model::process::ProcRef) -> io::Result<bool> {
    let stopped = procfs::stat(shim.pid)
        .is_some_and(|stat| stat.start_ticks == shim.start_ticks && stat.state == 'T');
    if stopped {
        pidfd::PidFd::open(shim)?.send(siding_model::signal::Signal::CONT)?;
    }
    Ok(stopped)
}
