//! Reads the notices that a consumer has not acknowledged.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use siding_model::advice::Dialect;
use siding_model::evidence::StallRecord;
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::{JournalError, TaskState};
use siding_model::notice::{
    Consumer, MAX_SUMMARY_BYTES, Notice, NoticeId, NoticeKind, NoticeOutput, NoticeView,
    TaskNotices,
};
use siding_model::process::{BootId, MonotonicMs};

use super::acks::{self, Acks, Durability};
use super::error::{NoticesError, io_error_in};
use super::index::{EndedTaskIndex, EndedTaskNotices};
use super::printed;
use crate::output;
use crate::session;
use crate::store::journal_file::JournalReadError;
use crate::store::{StateDir, StoreError, TaskDir};
use crate::sys::{clock, file, procfs};
use crate::task::{listing, port_conflict};

/// Longest time to wait while another process delivers to the same consumer, in milliseconds.
const DELIVERY_LOCK_TIMEOUT_MS: u64 = 10_000;

/// The notices of one session for one consumer, including those of tasks inherited from ended
/// subagents.
#[derive(Debug)]
pub struct Outbox<'r> {
    root: &'r StateDir,
    session: SessionId,
    consumer: Consumer,
    /// The consumers whose acknowledgements keep a notice out of this outbox.
    omit_acknowledged_by: Vec<Consumer>,
    boot: BootId,
}

/// The notices of an outbox that a consumer has not acknowledged, and the tasks to check again.
#[derive(Debug, Default)]
pub struct PendingNotices {
    /// The notices to deliver, ordered by [`Notice::sort_key`].
    pub notices: Vec<NoticeView>,
    /// Tasks whose notices become due later, each with the time at which they do so without another
    /// event. Before then, the task's caller is expected to fetch the result itself.
    pub due_later: Vec<(TaskId, MonotonicMs)>,
    /// Tasks whose journals could not be read, so that their notices are missing here.
    pub unreadable: Vec<(TaskId, JournalReadError)>,
}

