//! Watches a task until it ends, even if its shim is killed and replaced.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::journal::{JournalError, TaskState};
use siding_model::notice::TaskNotices;
use siding_model::outcome::BackgroundReason;
use siding_model::process::MonotonicMs;
use siding_model::protocol::{ShimMessage, ShimRequest};

use crate::store::journal_file::JournalReadError;
use crate::store::{StateDir, StoreError, TaskDir};
use crate::sys::clock;
use crate::task::recover::{RecoverError, Recovery, RecoveryOutcome};
use crate::task::shim_client::{RecvResult, ShimConnection, ShimRequestError};

/// Timeout for a connection while another process starts or recovers the task, in milliseconds.
const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// The first and the longest pause between two attempts to connect. Each pause is twice as long as
/// the one before.
const CONNECT_RETRY_PAUSE: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(20));
/// Timeout for requests that a shim answers immediately, in milliseconds.
const SHIM_REPLY_TIMEOUT_MS: u64 = 10_000;
/// Minimum wait for the answer of a shim, in milliseconds, even for a caller with a shorter limit:
/// on a busy machine, the answer of a running shim may take this long.
const MIN_REPLY_TIMEOUT_MS: u64 = 1_000;

/// The reason why a task could not be watched, or a request to its shim failed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The task does not exist, or an entry of the state directory could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The shim is dead and could not be replaced.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The task's journal is damaged, has an unknown format or could not be read.
    #[error("task {id}: {source}")]
    Journal {
        /// The task to which the journal belongs.
        id: TaskId,
        /// Whether reading the file failed, or its content is invalid.
        source: JournalReadError,
    },
    /// The task's journal is damaged, so the recovery moved the task's directory to `quarantine/`.
    #[error("task {id}: {why}; moved to `{}`", path.display())]
    Quarantined {
        /// The task to which the journal belonged.
        id: TaskId,
        /// The new path of the task's directory.
        path: PathBuf,
        /// The first damage in the journal.
        why: JournalError,
    },
    /// The shim refused the request or did not reply.
    #[error("task {id}: {source}")]
    Ask {
        /// The task whose shim received the request.
        id: TaskId,
        /// The refusal, the timeout or the failed communication.
        source: ShimRequestError,
    },
    /// The remote machine of the task has not confirmed a stop. The stop is recorded, and the
    /// mirror of the task repeats the request over each new connection.
    #[error("task {id} is not stopped yet: {why}")]
    StopPending {
        /// The task that will be stopped later.
        id: TaskId,
        /// The reason, for a person.
        why: String,
    },
    /// An operation on the task's files or on the connection to its shim failed.
    #[error("task {id}: could not {doing}: {source}")]
    Io {
        /// The task that was being watched.
        id: TaskId,
        /// The operation that failed, as the message names it.
        doing: &'static str,
        /// The error of the system call, or the reason why the operation is not possible.
        source: io::Error,
    },
}

impl WatchError {
    /// Returns whether the shim of the task could not be reached in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Ask { source, .. } => matches!(source, ShimRequestError::TimedOut { .. }),
            Self::Io { source, .. } => source.kind() == io::ErrorKind::TimedOut,
            Self::Store(_)
            | Self::Recover(_)
            | Self::Journal { .. }
            | Self::Quarantined { .. }
            | Self::StopPending { .. } => false,
        }
    }
}

/// A task and the connection to its shim.
#[derive(Debug)]
pub struct TaskWatch<'r> {
    root: &'r StateDir,
    program: &'r CStr,
    id: TaskId,
    connection: Option<ShimConnection>,
    /// Whether the task was new when the watch started, and no message has arrived yet; until then
    /// the task may have no record.
    is_new: bool,
    /// The moment until which the caller waits for a shim; `None` if it has no limit of its own.
    until: Option<MonotonicMs>,
    /// Number of connections that replaced the first one.
    reconnects: u32,
}

impl<'r> TaskWatch<'r> {
    /// Watches a task over an existing connection that is already subscribed.
    #[must_use]
    pub const fn from_connection(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
        link: ShimConnection,
    ) -> Self {
        let connection = Some(link);
        Self { root, program, id, connection, is_new: true, until: None, reconnects: 0 }
    }

