//! Watching a task until it ends, whatever happens to its shim.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::TaskNotices;
use siding_model::protocol::{ShimMessage, ShimRequest};

use crate::journal_file::JournalReadError;
use crate::recover::{RecoverError, Recovery, RecoveryOutcome};
use crate::shim_client::{RecvResult, ShimConnection, ShimRequestError};
use crate::store::{StateDir, StoreError, TaskDir};
use crate::sys::clock;

/// How long a connection is tried while another process starts or rescues the task, in
/// milliseconds, and the first and longest pause between two tries.
const CONNECT_TIMEOUT_MS: u64 = 10_000;
const CONNECT_RETRY_PAUSE: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(20));
/// How long a shim may take for what it does at once, in milliseconds.
const SHIM_REPLY_TIMEOUT_MS: u64 = 10_000;

/// Why a task cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Its state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its shim is dead and no other could be put in its place.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// Its journal cannot be read.
    #[error("task {id}: {source}")]
    Journal {
        /// The task.
        id: TaskId,
        /// What is wrong.
        source: JournalReadError,
    },
    /// Its shim said no, or said nothing.
    #[error("task {id}: {source}")]
    Ask {
        /// The task.
        id: TaskId,
        /// What happened.
        source: ShimRequestError,
    },
    /// The operating system refused.
    #[error("task {id}: could not {doing}: {source}")]
    Io {
        /// The task.
        id: TaskId,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// A task, and the connection to whoever keeps it.
#[derive(Debug)]
pub struct TaskWatch<'r> {
    root: &'r StateDir,
    program: &'r CStr,
    id: TaskId,
    connection: Option<ShimConnection>,
    /// Whether its shim has said nothing yet, so that it may not even be on record.
    is_new: bool,
    /// How often another connection was made.
    reconnects: u32,
}

impl<'r> TaskWatch<'r> {
    /// Begins to watch a task with a connection that exists already and is subscribed.
    #[must_use]
    pub const fn from_connection(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
        link: ShimConnection,
    ) -> Self {
        Self { root, program, id, connection: Some(link), is_new: true, reconnects: 0 }
    }