/// The exclusive right to deliver to a consumer, or to wait for its notices
/// ([`Outbox::try_become_waiter`]). The right to deliver is held from reading the outbox to the
/// acknowledgement, so that two processes do not deliver the same notices.
#[derive(Debug)]
#[must_use]
pub struct DeliveryLock(#[expect(dead_code, reason = "held for its lock only")] OwnedFd);

impl<'r> Outbox<'r> {
    /// Opens the outbox of a session.
    ///
    /// # Errors
    ///
    /// [`NoticesError::Io`] if the boot id cannot be read.
    pub fn new(
        root: &'r StateDir,
        session: SessionId,
        consumer: Consumer,
    ) -> Result<Self, NoticesError> {
        let boot = procfs::boot_id().map_err(io_error_in(&session, "read the boot id"))?;
        let omit_acknowledged_by = vec![consumer.clone()];
        Ok(Self { root, session, consumer, omit_acknowledged_by, boot })
    }

    /// Opens the outbox of a session for a person at a terminal ([`Consumer::terminal`]). It omits
    /// the notices that a terminal has shown, and those that the session's agent has acknowledged,
    /// for example because `siding wait` has shown the end of the task. A notice that only the
    /// terminal has acknowledged is still delivered to the agent.
    ///
    /// # Errors
    ///
    /// [`NoticesError::Io`] if the boot id cannot be read.
    pub fn for_terminal(root: &'r StateDir, session: SessionId) -> Result<Self, NoticesError> {
        let outbox = Self::new(root, session, Consumer::terminal())?;
        let omit_acknowledged_by = vec![Consumer::terminal(), Consumer::agent()];
        Ok(Self { omit_acknowledged_by, ..outbox })
    }

    /// Includes the notices that consumers have acknowledged, except those of results that were
    /// returned to the caller of the task.
    #[must_use]
    pub fn with_acknowledged(self) -> Self {
        Self { omit_acknowledged_by: Vec::new(), ..self }
    }

    /// Returns the session that owns this outbox.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    #[must_use]
    pub(super) const fn root(&self) -> &'r StateDir {
        self.root
    }

    /// Waits for the delivery lock of this session and consumer, for at most 10 s.
    ///
    /// # Errors
    ///
    /// [`NoticesError`], including `Busy` if another process holds the lock for more than 10 s.
    pub fn lock_delivery(&self) -> Result<DeliveryLock, NoticesError> {
        self.lock_delivery_within(DELIVERY_LOCK_TIMEOUT_MS)
    }

    /// Waits for the delivery lock for at most `most_ms` milliseconds.
    ///
    /// # Errors
    ///
    /// [`NoticesError`], including `Busy` if another process holds the lock for longer.
    pub fn lock_delivery_within(&self, most_ms: u64) -> Result<DeliveryLock, NoticesError> {
        let fd = self.open_lock_file(&format!("deliver.lock.{}", self.consumer))?;
        let started = clock::monotonic_now();
        if file::lock_exclusive_within(&fd, most_ms)
            .map_err(io_error_in(&self.session, "take a lock"))?
        {
            return Ok(DeliveryLock(fd));
        }
        let waited_ms = clock::monotonic_now().ms_since(started);
        let (session, consumer) = (self.session.clone(), self.consumer.clone());
        Err(NoticesError::Busy { session, consumer, waited_ms })
    }

    /// Makes this process the only one that waits for this consumer's notices, until the lock is
    /// dropped. `None` if another process already waits.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn try_become_waiter(&self) -> Result<Option<DeliveryLock>, NoticesError> {
        let fd = self.open_lock_file(&format!("waiting.{}", self.consumer))?;
        let taken =
            file::try_lock_exclusive(&fd).map_err(io_error_in(&self.session, "take a lock"))?;
        Ok(taken.then_some(DeliveryLock(fd)))
    }

    fn open_lock_file(&self, name: &str) -> Result<OwnedFd, NoticesError> {
        let dir = self.root.session_dir(self.session.as_str(), true)?;
        file::open_or_create(&dir, name).map_err(io_error_in(&self.session, "open a lock"))
    }

    /// Reads the pending notices of all tasks of the session and of the sessions that it has
    /// inherited. An ended task that the cache lists costs almost nothing if its notices are
    /// acknowledged or belong to another session.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn pending(&self) -> Result<PendingNotices, NoticesError> {
        let all_acks = self.read_acks()?;
        let index = EndedTaskIndex::read(self.root);
        let all = self.root.all_tasks()?;
        let is_settled = |id: TaskId| {
            index.get(id).is_some_and(|entry| {
                let acks = all_acks.get(&entry.session);
                acks.is_none_or(|acks| entry.notice_ids(id).all(|id| self.is_omitted(acks, id)))
            })
        };
        let open: Vec<TaskId> = all.iter().copied().filter(|id| !is_settled(*id)).collect();
        let (pending, ended) = self.scan_tasks(&open, &all_acks);
        let new = ended.into_iter().filter(|(id, _)| index.get(*id).is_none()).collect();
        index.merge_and_write(self.root, new, &all);
        Ok(pending)
    }

    /// Reads the pending notices of these tasks.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn pending_for(&self, tasks: &[TaskId]) -> Result<PendingNotices, NoticesError> {
        Ok(self.scan_tasks(tasks, &self.read_acks()?).0)
    }

    /// Records that the consumer has received these notices.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn acknowledge(&self, notices: &[NoticeId]) -> Result<(), NoticesError> {
        let add = |session: &SessionId, notices: &[NoticeId]| {
            acks::append_acks(self.root, session, Some(&self.consumer), notices, Durability::Disk)
        };
        let inherited = session::inherited_sessions(self.root, &self.session, &self.boot)?;
        let (mut own, mut others) = (Vec::new(), HashMap::<SessionId, Vec<NoticeId>>::new());
        for notice in notices {
            match self.owning_session(notice.task, &inherited) {
                Some(session) => others.entry(session).or_default().push(*notice),
                None => own.push(*notice),
            }
        }
        for (session, notices) in &others {
            add(session, notices)?;
        }
        add(&self.session, &own)
    }

    /// Records which notices were printed for the consumer without being acknowledged. Replaces the
    /// record of an earlier call.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn record_printed(&self, notices: &[NoticeId]) -> Result<(), NoticesError> {
        printed::write(self.root, &self.session, &self.consumer, notices)
    }

    /// Acknowledges the notices of the last [`Self::record_printed`]. Returns the number of those
    /// that the consumer had not acknowledged before.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn acknowledge_printed(&self) -> Result<usize, NoticesError> {
        let mut notices = printed::read(self.root, &self.session, &self.consumer)?;
        let all_acks = self.read_acks()?;
        notices
            .retain(|id| !all_acks.values().any(|acks| acks.is_acknowledged(&self.consumer, *id)));
        self.acknowledge(&notices)?;
        Ok(notices.len())
    }

    /// Returns the tasks among `tasks` that belong to the session and whose end is a pending notice
    /// of this outbox. Reads only the tasks' journals, not their output.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn tasks_with_pending_end(&self, tasks: &[TaskId]) -> Result<Vec<TaskId>, NoticesError> {
        let acks = Acks::read(self.root, &self.session)?;
        let now = clock::monotonic_now();
        let has_pending_end = |id: TaskId| {
            let Ok(dir) = self.root.task_dir(id) else { return false };
            let Ok(TaskNotices { state, notices }) = dir.read_notices() else { return false };
            let is_pending = |notice: &Notice| {
                notice.event.kind() == NoticeKind::Ended
                    && !self.is_omitted(&acks, notice.id)
                    && notice.caller_priority_until(&state, &self.boot, now).is_none()
            };
            state.spec.session_id == self.session && notices.iter().any(is_pending)
        };
        Ok(tasks.iter().copied().filter(|id| has_pending_end(*id)).collect())
    }

    fn is_omitted(&self, acks: &Acks, id: NoticeId) -> bool {
        let is_acknowledged = |consumer| acks.is_acknowledged(consumer, id);
        acks.is_returned(id) || self.omit_acknowledged_by.iter().any(is_acknowledged)
    }

    /// Returns a task's session if `among` contains it; `None` also if the task cannot be read. A
    /// delivery is recorded in the task's own session, so that the record stays valid whichever
    /// session inherits the task.
    fn owning_session(&self, task: TaskId, among: &[SessionId]) -> Option<SessionId> {
        if among.is_empty() {
            return None;
        }
        let session = self.root.task_dir(task).ok()?.read().ok()?.state.spec.session_id;
        among.contains(&session).then_some(session)
    }

    /// Returns whether this outbox contains the notices of `session`, which is the case for the
    /// outbox's own session and for the sessions that it has inherited.
    pub(super) fn covers_session(&self, session: &SessionId) -> bool {
        *session == self.session
            || session::is_inherited_by(self.root, session, &self.session, &self.boot)
    }

    /// Returns the acknowledgements of this session and of the sessions that it has inherited.
    fn read_acks(&self) -> Result<HashMap<SessionId, Acks>, NoticesError> {
        let inherited = session::inherited_sessions(self.root, &self.session, &self.boot)?;
        let all = std::iter::once(self.session.clone()).chain(inherited);
        all.map(|session| Ok((session.clone(), Acks::read(self.root, &session)?))).collect()
    }

    fn scan_tasks(
        &self,
        tasks: &[TaskId],
        all_acks: &HashMap<SessionId, Acks>,
    ) -> (PendingNotices, Vec<(TaskId, EndedTaskNotices)>) {
        let now = clock::monotonic_now();
        let found = listing::map_in_threads(tasks, |ids| {
            ids.iter().map(|id| (*id, self.scan_task(*id, all_acks, now))).collect()
        });
        let (mut pending, mut ended, mut placed) =
            (PendingNotices::default(), Vec::new(), Vec::new());
        for (id, one) in found {
            match one {
                Ok(one) => {
                    placed.extend(one.pending);
                    pending.due_later.extend(one.due_later.map(|at| (id, at)));
                    ended.extend(one.ended.map(|entry| (id, entry)));
                }
                Err(error) => pending.unreadable.push((id, error)),
            }
        }
        placed.sort_by_key(|(notice, _)| notice.sort_key());
        pending.notices = placed.into_iter().map(|(_, view)| view).collect();
        (pending, ended)
    }

    fn scan_task(
        &self,
        id: TaskId,
        all_acks: &HashMap<SessionId, Acks>,
        now: MonotonicMs,
    ) -> Result<PendingTask, JournalReadError> {
        let dir = match self.root.task_dir(id) {
            Ok(dir) => dir,
            Err(StoreError::Io { source, .. }) => return Err(source.into()),
            // The task was removed in the meantime, for example because its retention time has
            // passed.
            Err(_) => return Ok(PendingTask::default()),
        };
        let TaskNotices { state, notices } = match dir.read_notices() {
            // The task is being created, or its creation was interrupted.
            Err(JournalReadError::Content(JournalError::Empty)) => {
                return Ok(PendingTask::default());
            }
            result => result?,
        };
        let mut one = PendingTask::default();
        if !state.is_live() {
            let seqs = notices.iter().map(|notice| notice.id.seq).collect();
            one.ended = Some(EndedTaskNotices { session: state.spec.session_id.clone(), seqs });
        }
        let Some(acks) = all_acks.get(&state.spec.session_id) else { return Ok(one) };
        for mut notice in notices {
            if self.is_omitted(acks, notice.id) {
                continue;
            }
            if let Some(until) = notice.caller_priority_until(&state, &self.boot, now) {
                one.due_later = [one.due_later, Some(until)].into_iter().flatten().min();
                continue;
            }
            let (written, text) = notice_output(&dir, &state)?;
            let has_resumed = |stall: &StallRecord| {
                notice.event.kind() == NoticeKind::Stalled && stall.output_bytes < written.bytes
            };
            if state.stall.as_ref().is_some_and(has_resumed) {
                continue;
            }
            if notice.event.kind() == NoticeKind::Ended {
                let dialect = Dialect::Commands;
                let conflict =
                    port_conflict::advise_from_summary(self.root, &state, &text, dialect);
                if let Some(advice) = conflict {
                    notice.event.add_end_note(advice);
                }
            }
            let view = NoticeView::new(&state, &notice, written, &text);
            one.pending.push((notice, view));
        }
        Ok(one)
    }
}

#[derive(Debug, Default)]
struct PendingTask {
    pending: Vec<(Notice, NoticeView)>,
    due_later: Option<MonotonicMs>,
    /// The entry for the cache; `None` while the task is live.
    ended: Option<EndedTaskNotices>,
}

fn notice_output(dir: &TaskDir, state: &TaskState) -> io::Result<(NoticeOutput, String)> {
    let bytes = match &state.closed {
        Some(closed) => closed.output.bytes,
        None => output::OutputSize::measure(dir, state.spec.keep_head).bytes,
    };
    let path = output::path(dir.path(), state);
    Ok((NoticeOutput { path, bytes }, output::task_summary(dir, &state.spec, MAX_SUMMARY_BYTES)?))
}
