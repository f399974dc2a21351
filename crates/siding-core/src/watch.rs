//! Watching a task until it ends, whatever happens to its shim.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::TaskNotices;
use siding_model::protocol::{ShimMessage, ShimRequest};

use crate::journal_file::ReadError;
use crate::link::{AskError, Heard, Link};
use crate::recover::{Found, RecoverError, Recovery};
use crate::store::{Root, StoreError, TaskDir};
use crate::sys::clock;

/// How long a connection is tried while another process starts or rescues the task, in
/// milliseconds, and the first and longest pause between two tries.
const CONNECT_MS: u64 = 10_000;
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// How long a shim may take for what it does at once, in milliseconds.
const ANSWER_MS: u64 = 10_000;

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
        source: ReadError,
    },
    /// Its shim said no, or said nothing.
    #[error("task {id}: {source}")]
    Ask {
        /// The task.
        id: TaskId,
        /// What happened.
        source: AskError,
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
pub struct Watch<'r> {
    root: &'r Root,
    program: &'r CStr,
    id: TaskId,
    link: Option<Link>,
    /// Whether its shim has said nothing yet, so that it may not even be on record.
    is_new: bool,
    /// How often another connection was made.
    renewed: u32,
}

impl<'r> Watch<'r> {
    /// Begins to watch a task with a connection that exists already and is subscribed.
    #[must_use]
    pub const fn over(root: &'r Root, program: &'r CStr, id: TaskId, link: Link) -> Self {
        Self { root, program, id, link: Some(link), is_new: true, renewed: 0 }
    }

    /// Begins to watch a task: connects to its shim, or to a new one when that was killed. Every
    /// record that is written from now on is heard.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub fn open(root: &'r Root, program: &'r CStr, id: TaskId) -> Result<Self, WatchError> {
        let mut watch = Self { root, program, id, link: None, is_new: false, renewed: 0 };
        watch.reconnect()?;
        watch.renewed = 0;
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
        self.link.as_ref().map(AsFd::as_fd)
    }

    /// Whether the task is known to have ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.link.is_none()
    }

    /// Returns how often its shim has been replaced since. A new one knows nothing of what the one
    /// before was asked to tell, but for the records.
    #[must_use]
    pub const fn renewed(&self) -> u32 {
        self.renewed
    }

    /// Opens the task's directory.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn dir(&self) -> Result<TaskDir, StoreError> {
        self.root.task(self.id)
    }

    /// Reads what is on record.
    ///
    /// # Errors
    ///
    /// [`WatchError::Store`], [`WatchError::Journal`].
    pub fn state(&self) -> Result<(TaskDir, TaskState), WatchError> {
        let dir = self.root.task(self.id)?;
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
    pub fn story(&self) -> Result<(TaskDir, TaskNotices), WatchError> {
        let dir = self.root.task(self.id)?;
        match dir.story() {
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
    pub fn take(&mut self) -> Result<Option<ShimMessage>, WatchError> {
        let Some(link) = &self.link else { return Ok(None) };
        match link.take().map_err(|source| self.io("hear from its shim", source))? {
            Heard::Message(message) => {
                self.is_new = false;
                Ok(Some(message))
            }
            Heard::Nothing => Ok(None),
            Heard::Gone => {
                self.link = None;
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
        let Some(link) = &self.link else { return Ok(()) };
        match link.send(request) {
            // What its death means is found out when it is read from.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(|source| self.io("ask its shim", source)),
        }
    }

    /// Sends a request and waits until it was carried out. When the shim dies meanwhile, asks the
    /// next one. A task that has ended is `Ok(false)`.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub fn ask(&mut self, request: &ShimRequest, timeout_ms: u64) -> Result<bool, WatchError> {
        self.wake_shim()?;
        loop {
            let Some(link) = &self.link else { return Ok(false) };
            match link.ask(request, timeout_ms, drop) {
                Ok(()) => return Ok(true),
                Err(AskError::Gone) => {
                    self.link = None;
                    self.reconnect()?;
                }
                Err(source) => return Err(WatchError::Ask { id: self.id, source }),
            }
        }
    }

    /// Connects to the shim, or finds that the task has ended.
    fn reconnect(&mut self) -> Result<(), WatchError> {
        let until = clock::mono().plus_ms(CONNECT_MS);
        let mut pause = PAUSE.0;
        loop {
            // Asked first, since a shim may be stopped, or may have said all that it had to say.
            match self.recover()? {
                Found::Ended | Found::Closed => return Ok(()),
                Found::Unborn => return Err(self.never_started()),
                Found::SetAside { why, .. } | Found::TooNew { why } => {
                    return Err(WatchError::Journal { id: self.id, source: why.into() });
                }
                Found::Elsewhere { machine } => return Err(self.elsewhere(&machine)),
                Found::Kept | Found::Continued | Found::Rescued => {
                    if self.connect()? {
                        return Ok(());
                    }
                }
                Found::Busy => {}
            }
            // Its shim, or a rescuer, is just coming or going.
            if clock::mono() >= until {
                return Err(self.io("reach its shim", io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    fn recover(&self) -> Result<Found, WatchError> {
        match self.root.task(self.id) {
            // Somebody else has cleared away what nothing was recorded of.
            Err(StoreError::NoSuchTask { .. }) if self.is_new => return Ok(Found::Unborn),
            result => drop(result?),
        }
        let recovery = Recovery::new(self.root, self.program)
            .map_err(|source| self.io("read the boot id", source))?;
        Ok(recovery.task(self.id)?)
    }

    /// Connects to a shim that is there. Returns whether it is known how the task stands.
    fn connect(&mut self) -> Result<bool, WatchError> {
        let dir = self.root.task(self.id)?;
        let Some(link) = Link::connect(&dir).map_err(|source| self.io("connect", source))? else {
            return Ok(false);
        };
        if !self.subscribe(&link)? {
            return Ok(false);
        }
        // Whatever was recorded before is in the journal, whatever comes will be heard.
        let (_, state) = self.state()?;
        self.link = state.is_live().then_some(link);
        self.renewed += 1;
        Ok(true)
    }

    /// Continues the shim if somebody stopped it: it could not answer, and holds no deadline.
    fn wake_shim(&self) -> Result<bool, WatchError> {
        let Ok((_, state)) = self.state() else { return Ok(false) };
        crate::link::continue_stopped_shim(state.shim)
            .map_err(|source| self.io("continue its shim", source))
    }

    fn subscribe(&self, link: &Link) -> Result<bool, WatchError> {
        let subscribe = ShimRequest::Subscribe { follow: false };
        match link.ask(&subscribe, ANSWER_MS, drop) {
            Ok(()) => Ok(true),
            Err(AskError::Gone) => Ok(false),
            Err(AskError::Silent { .. }) => {
                if self.wake_shim()? {
                    return Ok(false);
                }
                let source = AskError::Silent { waited_ms: ANSWER_MS };
                Err(WatchError::Ask { id: self.id, source })
            }
            Err(source) => Err(WatchError::Ask { id: self.id, source }),
        }
    }

    fn elsewhere(&self, machine: &str) -> WatchError {
        let why = format!("it is kept by another machine, `{machine}`; ask there");
        self.io("reach its shim", io::Error::other(why))
    }

    fn never_started(&self) -> WatchError {
        let why = "its shim ended before anything was on record, and nothing runs; \
                   `siding doctor` tells what this machine lacks";
        self.io("start", io::Error::other(why))
    }

    fn io(&self, doing: &'static str, source: io::Error) -> WatchError {
        WatchError::Io { id: self.id, doing, source }
    }
}
