//! Writes the input from a mirror to the FIFO of the task.
//!
//! A file next to the FIFO contains the number of written bytes, so that the next connection
//! continues after them. The bytes themselves are never stored in a file.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_model::id::TaskId;
use siding_model::process::{MonotonicMs, ProcRef};
use siding_model::protocol::ShimRequest;
use siding_model::remote::{InputPosition, InputReceiver, RemoteInputState, RemoteMessage};

use super::{Follower, ServeError};
use crate::processes::tree;
use crate::store::task_files::{INPUT_FIFO, INPUT_POSITION_FILE};
use crate::store::{StateDir, TaskDir};
use crate::sys::{clock, file};
use crate::task::input::{InputError, TaskInput};
use crate::task::shim_client::ShimRequestError;
use crate::task::watch::WatchError;

/// Shortest time between two notifications of the shim, in milliseconds.
const NOTIFICATION_INTERVAL_MS: u64 = 1_000;
/// Pause between two attempts to lock the position, in milliseconds.
const LOCK_RETRY_MS: u64 = 50;
/// The stored number of begun bytes of an input that was cut: larger than any other.
const CUT_INPUT: u64 = u64::MAX;
/// Maximum time for which another connection may keep the position locked, in milliseconds. With a
/// busy shim, closing the input takes up to 10 s; only a stopped process takes longer.
const MAX_LOCK_WAIT_MS: u64 = 15_000;

/// The input of the task that this connection follows.
#[derive(Debug)]
pub(super) struct InputWriter<'r> {
    root: &'r StateDir,
    program: &'r CStr,
    id: TaskId,
    /// The shim that has started the task, and keeps the input open.
    shim: ProcRef,
    /// Whether this shim was killed and replaced, so that the command has read an end of file.
    is_shim_replaced: bool,
    /// Whether this shim has ended, and it is not known yet whether the task has ended with it.
    waits_for_shim: bool,
    receiver: InputReceiver,
    /// The FIFO while bytes wait for space in it. At other times it is closed, because an open
    /// write end would keep the input open after the shim has closed it.
    fifo: Option<TaskInput<'r>>,
    last_notified: Option<MonotonicMs>,
    /// The position that the mirror received last; `None` until the stored position was read.
    reported: Option<InputPosition>,
    /// Start of the present wait for the position's lock.
    waits_since: Option<MonotonicMs>,
}

/// The position to report to the mirror.
#[derive(Debug, Clone, Copy)]
struct InputReport {
    position: InputPosition,
    /// Whether bytes were written since the last notification of the shim.
    has_written: bool,
}

impl Follower<'_> {
    /// Writes the received input as far as possible, and queues the new position. The first one is
    /// the stored position, from which the mirror continues.
    pub(super) fn write_input(&mut self) -> Result<(), ServeError> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let Some(InputReport { position, has_written }) = input.write()? else { return Ok(()) };
        if has_written && input.take_notification() {
            // The input may end a stall.
            self.watch.send(&ShimRequest::InputWritten { by: None })?;
        }
        Ok(self.queue(&RemoteMessage::InputPosition(position))?)
    }

    /// Queues the loss of the input after another shim has taken the task over. It must precede the
    /// end of the task, after which the mirror records nothing.
    pub(super) fn report_cut_input(&mut self) -> Result<(), ServeError> {
        let Some(input) = &mut self.input else { return Ok(()) };
        input.on_shim_replaced();
        self.write_input()
    }
}

impl<'r> InputWriter<'r> {
    /// Creates the writer, which continues at the stored position. `shim` has started the task.
    pub(super) const fn new(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
        shim: ProcRef,
    ) -> Self {
        // An input without a FIFO or without a reader remains closed.
        let closed = InputPosition { bytes: 0, state: RemoteInputState::Closed };
        Self {
            root,
            program,
            id,
            shim,
            is_shim_replaced: false,
            waits_for_shim: false,
            receiver: InputReceiver::new(closed),
            fifo: None,
            last_notified: None,
            reported: None,
            waits_since: None,
        }
    }

    /// Returns whether [`Self::write`] can make progress now.
    pub(super) fn is_due(&self) -> bool {
        self.has_work() && self.fifo.is_none() && !self.is_waiting()
    }

    /// Returns whether only time, and nothing that arrives, ends the present wait.
    const fn is_waiting(&self) -> bool {
        self.waits_since.is_some() || self.waits_for_shim
    }

