//! Waits for new notices of a session.
//!
//! A follower wakes when a journal changes (inotify) and when a shim dies (its pidfd), in which
//! case recovery starts a new shim or records the end of the task. A follower does not connect to
//! any shim, so following costs a shim nothing.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use siding_model::id::{SessionId, TaskId};
use siding_model::journal::JournalError;
use siding_model::process::{MonotonicMs, ProcRef};

use super::error::{NoticesError, io_error_in};
use super::outbox::{Outbox, PendingNotices};
use crate::session;
use crate::store::journal_file::{self, JournalReadError};
use crate::store::{LIVE_DIR, StoreError, TASKS_DIR};
use crate::sys::inotify::{Inotify, InotifyEvent, WatchId};
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, poll, procfs};
use crate::task::recover::{Recovery, RecoveryOutcome};

/// Delay before the next check of a task that was recovered, or that another process is recovering,
/// in milliseconds.
const BUSY_RETRY_MS: u64 = 50;
/// Delay before the next check of a task that could not be recovered or read, for example because
/// disk space, memory or descriptors were exhausted, in milliseconds.
const FAILED_RETRY_MS: u64 = 5_000;

/// Follows the outbox of one session, and optionally all sessions of one owner.
#[derive(Debug)]
pub struct OutboxFollower<'o, 'r> {
    outbox: &'o Outbox<'r>,
    /// The owner whose sessions are also followed; `None` if only the outbox is followed.
    owner: Option<PidFd>,
    program: &'o CStr,
    inotify: Inotify,
    live_dir_watch: WatchId,
    watched_tasks: HashMap<WatchId, TaskId>,
    tasks: HashMap<TaskId, FollowedTask>,
    /// Tasks whose notices may have changed.
    changed: BTreeSet<TaskId>,
    /// Times at which tasks are checked again without an event.
    retry_at: HashMap<TaskId, MonotonicMs>,
    /// Whether a subagent or teammate has ended, so that this session may have inherited tasks.
    subagent_ended: bool,
}

#[derive(Debug)]
struct FollowedTask {
    watch_id: WatchId,
    /// The task's shim; `None` before the first record, after the shim has died, and if its pidfd
    /// could not be opened.
    shim: Option<PidFd>,
}

/// The reason why [`OutboxFollower::next_event`] has returned.
#[derive(Debug)]
pub enum FollowEvent {
    /// These tasks may have new notices.
    TasksChanged(Vec<TaskId>),
    /// The reader of the notices has closed its end, or the owner has exited.
    ReaderClosed,
}

impl<'o, 'r> OutboxFollower<'o, 'r> {
    /// Starts to follow the outbox. After this call the caller must read the notices that are
    /// already pending, because no event reports those of ended tasks. `program` is executed as the
    /// new shim of a task whose shim was killed.
    ///
    /// # Errors
    ///
    /// [`NoticesError`]; contains `EMFILE` if the user's inotify instances are exhausted.
    pub fn new(outbox: &'o Outbox<'r>, program: &'o CStr) -> Result<Self, NoticesError> {
        Self::start(outbox, None, program)
    }

    /// Starts to follow the outbox and every session of `owner`, including later sessions.
    /// [`Self::next_event`] reports [`FollowEvent::ReaderClosed`] once the owner has exited.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::new`]; [`NoticesError::Io`] if the owner has exited.
    pub fn for_owner(
        outbox: &'o Outbox<'r>,
        owner: ProcRef,
        program: &'o CStr,
    ) -> Result<Self, NoticesError> {
        let owner = PidFd::open(owner).map_err(io_error_in(outbox.session(), "find its owner"))?;
        Self::start(outbox, Some(owner), program)
    }

    fn start(
        outbox: &'o Outbox<'r>,
        owner: Option<PidFd>,
        program: &'o CStr,
    ) -> Result<Self, NoticesError> {
        let path = outbox.root().path().join(LIVE_DIR);
        let (inotify, live) = Inotify::new()
            .and_then(|inotify| {
                let live = inotify.watch_entries(&path)?;
                Ok((inotify, live))
            })
            .map_err(io_error_in(outbox.session(), "watch the state directory"))?;
        let mut follower = Self {
            outbox,
            owner,
            program,
            inotify,
            live_dir_watch: live,
            watched_tasks: HashMap::new(),
            tasks: HashMap::new(),
            changed: BTreeSet::new(),
            retry_at: HashMap::new(),
            subagent_ended: false,
        };
        follower.rescan_live_tasks()?;
        Ok(follower)
    }

