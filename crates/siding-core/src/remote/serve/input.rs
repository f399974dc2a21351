//! Writes the input that a mirror sends to the FIFO of the task.
//!
//! A file next to the FIFO has the number of written bytes, so that the next connection continues
//! there. The bytes themselves are in no file.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_model::id::TaskId;
use siding_model::process::MonotonicMs;
use siding_model::remote::{InputPosition, InputReceiver, RemoteInputState};

use super::ServeError;
use crate::store::task_files::{INPUT_FIFO, INPUT_POSITION_FILE};
use crate::store::{StateDir, TaskDir};
use crate::sys::{clock, file};
use crate::task::input::{InputError, TaskInput};
use crate::task::shim_client::ShimRequestError;
use crate::task::watch::WatchError;

/// Shortest time between two notifications of the shim, in milliseconds.
const NOTIFICATION_INTERVAL_MS: u64 = 1_000;

/// The input of the task that a connection follows.
#[derive(Debug)]
pub(super) struct InputWriter<'r> {
    root: &'r StateDir,
    program: &'r CStr,
    id: TaskId,
    receiver: InputReceiver,
    /// The FIFO while bytes wait for space in it. An open write end would keep the input open after
    /// the shim has closed it.
    fifo: Option<TaskInput<'r>>,
    last_notified: Option<MonotonicMs>,
}

impl<'r> InputWriter<'r> {
    /// Continues at the stored position.
    pub(super) fn open(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
    ) -> Result<Self, ServeError> {
        let mut writer = Self {
            root,
            program,
            id,
            receiver: InputReceiver::new(InputPosition {
                bytes: 0,
                state: RemoteInputState::Closed,
            }),
            fifo: None,
            last_notified: None,
        };
        let dir = writer.dir()?;
        // An input without a FIFO or without a reader stays closed.
        if writer.open_fifo(&dir)?.is_some()
            && let Some(file) = PositionFile::lock(&dir)?
        {
            writer.receiver = InputReceiver::new(file.read()?);
        }
        Ok(writer)
    }

    /// Returns the position to report.
    pub(super) const fn position(&self) -> InputPosition {
        self.receiver.position()
    }