    /// Returns whether a position is unreported, or a part or the end of the input has not been
    /// forwarded.
    fn has_work(&self) -> bool {
        let is_passed_on = self.receiver.pending().is_empty() && !self.receiver.must_close();
        self.reported.is_none() || !is_passed_on || self.is_cut()
    }

    /// Returns whether the loss of the rest of the input is still to be stored and reported.
    fn is_cut(&self) -> bool {
        self.is_shim_replaced && self.receiver.is_incomplete()
    }

    /// Handles that another shim has taken the task over. The killed one kept the input open.
    const fn on_shim_replaced(&mut self) {
        self.is_shim_replaced = true;
        self.waits_for_shim = false;
    }

    /// Returns the time after which [`Self::write`] must be called again even without new input, in
    /// milliseconds; `None` if no call is necessary.
    pub(super) fn retry_ms(&self) -> Option<u64> {
        self.is_waiting().then_some(LOCK_RETRY_MS)
    }

    /// Returns the full FIFO for which bytes wait.
    pub(super) fn full_fifo(&self) -> Option<BorrowedFd<'_>> {
        let fifo = self.fifo.as_ref().filter(|_| !self.is_waiting());
        fifo.map(AsFd::as_fd)
    }

    /// Handles bytes from the mirror.
    pub(super) fn receive(&mut self, at: u64, bytes: &[u8]) -> Result<(), ServeError> {
        self.receiver.on_bytes(at, bytes).map_err(|error| ServeError::Request(error.to_string()))
    }

    /// Handles the end of the input.
    pub(super) fn receive_end(&mut self, at: u64) -> Result<(), ServeError> {
        self.receiver.on_end(at).map_err(|error| ServeError::Request(error.to_string()))
    }

    /// Writes the bytes that the FIFO accepts, then closes the input at its end. Returns the
    /// position if it has changed; the first call returns the stored position.
    fn write(&mut self) -> Result<Option<InputReport>, ServeError> {
        if self.reported.is_none() && !self.read_position()? {
            return Ok(None);
        }
        if self.is_cut() {
            self.store_cut()?;
        } else if !self.waits_for_shim() {
            self.pass_on()?;
        }
        let position = self.receiver.position();
        let before = self.reported.replace(position);
        if !self.has_work() {
            // The input may have been closed during the wait.
            self.waits_since = None;
        }
        let has_written = before.is_some_and(|before| before.bytes < position.bytes);
        let report = InputReport { position, has_written };
        Ok((before != Some(position)).then_some(report))
    }

    /// Writes the pending bytes as far as possible, then closes the input if it has ended.
    fn pass_on(&mut self) -> Result<(), ServeError> {
        while !self.receiver.pending().is_empty() && self.write_piece()? {}
        if self.receiver.pending().is_empty() {
            self.fifo = None;
        }
        if self.receiver.must_close() {
            self.close()?;
        }
        Ok(())
    }

    /// Returns whether a part of the input must wait, because the shim has ended: either the task
    /// has ended with it, or the shim was killed and the command reads an end of file. The journal
    /// will tell which.
    fn waits_for_shim(&mut self) -> bool {
        let is_needed = !self.is_shim_replaced && self.has_work();
        self.waits_for_shim = is_needed && !tree::is_alive(self.shim);
        self.waits_for_shim
    }

    /// Stores that the input was cut, unless another process has locked the position.
    fn store_cut(&mut self) -> Result<(), ServeError> {
        let dir = self.dir()?;
        match self.lock_position(&dir)? {
            PositionLock::Held => return Ok(()),
            // The task has ended meanwhile.
            PositionLock::Removed => {}
            PositionLock::Acquired(file) => {
                self.check_position(&file)?;
                file.store(self.receiver.position().bytes, CUT_INPUT)?;
            }
        }
        self.fifo = None;
        self.receiver.on_cut();
        Ok(())
    }

    /// Handles that the input has no reader, unless the shim has ended meanwhile.
    fn on_unread(&mut self) {
        if !self.waits_for_shim() {
            self.receiver.on_closed();
        }
    }

    /// Reads the stored position. Returns false while another process has locked it.
    fn read_position(&mut self) -> Result<bool, ServeError> {
        let dir = self.dir()?;
        if self.open_fifo(&dir)?.is_some() {
            match self.lock_position(&dir)? {
                PositionLock::Acquired(file) => self.receiver = InputReceiver::new(file.read()?),
                PositionLock::Removed => {}
                PositionLock::Held => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Locks the position. Fails if another process has kept it locked for too long. Never blocks,
    /// because this process must still forward a stop.
    fn lock_position(&mut self, dir: &TaskDir) -> Result<PositionLock, ServeError> {
        let lock = PositionFile::try_lock(dir)?;
        if !matches!(lock, PositionLock::Held) {
            self.waits_since = None;
            return Ok(lock);
        }
        let now = clock::monotonic_now();
        let since = *self.waits_since.get_or_insert(now);
        if now.ms_since(since) < MAX_LOCK_WAIT_MS {
            return Ok(lock);
        }
        Err(ServeError::Request(format!(
            "another process has locked the input of task {} for more than {} s: end the siding of \
             an earlier connection, which has the file `{INPUT_POSITION_FILE}` of the task open",
            self.id,
            MAX_LOCK_WAIT_MS / 1_000
        )))
    }

    /// Returns whether the shim must be notified of input now.
    fn take_notification(&mut self) -> bool {
        let now = clock::monotonic_now();
        let is_due = |last: MonotonicMs| now.ms_since(last) >= NOTIFICATION_INTERVAL_MS;
        let notifies = self.last_notified.is_none_or(is_due);
        if notifies {
            self.last_notified = Some(now);
        }
        notifies
    }

    /// Writes once. Returns false if the FIFO is full, or another process has locked the position.
    fn write_piece(&mut self) -> Result<bool, ServeError> {
        let dir = self.dir()?;
        let lock = self.lock_position(&dir)?;
        if matches!(lock, PositionLock::Held) {
            return Ok(false);
        }
        let fifo = match self.fifo.take() {
            Some(fifo) => Some(fifo),
            None => self.open_fifo(&dir)?,
        };
        let (Some(fifo), PositionLock::Acquired(file)) = (fifo, lock) else {
            self.on_unread();
            return Ok(false);
        };
        let InputPosition { bytes: from, .. } = self.receiver.position();
        let pending = self.receiver.pending();
        self.check_position(&file)?;
        // Before the write, the file receives the range that may be written: a writer that is
        // killed during the write leaves an uncertain position, not a wrong one.
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
                self.on_unread();
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Closes the input, unless another process has locked the position. A request that is repeated
    /// after an interruption finds the input closed.
    fn close(&mut self) -> Result<(), ServeError> {
        let dir = self.dir()?;
        if let Some(fifo) = self.open_fifo(&dir)? {
            match self.lock_position(&dir)? {
                PositionLock::Held => return Ok(()),
                PositionLock::Removed => {}
                PositionLock::Acquired(file) => self.close_fifo(&dir, fifo, &file)?,
            }
        }
        self.receiver.on_closed();
        Ok(())
    }

    fn close_fifo(
        &self,
        dir: &TaskDir,
        fifo: TaskInput<'r>,
        file: &PositionFile,
    ) -> Result<(), ServeError> {
        self.check_position(file)?;
        match fifo.close(dir) {
            Ok(()) => Ok(()),
            // Another client has closed the input, or the shim that kept it open was killed.
            Err(InputError::Watch(WatchError::Ask {
                source: ShimRequestError::Refused { .. },
                ..
            })) => {
                let _already_removed =
                    dir.endpoint_dir().and_then(|place| file::remove(place, INPUT_FIFO));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Fails if another connection has written since. The mirror has then abandoned this
    /// connection.
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

/// The file with the position, locked until this value is dropped. The lock excludes an earlier
/// connection that has not noticed its end and may still write.
#[derive(Debug)]
struct PositionFile(OwnedFd);

/// The result of an attempt to lock the position.
#[derive(Debug)]
enum PositionLock {
    Acquired(PositionFile),
    /// Another process has the lock.
    Held,
    /// The directory was removed at the end of the task.
    Removed,
}

impl PositionFile {
    /// Opens and locks the file without waiting.
    fn try_lock(dir: &TaskDir) -> io::Result<PositionLock> {
        let opened =
            dir.endpoint_dir().and_then(|place| file::open_or_create(place, INPUT_POSITION_FILE));
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PositionLock::Removed),
            result => {
                let file = result?;
                let is_locked = file::try_lock_exclusive(&file)?;
                Ok(if is_locked { PositionLock::Acquired(Self(file)) } else { PositionLock::Held })
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

    /// Stores the number of written bytes, and that number plus the bytes that are about to be
    /// written.
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
