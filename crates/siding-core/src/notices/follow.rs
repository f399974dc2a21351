//! Being woken for the news of a session.
//!
//! Two things wake: a change in a journal, told by inotify, and the death of a shim, told by its
//! pidfd; then recovery puts another in its place or records the end. No shim is talked to, so
//! nobody who follows costs one anything.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use siding_model::id::{SessionId, TaskId};
use siding_model::journal::JournalError;
use siding_model::process::{MonotonicMs, ProcRef};

use super::error::{NoticesError, io_of};
use super::outbox::{Look, Outbox};
use crate::journal_file::{self, ReadError};
use crate::recover::{Found, Recovery};
use crate::session;
use crate::store::{LIVE, StoreError, TASKS};
use crate::sys::inotify::{Change, Inotify, Watched};
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, poll, procfs};

/// When a task is looked at again that somebody else is recovering, in milliseconds.
const BUSY_MS: u64 = 50;
/// The same for one that could not be recovered or read, for want of space, memory or descriptors.
const FAILED_MS: u64 = 5_000;

/// Follows the outbox of a session, or those of all sessions of one owner.
#[derive(Debug)]
pub struct Follower<'o, 'r> {
    outbox: &'o Outbox<'r>,
    /// The owner whose other sessions are followed too, for as long as it lives.
    owner: Option<PidFd>,
    program: &'o CStr,
    inotify: Inotify,
    live: Watched,
    watched: HashMap<Watched, TaskId>,
    tasks: HashMap<TaskId, Followed>,
    /// Tasks to look at.
    changed: BTreeSet<TaskId>,
    /// When tasks are to be looked at again although nothing happens to them.
    again: HashMap<TaskId, MonotonicMs>,
    /// Whether a subagent has ended, so that tasks of others may be this session's now.
    is_heir: bool,
}

/// A task that has not ended.
#[derive(Debug)]
struct Followed {
    watched: Watched,
    /// Its shim; none while nothing is on record, or nobody keeps it.
    shim: Option<PidFd>,
}

/// What a wait came to.
#[derive(Debug)]
pub enum Woken {
    /// These tasks may have something to tell.
    News(Vec<TaskId>),
    /// Nobody reads any more what is told.
    Unread,
}

impl<'o, 'r> Follower<'o, 'r> {
    /// Begins to follow. `program` becomes the shims of tasks whose own are killed. What is in the
    /// outbox already is the caller's to look at, afterwards.
    ///
    /// # Errors
    ///
    /// [`NoticesError`]; `EMFILE` in it when the user has no inotify instance left.
    pub fn new(outbox: &'o Outbox<'r>, program: &'o CStr) -> Result<Self, NoticesError> {
        Self::begin(outbox, None, program)
    }

    /// As [`Self::new`], and of every other session of `owner` too, also of those that it opens
    /// later. Nobody reads any more once it has ended.
    ///
    /// # Errors
    ///
    /// As [`Self::new`]; [`NoticesError::Io`] when the owner has ended.
    pub fn of_owner(
        outbox: &'o Outbox<'r>,
        owner: ProcRef,
        program: &'o CStr,
    ) -> Result<Self, NoticesError> {
        let owner = PidFd::open(owner).map_err(io_of(outbox.session(), "find its owner"))?;
        Self::begin(outbox, Some(owner), program)
    }

    fn begin(
        outbox: &'o Outbox<'r>,
        owner: Option<PidFd>,
        program: &'o CStr,
    ) -> Result<Self, NoticesError> {
        let path = outbox.root().path().join(LIVE);
        let (inotify, live) = Inotify::new()
            .and_then(|inotify| {
                let live = inotify.watch_entries(&path)?;
                Ok((inotify, live))
            })
            .map_err(io_of(outbox.session(), "watch the state directory"))?;
        let mut follower = Self {
            outbox,
            owner,
            program,
            inotify,
            live,
            watched: HashMap::new(),
            tasks: HashMap::new(),
            changed: BTreeSet::new(),
            again: HashMap::new(),
            is_heir: false,
        };
        follower.find()?;
        Ok(follower)
    }

