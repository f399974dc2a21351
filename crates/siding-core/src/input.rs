//! The writing end of a task's standard input.

use std::ffi::CStr;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

use siding_model::id::{TaskId, TaskKind};
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::spec::StdinMode;

use crate::output::INPUT_FIFO;
use crate::store::{StateDir, TaskDir};
use crate::sys::{clock, file, poll};
use crate::watch::{TaskWatch, WatchError};

/// How long the task may leave its input unread, in milliseconds.
const UNREAD_MS: u64 = 10_000;
/// How long its shim may take to close it, or to note that something was written, in milliseconds.
const SHIM_REPLY_TIMEOUT_MS: u64 = 10_000;

/// Why nothing can be written to a task.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It has ended.
    #[error("task {id} has ended, nothing reads any more")]
    Ended {
        /// The task.
        id: TaskId,
    },
    /// It was started without an input.
    #[error("task {id} reads /dev/null")]
    NoPipe {
        /// The task.
        id: TaskId,
    },
    /// It is a teammate, whose task only writes down what its host says.
    #[error("task {id} is a teammate, which reads messages of its host alone (`send_message`)")]
    Teammate {
        /// The task.
        id: TaskId,
    },
    /// Its input was closed, by a caller or by itself.
    #[error("the input of task {id} is closed: by a caller, or the task does not read any more")]
    Closed {
        /// The task.
        id: TaskId,
    },
    /// It does not read.
    #[error(
        "task {id} has not read its input for {} s; {left_bytes} bytes or more were not written",
        UNREAD_MS / 1000
    )]
    Unread {
        /// The task.
        id: TaskId,
        /// What was not written of the last text.
        left_bytes: usize,
    },
    /// Its shim cannot be asked.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The operating system refused.
    #[error("could not {doing} the input of task {id}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The task.
        id: TaskId,
        /// The reason.
        source: io::Error,
    },
}

/// Time between two words to the shim that somebody has written, in milliseconds.
const WRITE_NOTICE_INTERVAL_MS: u64 = 1_000;

/// The writing end of a task's input.
#[derive(Debug)]
pub struct TaskInput<'r> {
    root: &'r StateDir,
    program: &'r CStr,
    id: TaskId,
    input_fifo: OwnedFd,
    /// The task's shim, once it was told something.
    shim: Option<TaskWatch<'r>>,
    /// When it was told that somebody has written.
    last_notified: Option<MonotonicMs>,
}

impl<'r> TaskInput<'r> {
    /// Opens the input of a task.
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

    /// As [`Self::open`], for the host of a teammate too.
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
        if state.spec.stdin != StdinMode::Pipe {
            return Err(InputError::NoPipe { id });
        }
        let fifo = dir
            .endpoint_dir()
            .and_then(|place| file::open_at(place, INPUT_FIFO, file::OpenMode::FifoWrite));
        match fifo {
            Ok(fifo) => {
                Ok(Self { root, program, id, input_fifo: fifo, shim: None, last_notified: None })
            }
            Err(error) if is_closed(&error) => Err(InputError::Closed { id }),
            Err(source) => Err(InputError::Io { doing: "open", id, source }),
        }
    }

    /// Writes everything. Waits for the task to make room, each time for at most 10 s. What the
    /// task waited for is over then: a stall on record is ended.
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
        // Not for each block of a file: no task is noted as silent so soon after.
        let now = clock::monotonic_now();
        if self.last_notified.is_none_or(|told| now.ms_since(told) >= WRITE_NOTICE_INTERVAL_MS) {
            self.last_notified = Some(now);
            // An older shim knows no such request, and the bytes are with the task in any case.
            let _best_effort = self.request_shim(&ShimRequest::InputWritten);
        }
        Ok(())
    }

    /// Asks the task's shim, by the connection there is.
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
            let writable = poll::wait_writable(self.input_fifo.as_fd(), remaining_ms)
                .map_err(|source| InputError::Io { doing: "wait for", id: self.id, source })?;
            if writable {
                return Ok(());
            }
            if remaining_ms == 0 {
                return Err(InputError::Unread { id: self.id, left_bytes });
            }
        }
    }

    /// Closes the input for good: the task sees its end.
    ///
    /// # Errors
    ///
    /// [`InputError::Watch`].
    pub fn close(mut self, dir: &TaskDir) -> Result<(), InputError> {
        self.request_shim(&ShimRequest::CloseStdin)?;
        // Whoever comes later learns that it is closed.
        let _already_removed = dir.endpoint_dir().and_then(|place| file::remove(place, INPUT_FIFO));
        // The task sees the end when the last writer is gone, and that is this one.
        Ok(())
    }
}

/// `ENXIO`: nobody has it open to read; `EPIPE`: nobody any more; `ENOENT`: it was closed for good.
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
