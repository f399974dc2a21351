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
use crate::store::{Root, TaskDir};
use crate::sys::{clock, file, poll};
use crate::watch::{Watch, WatchError};

/// How long the task may leave its input unread, in milliseconds.
const UNREAD_MS: u64 = 10_000;
/// How long its shim may take to close it, or to note that something was written, in milliseconds.
const ANSWER_MS: u64 = 10_000;

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
const TELL_MS: u64 = 1_000;

/// The writing end of a task's input.
#[derive(Debug)]
pub struct Input<'r> {
    root: &'r Root,
    program: &'r CStr,
    id: TaskId,
    fifo: OwnedFd,
    /// The task's shim, once it was told something.
    shim: Option<Watch<'r>>,
    /// When it was told that somebody has written.
    told: Option<MonotonicMs>,
}

impl<'r> Input<'r> {
    /// Opens the input of a task.
    ///
    /// # Errors
    ///
    /// [`InputError`].
    pub fn open(
        root: &'r Root,
        program: &'r CStr,
        dir: &TaskDir,
        state: &TaskState,
    ) -> Result<Self, InputError> {
        if dir.id().kind() == TaskKind::InProcessTeammate {
            return Err(InputError::Teammate { id: dir.id() });
        }
        Self::of_host(root, program, dir, state)
    }

    /// As [`Self::open`], for the host of a teammate too.
    ///
    /// # Errors
    ///
    /// [`InputError`].
    pub fn of_host(
        root: &'r Root,
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
        let fifo =
            dir.place().and_then(|place| file::open_at(place, INPUT_FIFO, file::Open::FifoWrite));
        match fifo {
            Ok(fifo) => Ok(Self { root, program, id, fifo, shim: None, told: None }),
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
            match file::write(&self.fifo, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(bytes.len())?,
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
        let now = clock::mono();
        if self.told.is_none_or(|told| now.ms_since(told) >= TELL_MS) {
            self.told = Some(now);
            // An older shim knows no such request, and the bytes are with the task in any case.
            let _written_all_the_same = self.tell_shim(&ShimRequest::InputWritten);
        }
        Ok(())
    }

    /// Asks the task's shim, by the connection there is.
    fn tell_shim(&mut self, request: &ShimRequest) -> Result<(), WatchError> {
        let shim = match &mut self.shim {
            Some(shim) => shim,
            none => none.insert(Watch::open(self.root, self.program, self.id)?),
        };
        shim.ask(request, ANSWER_MS).map(drop)
    }

    fn wait(&self, left_bytes: usize) -> Result<(), InputError> {
        let until = clock::mono().plus_ms(UNREAD_MS);
        loop {
            let left = until.ms_since(clock::mono());
            let writable = poll::writable(self.fifo.as_fd(), left)
                .map_err(|source| InputError::Io { doing: "wait for", id: self.id, source })?;
            if writable {
                return Ok(());
            }
            if left == 0 {
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
        self.tell_shim(&ShimRequest::CloseStdin)?;
        // Whoever comes later learns that it is closed.
        let _already_gone = dir.place().and_then(|place| file::remove(place, INPUT_FIFO));
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
    fn a_closed_input_is_told_from_other_failures() {
        assert!(is_closed(&io::Error::from_raw_os_error(6)));
        assert!(is_closed(&ErrorKind::BrokenPipe.into()) && is_closed(&ErrorKind::NotFound.into()));
        assert!(!is_closed(&ErrorKind::PermissionDenied.into()));
    }
}