    /// Connects to a task's shim, or to a new one if the old one was killed. All records that are
    /// written from then on arrive as messages. For an ended task there is no connection, and
    /// [`Self::is_finished`] returns true.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub fn open(root: &'r StateDir, program: &'r CStr, id: TaskId) -> Result<Self, WatchError> {
        Self::open_with_limit(root, program, id, None)
    }

    /// Like [`Self::open`], but waits only until `until` while another process starts or recovers
    /// the task. A shim that does not answer may take two seconds longer: one until it accepts the
    /// connection, and one until it confirms the subscription. Both times also apply after the loss
    /// of the connection, and none is longer than with [`Self::open`].
    ///
    /// # Errors
    ///
    /// [`WatchError`]; [`WatchError::is_timeout`] tells whether the time has passed.
    pub fn open_until(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
        until: MonotonicMs,
    ) -> Result<Self, WatchError> {
        Self::open_with_limit(root, program, id, Some(until))
    }

    fn open_with_limit(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
        until: Option<MonotonicMs>,
    ) -> Result<Self, WatchError> {
        let connection = None;
        let mut watch = Self { root, program, id, connection, is_new: false, until, reconnects: 0 };
        watch.reconnect()?;
        watch.reconnects = 0;
        Ok(watch)
    }

    /// Returns the task's id.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Returns the descriptor to poll; `None` once the task has ended.
    #[must_use]
    pub fn source(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(AsFd::as_fd)
    }

    /// Returns whether the end of the task was observed.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.connection.is_none()
    }

    /// Returns the number of times that the connection was replaced. A new shim does not inherit
    /// the requests that its predecessor received; only the subscription to records is renewed.
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

    /// Reads and replays the task's journal.
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

    /// Reads and replays the task's journal, and extracts its notices.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::state`].
    pub fn read_notices(&self) -> Result<(TaskDir, TaskNotices), WatchError> {
        let dir = self.root.task_dir(self.id)?;
        match dir.read_notices() {
            Ok(notices) => Ok((dir, notices)),
            Err(source) => Err(WatchError::Journal { id: self.id, source }),
        }
    }

    /// Receives a message without waiting. `None` if no message has arrived, if the shim has exited
    /// and was replaced, or if the task has ended.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub fn try_recv(&mut self) -> Result<Option<ShimMessage>, WatchError> {
        let Some(link) = &self.connection else { return Ok(None) };
        match link.try_recv().map_err(|source| self.io_error("receive from its shim", source))? {
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

    /// Sends a request without waiting for the reply, which arrives as a message. Does nothing if
    /// the task has ended or its shim has exited.
    ///
    /// # Errors
    ///
    /// [`WatchError::Io`].
    pub fn send(&mut self, request: &ShimRequest) -> Result<(), WatchError> {
        self.send_to_live_shim(request).map(drop)
    }

    /// Like [`Self::send`]. Returns false if nothing was sent, because the task has ended or its
    /// shim has exited.
    ///
    /// # Errors
    ///
    /// [`WatchError::Io`].
    pub fn send_to_live_shim(&mut self, request: &ShimRequest) -> Result<bool, WatchError> {
        let Some(link) = &self.connection else { return Ok(false) };
        match link.send(request) {
            // The next receive reports the disconnection and recovers the task.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            result => {
                result.map_err(|source| self.io_error("send a request to its shim", source))?;
                Ok(true)
            }
        }
    }

    /// Sends a request and waits until the shim has carried it out. If the shim dies before its
    /// reply, repeats the request with its successor. Returns `Ok(false)` if the task has ended.
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

    /// Sends a request and waits until the shim has carried it out. Messages other than responses
    /// that arrive meanwhile are passed to `seen`. If the shim dies before its reply, the request is
    /// not repeated, because it may have been carried out; the next request reaches its successor.
    /// Returns `Ok(false)` if the task has ended.
    ///
    /// # Errors
    ///
    /// [`WatchError`]; with [`ShimRequestError::Disconnected`] if the shim died before its reply.
    pub fn request_once(
        &mut self,
        request: &ShimRequest,
        timeout_ms: u64,
        seen: impl FnMut(ShimMessage),
    ) -> Result<bool, WatchError> {
        self.continue_shim()?;
        let Some(link) = &self.connection else { return Ok(false) };
        match link.request(request, timeout_ms, seen) {
            Ok(()) => Ok(true),
            Err(source) => {
                if matches!(source, ShimRequestError::Disconnected) {
                    self.connection = None;
                    self.reconnect()?;
                    // Keys may have been typed before the end.
                    if self.is_finished() && !request.is_terminal_write() {
                        return Ok(false);
                    }
                }
                Err(WatchError::Ask { id: self.id, source })
            }
        }
    }

    /// Requests the move of the task to the background. The shim decides: if the task has already
    /// ended, the request changes nothing.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub fn move_to_background(&mut self, why: BackgroundReason) -> Result<(), WatchError> {
        self.request(&ShimRequest::Place { why }, SHIM_REPLY_TIMEOUT_MS).map(drop)
    }

    /// Connects to the task's shim, which is replaced first if it is dead. Without a connection
    /// afterwards, the task has ended.
    fn reconnect(&mut self) -> Result<(), WatchError> {
        let latest = clock::monotonic_now().plus_ms(CONNECT_TIMEOUT_MS);
        let until = self.until.map_or(latest, |until| until.min(latest));
        let mut pause = CONNECT_RETRY_PAUSE.0;
        loop {
            // Recovery comes first: the shim may be stopped by a signal, or may have exited after
            // the end of the task.
            match self.recover()? {
                RecoveryOutcome::Ended | RecoveryOutcome::EndRecorded => return Ok(()),
                RecoveryOutcome::NeverRecorded => return Err(self.never_started_error()),
                RecoveryOutcome::Quarantined { path, why } => {
                    return Err(WatchError::Quarantined { id: self.id, path, why });
                }
                RecoveryOutcome::TooNew { why } => {
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
            // The shim, or a process that recovers the task, is starting or exiting.
            if clock::monotonic_now() >= until {
                return Err(self.io_error("connect to its shim", io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(CONNECT_RETRY_PAUSE.1);
        }
    }

    fn recover(&self) -> Result<RecoveryOutcome, WatchError> {
        match self.root.task_dir(self.id) {
            // Another process has removed the unrecorded task.
            Err(StoreError::NoSuchTask { .. }) if self.is_new => {
                return Ok(RecoveryOutcome::NeverRecorded);
            }
            result => drop(result?),
        }
        let recovery = Recovery::new(self.root, self.program)
            .map_err(|source| self.io_error("read the boot id", source))?;
        Ok(recovery.recover_task(self.id)?)
    }

    /// Connects to the shim and subscribes. Returns false if the caller has to try again.
    fn connect(&mut self) -> Result<bool, WatchError> {
        let dir = self.root.task_dir(self.id)?;
        let Some(link) = ShimConnection::connect_within(&dir, self.reply_timeout_ms())
            .map_err(|source| self.io_error("connect", source))?
        else {
            return Ok(false);
        };
        if !self.subscribe(&link)? {
            return Ok(false);
        }
        // The journal is read after the subscription, so that every record is either in the journal
        // or arrives as a message.
        let (_, state) = self.state()?;
        self.connection = state.is_live().then_some(link);
        self.reconnects += 1;
        Ok(true)
    }

    /// Resumes the shim if a signal has stopped it, because a stopped shim answers no request and
    /// enforces no deadline. Returns whether the shim was stopped.
    fn continue_shim(&self) -> Result<bool, WatchError> {
        let Ok((_, state)) = self.state() else { return Ok(false) };
        crate::task::shim_client::continue_stopped_shim(state.shim)
            .map_err(|source| self.io_error("continue its shim", source))
    }

    fn subscribe(&self, link: &ShimConnection) -> Result<bool, WatchError> {
        let subscribe = ShimRequest::Subscribe { follow: false, shown: None };
        match link.request(&subscribe, self.reply_timeout_ms(), drop) {
            Ok(()) => Ok(true),
            Err(ShimRequestError::Disconnected) => Ok(false),
            Err(ShimRequestError::TimedOut { .. }) if self.continue_shim()? => Ok(false),
            Err(source) => Err(WatchError::Ask { id: self.id, source }),
        }
    }

    /// Returns the present maximum wait for the answer of a shim, in milliseconds.
    fn reply_timeout_ms(&self) -> u64 {
        self.until.map_or(SHIM_REPLY_TIMEOUT_MS, |until| {
            let left = until.ms_since(clock::monotonic_now());
            left.clamp(MIN_REPLY_TIMEOUT_MS, SHIM_REPLY_TIMEOUT_MS)
        })
    }

    fn other_machine_error(&self, machine: &str) -> WatchError {
        let why = format!("it runs on another machine, `{machine}`; run the command there");
        self.io_error("connect to its shim", io::Error::other(why))
    }

    fn never_started_error(&self) -> WatchError {
        let why = "its shim exited before the first record, so nothing runs; \
                   `siding doctor` shows what this machine lacks";
        self.io_error("start", io::Error::other(why))
    }

    fn io_error(&self, doing: &'static str, source: io::Error) -> WatchError {
        WatchError::Io { id: self.id, doing, source }
    }
}
