//! Writes to and closes the standard input of a task.

use std::ffi::CStr;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_model::id::{TaskId, TaskKind};
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::size::size_in_words;
use siding_model::spec::StdinMode;

use crate::store::task_files::INPUT_FIFO;
use crate::store::{StateDir, TaskDir};
use crate::sys::{clock, file, poll};
use crate::task::watch::{TaskWatch, WatchError};

/// Time that a task may leave a full input pipe unread, in milliseconds.
const UNREAD_MS: u64 = 10_000;
/// Timeout for the shim's reply to a request about the input, in milliseconds.
const SHIM_REPLY_TIMEOUT_MS: u64 = 10_000;

/// The reason why a task's input could not be opened, written or closed.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The task has ended.
    #[error("task {id} has ended and no longer reads its input")]
    Ended {
        /// The id of the task that has ended.
        id: TaskId,
    },
    /// The task was started without an input pipe: its input is `/dev/null`, or a file or pipe of
    /// its caller.
    #[error("task {id} has no input pipe: it reads /dev/null, or a file of its caller")]
    NoPipe {
        /// The id of the task that has no input pipe.
        id: TaskId,
    },
    /// The task reads a terminal of its own.
    #[error("task {id} has a terminal and no input pipe; `siding keys {id}` types into it")]
    Terminal {
        /// The id of the task that has a terminal.
        id: TaskId,
    },
    /// The task is a teammate: its process only records what its host reports and reads no input.
    #[error("task {id} is a teammate and reads only messages of its host (`send_message`)")]
    Teammate {
        /// The id of the teammate's task.
        id: TaskId,
    },
    /// A caller closed the input, no process of the task reads it, or its FIFO is not
    /// reachable on this machine.
    #[error("the input of task {id} is closed: a caller closed it, or the task stopped reading")]
    Closed {
        /// The id of the task whose input is closed.
        id: TaskId,
    },
    /// The input pipe stayed full for 10 s, because the task does not read its input.
    #[error(
        "task {id} has not read its input for {} s; at least {} of it could not be written",
        UNREAD_MS / 1000,
        size_in_words(*left_bytes as u64)
    )]
    Unread {
        /// The id of the task that does not read its input.
        id: TaskId,
        /// Number of bytes of the last write that did not fit into the pipe.
        left_bytes: usize,
    },
    /// The shim did not close the input: the shim could not be reached, or refused the request.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// A system call on the input FIFO failed.
    #[error("could not {doing} the input of task {id}: {source}")]
    Io {
        /// The operation that failed, as the message names it.
        doing: &'static str,
        /// The task whose input was to be opened or written.
        id: TaskId,
        /// The error of the system call.
        source: io::Error,
    },
}

/// Shortest time between two [`ShimRequest::InputWritten`] requests, in milliseconds.
const INPUT_WRITTEN_INTERVAL_MS: u64 = 1_000;

/// The write end of a task's input FIFO.
#[derive(Debug)]
pub struct TaskInput<'r> {
    root: &'r StateDir,
    program: &'r CStr,
    id: TaskId,
    input_fifo: OwnedFd,
    /// Connection to the task's shim, opened for the first request.
    shim: Option<TaskWatch<'r>>,
    /// Name of the writer, which the journal records with the input.
    requester: Option<String>,
    /// Time at which [`ShimRequest::InputWritten`] was last sent to the shim.
    last_notified: Option<MonotonicMs>,
}

impl<'r> TaskInput<'r> {
    /// Opens the input of a task for any caller except the task's host, and therefore rejects a
    /// teammate.
    ///
    /// # Errors
    ///
    /// [`InputError`].
    pub fn open(
        root: &'r StateDir,
        program: &'r CStr,
        dir: &TaskDir,
        state: &TaskState,
    ) -> Result<Self, InputError> {
        if dir.id().kind() == TaskKind::InProcessTeammate {
            return Err(InputError::Teammate { id: dir.id() });
        }
        Self::open_for_host(root, program, dir, state)
    }

    /// Opens the input of a task for its host, which may also write to a teammate.
    ///
    /// # Errors
    ///
    /// [`InputError`].
    pub fn open_for_host(
        root: &'r StateDir,
        program: &'r CStr,
        dir: &TaskDir,
        state: &TaskState,
    ) -> Result<Self, InputError> {
        let id = dir.id();
        if !state.is_live() {
            return Err(InputError::Ended { id });
        }
        match state.spec.stdin {
            StdinMode::Pipe => Self::open_fifo(root, program, dir),
            StdinMode::Terminal => Err(InputError::Terminal { id }),
            StdinMode::Null | StdinMode::Inherit => Err(InputError::NoPipe { id }),
        }
    }