    /// Returns the full FIFO for which bytes wait.
    pub(super) fn full_fifo(&self) -> Option<BorrowedFd<'_>> {
        self.fifo.as_ref().map(AsFd::as_fd)
    }

    /// Handles bytes from the mirror.
    pub(super) fn receive(&mut self, at: u64, bytes: &[u8]) -> Result<(), ServeError> {
        self.receiver.on_bytes(at, bytes).map_err(|error| ServeError::Request(error.to_string()))
    }

    /// Handles the end of the input.
    pub(super) fn receive_end(&mut self, at: u64) -> Result<(), ServeError> {
        self.receiver.on_end(at).map_err(|error| ServeError::Request(error.to_string()))
    }

    /// Writes the bytes that the FIFO accepts, then closes the input if it has ended. Returns
    /// whether the position has changed.
    pub(super) fn write(&mut self) -> Result<bool, ServeError> {
        let before = self.receiver.position();
        while !self.receiver.pending().is_empty() && self.write_piece()? {}
        if self.receiver.pending().is_empty() {
            self.fifo = None;
        }
        if self.receiver.must_close() {
            self.close()?;
        }
        Ok(self.receiver.position() != before)
    }

    /// Returns whether the shim must be notified of input now.
    pub(super) fn take_notification(&mut self) -> bool {
        let now = clock::monotonic_now();
        let is_due = |last: MonotonicMs| now.ms_since(last) >= NOTIFICATION_INTERVAL_MS;
        let notifies = self.last_notified.is_none_or(is_due);
        if notifies {
            self.last_notified = Some(now);
        }
        notifies
    }

    /// Writes once. Returns false if the FIFO is full.
    fn write_piece(&mut self) -> Result<bool, ServeError> {
        let dir = self.dir()?;
        let fifo = match self.fifo.take() {
            Some(fifo) => Some(fifo),
            None => self.open_fifo(&dir)?,
        };
        let (Some(fifo), Some(file)) = (fifo, PositionFile::lock(&dir)?) else {
            self.receiver.on_closed();
            return Ok(true);
        };
        let InputPosition { bytes: from, .. } = self.receiver.position();
        let pending = self.receiver.pending();
        self.check_position(&file)?;
        // The file first has the range that may be written: a writer that is killed in between
        // leaves an uncertain position, and no wrong one.
        file.store(from, from + pending.len() as u64)?;
        match fifo.write_available(pending) {
            Ok(count) => {
                file.store(from + count as u64, from + count as u64)?;
                self.receiver.on_written(count);
                self.fifo = Some(fifo);
                Ok(count > 0)
            }
            Err(InputError::Closed { .. }) => {
                file.store(from, from)?;
                self.receiver.on_closed();
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Closes the input. A request that is repeated after an interruption finds it closed.
    fn close(&mut self) -> Result<(), ServeError> {
        let dir = self.dir()?;
        if let Some(fifo) = self.open_fifo(&dir)?
            && let Some(file) = PositionFile::lock(&dir)?
        {
            self.check_position(&file)?;
            match fifo.close(&dir) {
                Ok(()) => {}
                // Another client has closed it, or the shim that kept it open was killed.
                Err(InputError::Watch(WatchError::Ask {
                    source: ShimRequestError::Refused { .. },
                    ..
                })) => {
                    let _already_removed =
                        dir.endpoint_dir().and_then(|place| file::remove(place, INPUT_FIFO));
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.receiver.on_closed();
        Ok(())
    }

    /// Fails if another connection has written since. The mirror has then given this one up.
    fn check_position(&self, file: &PositionFile) -> Result<(), ServeError> {
        if file.read()? == self.receiver.position() {
            return Ok(());
        }
        Err(ServeError::Request("another connection writes the input".to_owned()))
    }

    fn dir(&self) -> Result<TaskDir, ServeError> {
        Ok(self.root.task_dir(self.id).map_err(WatchError::from)?)
    }

    /// Opens the FIFO; `None` if the input is closed.
    fn open_fifo(&self, dir: &TaskDir) -> Result<Option<TaskInput<'r>>, ServeError> {
        match TaskInput::open_fifo(self.root, self.program, dir) {
            Err(InputError::Closed { .. }) => Ok(None),
            result => Ok(Some(result?)),
        }
    }
}

/// The file with the position, locked until this value is dropped. An earlier connection that has
/// not noticed its end may still write.
#[derive(Debug)]
struct PositionFile(OwnedFd);

impl PositionFile {
    /// Opens and locks the file; `None` if the directory was removed at the end of the task.
    fn lock(dir: &TaskDir) -> io::Result<Option<Self>> {
        let opened =
            dir.endpoint_dir().and_then(|place| file::open_or_create(place, INPUT_POSITION_FILE));
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            result => {
                let file = result?;
                file::lock_exclusive(&file)?;
                Ok(Some(Self(file)))
            }
        }
    }

    /// Returns the stored position, zero in a new file.
    fn read(&self) -> io::Result<InputPosition> {
        let number = |offset| {
            let mut bytes = [0; size_of::<u64>()];
            // An incomplete number is padded with zeros.
            file::read_at(&self.0, &mut bytes, offset).map(|_count| u64::from_le_bytes(bytes))
        };
        let (written, begun) = (number(0)?, number(size_of::<u64>() as u64)?);
        let state =
            if written == begun { RemoteInputState::Open } else { RemoteInputState::Uncertain };
        Ok(InputPosition { bytes: written, state })
    }

    /// Stores the number of written bytes, and the number with those that are about to be written.
    fn store(&self, written: u64, begun: u64) -> io::Result<()> {
        let bytes = [written.to_le_bytes(), begun.to_le_bytes()].concat();
        file::write_all_at(&self.0, &bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_without_its_end_leaves_an_uncertain_position() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = std::fs::File::open(directory.path()).expect("it is there");
        let file = PositionFile(file::open_or_create(&place, "position").expect("created"));
        let position = |bytes, state| InputPosition { bytes, state };
        assert_eq!(file.read().expect("a file"), position(0, RemoteInputState::Open));
        file.store(7, 9).expect("written");
        assert_eq!(file.read().expect("a file"), position(7, RemoteInputState::Uncertain));
        file.store(8, 8).expect("written");
        assert_eq!(file.read().expect("a file"), position(8, RemoteInputState::Open));
    }
}