    /// Waits until there may be something to tell. `out` is where it is told.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn next(&mut self, out: BorrowedFd<'_>) -> Result<Woken, NoticesError> {
        loop {
            if !self.changed.is_empty() {
                let changed = std::mem::take(&mut self.changed);
                return Ok(Woken::News(changed.into_iter().collect()));
            }
            if poll::is_unread(out) || self.owner.as_ref().is_some_and(PidFd::is_dead) {
                return Ok(Woken::Unread);
            }
            self.wait(out)?;
        }
    }

    /// Takes note of tasks that a look found to have more to tell later.
    pub fn come_back(&mut self, look: &Look) {
        for (id, at) in &look.later {
            let due = self.again.entry(*id).or_insert(*at);
            *due = (*at).min(*due);
        }
        for (id, error) in &look.unread {
            if matches!(error, ReadError::Io(_)) {
                self.try_again(*id);
            }
        }
    }

    /// Comes back to a task that cannot be read now: what it has to tell is not over with that.
    fn try_again(&mut self, id: TaskId) {
        let at = clock::mono().plus_ms(FAILED_MS);
        self.again.entry(id).or_insert(at);
    }

    fn wait(&mut self, out: BorrowedFd<'_>) -> Result<(), NoticesError> {
        if self.is_heir {
            return self.find();
        }
        let now = clock::mono();
        let timeout = self.again.values().min().map(|at| at.ms_since(now));
        let held: Vec<(TaskId, BorrowedFd<'_>)> = self
            .tasks
            .iter()
            .filter_map(|(id, task)| Some((*id, task.shim.as_ref()?.as_fd())))
            .collect();
        let mut fds = vec![self.inotify.as_fd()];
        fds.extend(held.iter().map(|(_, fd)| *fd));
        fds.extend(self.owner.as_ref().map(AsFd::as_fd));
        let ready =
            poll::wait_beside(&fds, out, timeout).map_err(io_of(self.outbox.session(), "wait"))?;
        let dead: Vec<TaskId> = held
            .iter()
            .zip(&ready[1..])
            .filter(|(_, dead)| **dead)
            .map(|((id, _), _)| *id)
            .collect();
        if ready[0] {
            self.take_changes()?;
        }
        for id in dead {
            self.recover(id)?;
        }
        let now = clock::mono();
        let due: Vec<TaskId> =
            self.again.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for id in due {
            self.again.remove(&id);
            self.changed.insert(id);
            self.look_after(id)?;
        }
        Ok(())
    }

    fn take_changes(&mut self) -> Result<(), NoticesError> {
        let changes =
            self.inotify.take().map_err(io_of(self.outbox.session(), "hear of changes"))?;
        for change in changes {
            match change {
                Change::Entry { watched, name } if watched == self.live => {
                    if let Ok(id) = name.parse() {
                        self.touched(id)?;
                    }
                }
                Change::Entry { watched, .. } | Change::Written(watched) => {
                    if let Some(id) = self.watched.get(&watched).copied() {
                        self.touched(id)?;
                    }
                }
                Change::Overflow => self.find()?,
            }
        }
        Ok(())
    }

    /// Looks for what came and went unheard.
    fn find(&mut self) -> Result<(), NoticesError> {
        let live = self.outbox.root().live_tasks()?;
        let known: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in live.into_iter().chain(known) {
            self.touched(id)?;
        }
        self.is_heir = false;
        Ok(())
    }

    fn touched(&mut self, id: TaskId) -> Result<(), NoticesError> {
        self.changed.insert(id);
        self.look_after(id)
    }

    /// Watches a task as its journal demands: not at all once it has ended, or is another session's.
    fn look_after(&mut self, id: TaskId) -> Result<(), NoticesError> {
        let root = self.outbox.root();
        let dir = match root.task(id) {
            Ok(dir) => dir,
            Err(StoreError::NoSuchTask { .. }) => {
                self.forget(id);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.watch(id)?;
        let state = match dir.read() {
            Ok(folded) => folded.state,
            // Just being made.
            Err(ReadError::Content(JournalError::Empty)) => return Ok(()),
            // Its own shim may still be the one who knows; the next command looks after it.
            Err(ReadError::Content(_)) => {
                self.forget(id);
                return Ok(());
            }
            Err(ReadError::Io(_)) => {
                self.try_again(id);
                return Ok(());
            }
        };
        if !self.follows(&state.spec.session_id) {
            self.changed.remove(&id);
        } else if state.is_live() {
            let Some(task) = self.tasks.get_mut(&id) else { return Ok(()) };
            if task.shim.as_ref().is_none_or(|shim| shim.process != state.shim) {
                match PidFd::open(state.shim) {
                    Ok(shim) => task.shim = Some(shim),
                    Err(_) => return self.recover(id),
                }
            }
            return Ok(());
        } else {
            self.is_heir |= id.kind().has_session();
        }
        self.forget(id);
        Ok(())
    }

    fn follows(&self, id: &SessionId) -> bool {
        let is_owners = |owner: &PidFd| {
            let session = session::read(self.outbox.root(), id).ok().flatten();
            let boot = procfs::boot_id().ok();
            session
                .zip(boot)
                .is_some_and(|(it, boot)| it.living_owner(&boot) == Some(owner.process))
        };
        self.outbox.has(id) || self.owner.as_ref().is_some_and(is_owners)
    }

    /// Watches the journal of a task, or its directory while there is none.
    fn watch(&mut self, id: TaskId) -> Result<(), NoticesError> {
        let path = self.outbox.root().path().join(TASKS).join(id.to_string());
        let watched = match self.watch_journal(&path) {
            // It is removed at this moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => result.map_err(io_of(self.outbox.session(), "watch a journal"))?,
        };
        let shim = self.tasks.remove(&id).and_then(|before| {
            if before.watched != watched {
                self.inotify.forget(before.watched);
                self.watched.remove(&before.watched);
            }
            before.shim
        });
        self.watched.insert(watched, id);
        self.tasks.insert(id, Followed { watched, shim });
        Ok(())
    }

    fn watch_journal(&self, task: &Path) -> io::Result<Watched> {
        let journal = task.join(journal_file::NAME);
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match self.inotify.watch_writes(&journal) {
            Err(error) if missing(&error) => {}
            result => return result,
        }
        let directory = self.inotify.watch_entries(task)?;
        // It may have been made between the two.
        match self.inotify.watch_writes(&journal) {
            Err(error) if missing(&error) => Ok(directory),
            result => {
                self.inotify.forget(directory);
                result
            }
        }
    }

    fn forget(&mut self, id: TaskId) {
        if let Some(task) = self.tasks.remove(&id) {
            self.inotify.forget(task.watched);
            self.watched.remove(&task.watched);
        }
    }

    /// Puts another shim in the place of a dead one, or has the end recorded.
    fn recover(&mut self, id: TaskId) -> Result<(), NoticesError> {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.shim = None;
        }
        let recovery = Recovery::new(self.outbox.root(), self.program)
            .map_err(io_of(self.outbox.session(), "read the boot id"))?;
        let wait_ms = match recovery.task(id) {
            // It has ended, or has a new shim, or somebody else is at work on it: then the journal
            // tells, and should that one die as well, the next look finds nobody.
            Ok(
                Found::Ended
                | Found::Closed
                | Found::Rescued
                | Found::Continued
                | Found::Unborn
                | Found::Busy,
            ) => BUSY_MS,
            // Its shim lives and cannot be held from here, or nothing can be done. Its journal
            // tells all the same, and it must not keep the news of others back.
            Ok(
                Found::Kept
                | Found::Elsewhere { .. }
                | Found::SetAside { .. }
                | Found::TooNew { .. },
            )
            | Err(_) => FAILED_MS,
        };
        self.changed.insert(id);
        self.again.insert(id, clock::mono().plus_ms(wait_ms));
        Ok(())
    }
}