    /// Opens the input of a task that runs and has an input pipe.
    ///
    /// # Errors
    ///
    /// [`InputError::Closed`] and [`InputError::Io`].
    pub(crate) fn open_fifo(
        root: &'r StateDir,
        program: &'r CStr,
        dir: &TaskDir,
    ) -> Result<Self, InputError> {
        let id = dir.id();
        let fifo = dir
            .endpoint_dir()
            .and_then(|place| file::open_at(place, INPUT_FIFO, file::OpenMode::FifoWrite));
        match fifo {
            Ok(fifo) => {
                let (shim, requester, last_notified) = (None, None, None);
                Ok(Self { root, program, id, input_fifo: fifo, shim, requester, last_notified })
            }
            Err(error) if is_closed(&error) => Err(InputError::Closed { id }),
            Err(source) => Err(InputError::Io { doing: "open", id, source }),
        }
    }

    /// Sets the name of the writer, which the journal records with the input. Without a name, the
    /// journal records only input that ends a stall.
    #[must_use]
    pub fn requested_by(self, requester: &str) -> Self {
        Self { requester: Some(requester.to_owned()), ..self }
    }

    /// Writes the bytes that the pipe accepts without waiting, and returns their number. Does not
    /// notify the shim.
    ///
    /// # Errors
    ///
    /// [`InputError::Closed`] and [`InputError::Io`].
    pub(crate) fn write_available(&self, bytes: &[u8]) -> Result<usize, InputError> {
        match file::write(&self.input_fifo, bytes) {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            Err(error) if is_closed(&error) => Err(InputError::Closed { id: self.id }),
            result => {
                result.map_err(|source| InputError::Io { doing: "write to", id: self.id, source })
            }
        }
    }

    /// Writes all bytes, waiting up to 10 s each time the pipe is full. Then notifies the shim, at
    /// most once per second: the shim records the input and ends a recorded stall, because the task
    /// no longer waits for input. An error of the notification is ignored.
    ///
    /// # Errors
    ///
    /// [`InputError`].
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), InputError> {
        if bytes.is_empty() {
            return Ok(());
        }
        while !bytes.is_empty() {
            match file::write(&self.input_fifo, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait_writable(bytes.len())?
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_closed(&error) => {
                    return Err(InputError::Closed { id: self.id });
                }
                Err(source) => {
                    return Err(InputError::Io { doing: "write to", id: self.id, source });
                }
            }
        }
        // At most one request per second, not one per block of a file: the shim records no stall so
        // soon after a write.
        let now = clock::monotonic_now();
        if self
            .last_notified
            .is_none_or(|sent_at| now.ms_since(sent_at) >= INPUT_WRITTEN_INTERVAL_MS)
        {
            self.last_notified = Some(now);
            // A shim of an older version does not know the request; the bytes are in the pipe in
            // any case.
            let _best_effort =
                self.request_shim(&ShimRequest::InputWritten { by: self.requester.clone() });
        }
        Ok(())
    }

    /// Sends a request over one connection that is kept for later requests.
    fn request_shim(&mut self, request: &ShimRequest) -> Result<(), WatchError> {
        let shim = match &mut self.shim {
            Some(shim) => shim,
            none => none.insert(TaskWatch::open(self.root, self.program, self.id)?),
        };
        shim.request(request, SHIM_REPLY_TIMEOUT_MS).map(drop)
    }

    fn wait_writable(&self, left_bytes: usize) -> Result<(), InputError> {
        let until = clock::monotonic_now().plus_ms(UNREAD_MS);
        loop {
            let remaining_ms = until.ms_since(clock::monotonic_now());
            let writable =
                poll::wait_writable(self.input_fifo.as_fd(), remaining_ms).map_err(|source| {
                    InputError::Io { doing: "wait to write to", id: self.id, source }
                })?;
            if writable {
                return Ok(());
            }
            if remaining_ms == 0 {
                return Err(InputError::Unread { id: self.id, left_bytes });
            }
        }
    }

    /// Closes the input permanently; the task reads end of file as soon as no other writer has the
    /// FIFO open.
    ///
    /// # Errors
    ///
    /// [`InputError::Watch`].
    pub fn close(mut self, dir: &TaskDir) -> Result<(), InputError> {
        self.request_shim(&ShimRequest::CloseStdin { by: self.requester.clone() })?;
        // Later writers get `ENOENT`, hence [`InputError::Closed`].
        let _already_removed = dir.endpoint_dir().and_then(|place| file::remove(place, INPUT_FIFO));
        // The reader gets end of file when the last write end is closed: the shim has closed its
        // own, and this function closes another when it drops `self`.
        Ok(())
    }
}

impl AsFd for TaskInput<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input_fifo.as_fd()
    }
}

/// Returns whether the error means that the input is closed: `ENXIO` (no reader has the FIFO open,
/// fifo(7)), `EPIPE` (the reader has closed it) or `ENOENT` (removed by [`TaskInput::close`]).
fn is_closed(error: &io::Error) -> bool {
    const ENXIO: i32 = 6;
    error.raw_os_error() == Some(ENXIO)
        || matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_input_is_distinguished_from_other_errors() {
        assert!(is_closed(&io::Error::from_raw_os_error(6)));
        assert!(is_closed(&ErrorKind::BrokenPipe.into()) && is_closed(&ErrorKind::NotFound.into()));
        assert!(!is_closed(&ErrorKind::PermissionDenied.into()));
    }
}