    /// Waits until there may be new notices, until the other end of `out` is closed, or until the
    /// owner of the followed sessions has exited.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn next_event(&mut self, out: BorrowedFd<'_>) -> Result<FollowEvent, NoticesError> {
        loop {
            if !self.changed.is_empty() {
                let changed = std::mem::take(&mut self.changed);
                return Ok(FollowEvent::TasksChanged(changed.into_iter().collect()));
            }
            if poll::is_peer_closed(out) || self.owner.as_ref().is_some_and(PidFd::is_dead) {
                return Ok(FollowEvent::ReaderClosed);
            }
            self.wait(out)?;
        }
    }

    /// Schedules another check of tasks whose notices are due later, and of tasks whose journal
    /// could not be read because of an I/O error.
    pub fn schedule_later(&mut self, pending: &PendingNotices) {
        for (id, at) in &pending.due_later {
            let due = self.retry_at.entry(*id).or_insert(*at);
            *due = (*at).min(*due);
        }
        for (id, error) in &pending.unreadable {
            if matches!(error, JournalReadError::Io(_)) {
                self.schedule_retry(*id);
            }
        }
    }

    /// Schedules another check of a task that is temporarily unreadable, so that its notices are
    /// not lost.
    fn schedule_retry(&mut self, id: TaskId) {
        let at = clock::monotonic_now().plus_ms(FAILED_RETRY_MS);
        self.retry_at.entry(id).or_insert(at);
    }

    fn wait(&mut self, out: BorrowedFd<'_>) -> Result<(), NoticesError> {
        if self.subagent_ended {
            return self.rescan_live_tasks();
        }
        let now = clock::monotonic_now();
        let timeout = self.retry_at.values().min().map(|at| at.ms_since(now));
        let held: Vec<(TaskId, BorrowedFd<'_>)> = self
            .tasks
            .iter()
            .filter_map(|(id, task)| Some((*id, task.shim.as_ref()?.as_fd())))
            .collect();
        let mut fds = vec![self.inotify.as_fd()];
        fds.extend(held.iter().map(|(_, fd)| *fd));
        fds.extend(self.owner.as_ref().map(AsFd::as_fd));
        let ready = poll::wait_readable_or_closed(&fds, out, timeout)
            .map_err(io_error_in(self.outbox.session(), "wait"))?;
        let dead: Vec<TaskId> = held
            .iter()
            .zip(&ready[1..])
            .filter(|(_, dead)| **dead)
            .map(|((id, _), _)| *id)
            .collect();
        if ready[0] {
            self.read_inotify_events()?;
        }
        for id in dead {
            self.recover_task(id)?;
        }
        let now = clock::monotonic_now();
        let due: Vec<TaskId> =
            self.retry_at.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for id in due {
            self.retry_at.remove(&id);
            self.changed.insert(id);
            self.update_watch(id)?;
        }
        Ok(())
    }

    fn read_inotify_events(&mut self) -> Result<(), NoticesError> {
        let changes = self
            .inotify
            .read_events()
            .map_err(io_error_in(self.outbox.session(), "read inotify events"))?;
        for change in changes {
            match change {
                InotifyEvent::Entry { watch_id: watched, name }
                    if watched == self.live_dir_watch =>
                {
                    if let Ok(id) = name.parse() {
                        self.task_changed(id)?;
                    }
                }
                InotifyEvent::Entry { watch_id: watched, .. } | InotifyEvent::Modified(watched) => {
                    if let Some(id) = self.watched_tasks.get(&watched).copied() {
                        self.task_changed(id)?;
                    }
                }
                InotifyEvent::Overflow => self.rescan_live_tasks()?,
            }
        }
        Ok(())
    }

    /// Checks all live and all followed tasks. Needed after an inotify overflow, which loses
    /// events, and after the end of a subagent or teammate, whose tasks this session may have
    /// inherited.
    fn rescan_live_tasks(&mut self) -> Result<(), NoticesError> {
        let live = self.outbox.root().live_tasks()?;
        let known: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in live.into_iter().chain(known) {
            self.task_changed(id)?;
        }
        self.subagent_ended = false;
        Ok(())
    }

    fn task_changed(&mut self, id: TaskId) -> Result<(), NoticesError> {
        self.changed.insert(id);
        self.update_watch(id)
    }

    /// Watches a task as long as it has not ended and a followed session owns it.
    fn update_watch(&mut self, id: TaskId) -> Result<(), NoticesError> {
        let root = self.outbox.root();
        let dir = match root.task_dir(id) {
            Ok(dir) => dir,
            Err(StoreError::NoSuchTask { .. }) => {
                self.unwatch_task(id);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.watch_task(id)?;
        let state = match dir.read() {
            Ok(folded) => folded.state,
            // The task is being created, or its creation was interrupted.
            Err(JournalReadError::Content(JournalError::Empty)) => return Ok(()),
            // The journal is damaged or has a newer format, so it shows no state. If the shim of a
            // task with a damaged journal is dead, the recovery by the next command moves the task
            // to the quarantine directory.
            Err(JournalReadError::Content(_)) => {
                self.unwatch_task(id);
                return Ok(());
            }
            Err(JournalReadError::Io(_)) => {
                self.schedule_retry(id);
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
                    Err(_) => return self.recover_task(id),
                }
            }
            return Ok(());
        } else {
            self.subagent_ended |= id.kind().has_session();
        }
        self.unwatch_task(id);
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
        self.outbox.covers_session(id) || self.owner.as_ref().is_some_and(is_owners)
    }

    /// Watches the journal of a task, or its directory until the journal exists.
    fn watch_task(&mut self, id: TaskId) -> Result<(), NoticesError> {
        let path = self.outbox.root().path().join(TASKS_DIR).join(id.to_string());
        let watched = match self.watch_journal(&path) {
            // The task is being removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => result.map_err(io_error_in(self.outbox.session(), "watch a journal"))?,
        };
        let shim = self.tasks.remove(&id).and_then(|before| {
            if before.watch_id != watched {
                self.inotify.remove_watch(before.watch_id);
                self.watched_tasks.remove(&before.watch_id);
            }
            before.shim
        });
        self.watched_tasks.insert(watched, id);
        self.tasks.insert(id, FollowedTask { watch_id: watched, shim });
        Ok(())
    }

    fn watch_journal(&self, task: &Path) -> io::Result<WatchId> {
        let journal = task.join(journal_file::JOURNAL_FILE);
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match self.inotify.watch_writes(&journal) {
            Err(error) if missing(&error) => {}
            result => return result,
        }
        let directory = self.inotify.watch_entries(task)?;
        // The journal may have been created between the two calls.
        match self.inotify.watch_writes(&journal) {
            Err(error) if missing(&error) => Ok(directory),
            result => {
                self.inotify.remove_watch(directory);
                result
            }
        }
    }

    fn unwatch_task(&mut self, id: TaskId) {
        if let Some(task) = self.tasks.remove(&id) {
            self.inotify.remove_watch(task.watch_id);
            self.watched_tasks.remove(&task.watch_id);
        }
    }

    /// Tries to replace a dead shim or to record the end of its task, and schedules another check.
    fn recover_task(&mut self, id: TaskId) -> Result<(), NoticesError> {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.shim = None;
        }
        let recovery = Recovery::new(self.outbox.root(), self.program)
            .map_err(io_error_in(self.outbox.session(), "read the boot id"))?;
        let wait_ms = match recovery.recover_task(id) {
            // The task has ended, was removed, has a new or a continued shim, or is being recovered
            // by another process. The journal shows which of these, unless the task was removed. If
            // the other process dies during its recovery, the next check starts another one.
            Ok(
                RecoveryOutcome::Ended
                | RecoveryOutcome::EndRecorded
                | RecoveryOutcome::TakenOver
                | RecoveryOutcome::Continued
                | RecoveryOutcome::NeverRecorded
                | RecoveryOutcome::Busy,
            ) => BUSY_RETRY_MS,
            // The shim lives but its pidfd could not be opened, or recovery is impossible. The
            // journal is read anyway, and this task is checked again later, because notices of
            // other tasks must not wait for it.
            Ok(
                RecoveryOutcome::Supervised
                | RecoveryOutcome::OtherMachine { .. }
                | RecoveryOutcome::Quarantined { .. }
                | RecoveryOutcome::TooNew { .. },
            )
            | Err(_) => FAILED_RETRY_MS,
        };
        self.changed.insert(id);
        self.retry_at.insert(id, clock::monotonic_now().plus_ms(wait_ms));
        Ok(())
    }
}