    /// Begins to watch a task: connects to its shim, or to a new one when that was killed. Every
    /// record that is written from now on is heard.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub fn open(root: &'r StateDir, program: &'r CStr, id: TaskId) -> Result<Self, WatchError> {
        let mut watch = Self { root, program, id, connection: None, is_new: false, reconnects: 0 };
        watch.reconnect()?;
        watch.reconnects = 0;
        Ok(watch)
    }

    /// Returns whom this watches.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Returns what to poll, `None` once the task has ended.
    #[must_use]
    pub fn source(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(AsFd::as_fd)
    }

    /// Whether the task is known to have ended.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.connection.is_none()
    }

    /// Returns how often its shim has been replaced since. A new one knows nothing of what the one
    /// before was asked to tell, but for the records.
    #[must_use]
    pub const fn reconnects(&self) -> u32 {
        self.reconnects
    }

    /// Opens the task's directory.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn dir(&self) -> Result<TaskDir, StoreError> {
        self.root.task_dir(self.id)
    }

    /// Reads what is on record.
    ///
    /// # Errors
    ///
    /// [`WatchError::Store`], [`WatchError::Journal`].
    pub fn state(&self) -> Result<(TaskDir, TaskState), WatchError> {
        let dir = self.root.task_dir(self.id)?;
        match dir.read() {
            Ok(folded) => Ok((dir, folded.state)),
            Err(source) => Err(WatchError::Journal { id: self.id, source }),
        }
    }

    /// Reads what is on record, and what of it is news.
    ///
    /// # Errors
    ///
    /// As [`Self::state`].
    pub fn read_notices(&self) -> Result<(TaskDir, TaskNotices), WatchError> {
        let dir = self.root.task_dir(self.id)?;
        match dir.read_notices() {
            Ok(story) => Ok((dir, story)),
            Err(source) => Err(WatchError::Journal { id: self.id, source }),
        }
    }

    /// Takes the next message that is there, `None` when there is none, or when its shim has gone
    /// and another was put in its place.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub fn try_recv(&mut self) -> Result<Option<ShimMessage>, WatchError> {
        let Some(link) = &self.connection else { return Ok(None) };
        match link.try_recv().map_err(|source| self.io_error("hear from its shim", source))? {
            RecvResult::Message(message) => {
                self.is_new = false;
                Ok(Some(message))
            }
            RecvResult::TimedOut => Ok(None),
            RecvResult::Disconnected => {
                self.connection = None;
                self.reconnect()?;
                Ok(None)
            }
        }
    }

    /// Sends a request without waiting for its answer, which comes as a message.
    ///
    /// # Errors
    ///
    /// [`WatchError::Io`].
    pub fn send(&mut self, request: &ShimRequest) -> Result<(), WatchError> {
        let Some(link) = &self.connection else { return Ok(()) };
        match link.send(request) {
            // What its death means is found out when it is read from.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(|source| self.io_error("ask its shim", source)),
        }
    }

    /// Sends a request and waits until it was carried out. When the shim dies meanwhile, asks the
    /// next one. A task that has ended is `Ok(false)`.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub fn request(&mut self, request: &ShimRequest, timeout_ms: u64) -> Result<bool, WatchError> {
        self.continue_shim()?;
        loop {
            let Some(link) = &self.connection else { return Ok(false) };
            match link.request(request, timeout_ms, drop) {
                Ok(()) => return Ok(true),
                Err(ShimRequestError::Disconnected) => {
                    self.connection = None;
                    self.reconnect()?;
                }
                Err(source) => return Err(WatchError::Ask { id: self.id, source }),
            }
        }
    }

    /// Connects to the shim, or finds that the task has ended.
    fn reconnect(&mut self) -> Result<(), WatchError> {
        let until = clock::monotonic_now().plus_ms(CONNECT_TIMEOUT_MS);
        let mut pause = CONNECT_RETRY_PAUSE.0;
        loop {
            // Asked first, since a shim may be stopped, or may have said all that it had to say.
            match self.recover()? {
                RecoveryOutcome::Ended | RecoveryOutcome::EndRecorded => return Ok(()),
                RecoveryOutcome::NeverRecorded => return Err(self.never_started_error()),
                RecoveryOutcome::SetAside { why, .. } | RecoveryOutcome::TooNew { why } => {
                    return Err(WatchError::Journal { id: self.id, source: why.into() });
                }
                RecoveryOutcome::OtherMachine { machine } => {
                    return Err(self.other_machine_error(&machine));
                }
                RecoveryOutcome::Supervised
                | RecoveryOutcome::Continued
                | RecoveryOutcome::TakenOver => {
                    if self.connect()? {
                        return Ok(());
                    }
                }
                RecoveryOutcome::Busy => {}
            }
            // Its shim, or a rescuer, is just coming or going.
            if clock::monotonic_now() >= until {
                return Err(self.io_error("reach its shim", io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(CONNECT_RETRY_PAUSE.1);
        }
    }

    fn recover(&self) -> Result<RecoveryOutcome, WatchError> {
        match self.root.task_dir(self.id) {
            // Somebody else has cleared away what nothing was recorded of.
            Err(StoreError::NoSuchTask { .. }) if self.is_new => {
                return Ok(RecoveryOutcome::NeverRecorded);
            }
            result => drop(result?),
        }
        let recovery = Recovery::new(self.root, self.program)
            .map_err(|source| self.io_error("read the boot id", source))?;
        Ok(recovery.recover_task(self.id)?)
    }

    /// Connects to a shim that is there. Returns whether it is known how the task stands.
    fn connect(&mut self) -> Result<bool, WatchError> {
        let dir = self.root.task_dir(self.id)?;
        let Some(link) =
            ShimConnection::connect(&dir).map_err(|source| self.io_error("connect", source))?
        else {
            return Ok(false);
        };
        if !self.subscribe(&link)? {
            return Ok(false);
        }
        // Whatever was recorded before is in the journal, whatever comes will be heard.
        let (_, state) = self.state()?;
        self.connection = state.is_live().then_some(link);
        self.reconnects += 1;
        Ok(true)
    }

    /// Continues the shim if somebody stopped it: it could not answer, and holds no deadline.
    fn continue_shim(&self) -> Result<bool, WatchError> {
        let Ok((_, state)) = self.state() else { return Ok(false) };
        crate::shim_client::continue_stopped_shim(state.shim)
            .map_err(|source| self.io_error("continue its shim", source))
    }

    fn subscribe(&self, link: &ShimConnection) -> Result<bool, WatchError> {
        let subscribe = ShimRequest::Subscribe { follow: false };
        match link.request(&subscribe, SHIM_REPLY_TIMEOUT_MS, drop) {
            Ok(()) => Ok(true),
            Err(ShimRequestError::Disconnected) => Ok(false),
            Err(ShimRequestError::TimedOut { .. }) => {
                if self.continue_shim()? {
                    return Ok(false);
                }
                let source = ShimRequestError::TimedOut { waited_ms: SHIM_REPLY_TIMEOUT_MS };
                Err(WatchError::Ask { id: self.id, source })
            }
            Err(source) => Err(WatchError::Ask { id: self.id, source }),
        }
    }

    fn other_machine_error(&self, machine: &str) -> WatchError {
        let why = format!("it is kept by another machine, `{machine}`; ask there");
        self.io_error("reach its shim", io::Error::other(why))
    }

    fn never_started_error(&self) -> WatchError {
        let why = "its shim ended before anything was on record, and nothing runs; \
                   `siding doctor` tells what this machine lacks";
        self.io_error("start", io::Error::other(why))
    }

    fn io_error(&self, doing: &'static str, source: io::Error) -> WatchError {
        WatchError::Io { id: self.id, doing, source }
    }
}
