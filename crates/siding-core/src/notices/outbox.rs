//! What a consumer has not been told yet.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use siding_model::evidence::StallRecord;
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::{JournalError, TaskState};
use siding_model::notice::{
    Consumer, MAX_SUMMARY_BYTES, Notice, NoticeId, NoticeKind, NoticeOutput, NoticeView,
    TaskNotices,
};
use siding_model::process::{BootId, MonotonicMs};

use super::acks::{self, Acks, Durability};
use super::error::{NoticesError, io_of};
use super::index::{Entry, Index};
use crate::journal_file::ReadError;
use crate::listing;
use crate::output;
use crate::session;
use crate::store::{Root, StoreError, TaskDir};
use crate::sys::{clock, file, procfs};

/// How long another who tells the same consumer is waited for, in milliseconds, and the pauses.
const TURN_MS: u64 = 10_000;
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// The notices of one session for one consumer: those of its own tasks, and of what subagents of it have
/// left.
#[derive(Debug)]
pub struct Outbox<'r> {
    root: &'r Root,
    session: SessionId,
    consumer: Consumer,
    boot: BootId,
}

/// What a look found.
#[derive(Debug, Default)]
pub struct Look {
    /// What is to be told, in order.
    pub notices: Vec<NoticeView>,
    /// Tasks that may have more to tell later without anything happening: it is their caller's turn
    /// until then.
    pub later: Vec<(TaskId, MonotonicMs)>,
    /// Tasks that could not be read.
    pub unread: Vec<(TaskId, ReadError)>,
}

/// The right to tell a consumer: who tells and acknowledges has it from the look to the
/// acknowledgement, so that two at once do not tell the same.
#[derive(Debug)]
#[must_use]
pub struct Turn(#[expect(dead_code, reason = "its lock is what counts")] OwnedFd);

impl<'r> Outbox<'r> {
    /// Opens the outbox of a session.
    ///
    /// # Errors
    ///
    /// [`NoticesError::Io`] when `/proc` is not there.
    pub fn new(
        root: &'r Root,
        session: SessionId,
        consumer: Consumer,
    ) -> Result<Self, NoticesError> {
        let boot = procfs::boot_id().map_err(io_of(&session, "read the boot id"))?;
        Ok(Self { root, session, consumer, boot })
    }

    /// Returns whose it is.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns the state directory.
    #[must_use]
    pub(super) const fn root(&self) -> &'r Root {
        self.root
    }

    /// Waits for the right to tell.
    ///
    /// # Errors
    ///
    /// [`NoticesError::Busy`] when another keeps it for more than 10 s.
    pub fn turn(&self) -> Result<Turn, NoticesError> {
        self.turn_within(TURN_MS)
    }

    /// As [`Self::turn`], for somebody who cannot wait that long. In milliseconds.
    ///
    /// # Errors
    ///
    /// As [`Self::turn`].
    pub fn turn_within(&self, most_ms: u64) -> Result<Turn, NoticesError> {
        let fd = self.lock_file(&format!("telling.{}", self.consumer))?;
        let started = clock::mono();
        let mut pause = PAUSE.0;
        loop {
            if file::try_lock(&fd).map_err(io_of(&self.session, "take a lock"))? {
                return Ok(Turn(fd));
            }
            let waited_ms = clock::mono().ms_since(started);
            if waited_ms >= most_ms {
                let (session, consumer) = (self.session.clone(), self.consumer.clone());
                return Err(NoticesError::Busy { session, consumer, waited_ms });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Becomes the one who waits for this consumer's news, until that is dropped. `None` when there
    /// is one.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn only_waiter(&self) -> Result<Option<Turn>, NoticesError> {
        let fd = self.lock_file(&format!("waiting.{}", self.consumer))?;
        let taken = file::try_lock(&fd).map_err(io_of(&self.session, "take a lock"))?;
        Ok(taken.then_some(Turn(fd)))
    }

    fn lock_file(&self, name: &str) -> Result<OwnedFd, NoticesError> {
        let dir = self.root.session_dir(self.session.as_str(), true)?;
        file::open_or_make(&dir, name).map_err(io_of(&self.session, "open a lock"))
    }

    /// Looks at every task. Those that have ended and are acknowledged cost next to nothing.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn look(&self) -> Result<Look, NoticesError> {
        let told = self.told()?;
        let index = Index::read(self.root);
        let all = self.root.all_tasks()?;
        let is_settled = |id: TaskId| {
            index.get(id).is_some_and(|entry| {
                let acks = told.get(&entry.session);
                acks.is_none_or(|acks| entry.ids(id).all(|id| acks.has(&self.consumer, id)))
            })
        };
        let open: Vec<TaskId> = all.iter().copied().filter(|id| !is_settled(*id)).collect();
        let (look, ended) = self.read(&open, &told);
        let new = ended.into_iter().filter(|(id, _)| index.get(*id).is_none()).collect();
        index.add(self.root, new, &all);
        Ok(look)
    }

    /// Looks at these tasks only.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn look_at(&self, tasks: &[TaskId]) -> Result<Look, NoticesError> {
        Ok(self.read(tasks, &self.told()?).0)
    }

    /// Notes that the consumer was told.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn acknowledge(&self, notices: &[NoticeId]) -> Result<(), NoticesError> {
        let add = |session: &SessionId, notices: &[NoticeId]| {
            acks::add(self.root, session, Some(&self.consumer), notices, Durability::Disk)
        };
        let handed_up = session::handed_up(self.root, &self.session, &self.boot)?;
        let (mut own, mut others) = (Vec::new(), HashMap::<SessionId, Vec<NoticeId>>::new());
        for notice in notices {
            match self.session_of(notice.task, &handed_up) {
                Some(session) => others.entry(session).or_default().push(*notice),
                None => own.push(*notice),
            }
        }
        for (session, notices) in &others {
            add(session, notices)?;
        }
        add(&self.session, &own)
    }

    /// Returns the session of a task, where that is one of these: what is told of a task is noted with its
    /// own session, so that it is one truth whoever has the task at the time.
    fn session_of(&self, task: TaskId, among: &[SessionId]) -> Option<SessionId> {
        if among.is_empty() {
            return None;
        }
        let session = self.root.task(task).ok()?.read().ok()?.state.spec.session_id;
        among.contains(&session).then_some(session)
    }

    /// Whether this session has what that one had: it is itself, or has left its tasks to it.
    pub(super) fn has(&self, session: &SessionId) -> bool {
        *session == self.session
            || session::is_handed_up(self.root, session, &self.session, &self.boot)
    }

    /// Returns the sessions of which this one tells, and who of each was told what.
    fn told(&self) -> Result<HashMap<SessionId, Acks>, NoticesError> {
        let handed_up = session::handed_up(self.root, &self.session, &self.boot)?;
        let all = std::iter::once(self.session.clone()).chain(handed_up);
        all.map(|session| Ok((session.clone(), Acks::read(self.root, &session)?))).collect()
    }

    fn read(
        &self,
        tasks: &[TaskId],
        told: &HashMap<SessionId, Acks>,
    ) -> (Look, Vec<(TaskId, Entry)>) {
        let now = clock::mono();
        let found = listing::by_several(tasks, |ids| {
            ids.iter().map(|id| (*id, self.one(*id, told, now))).collect()
        });
        let (mut look, mut ended, mut placed) = (Look::default(), Vec::new(), Vec::new());
        for (id, one) in found {
            match one {
                Ok(one) => {
                    placed.extend(one.told);
                    look.later.extend(one.later.map(|at| (id, at)));
                    ended.extend(one.ended.map(|entry| (id, entry)));
                }
                Err(error) => look.unread.push((id, error)),
            }
        }
        placed.sort_by_key(|(notice, _)| notice.sort_key());
        look.notices = placed.into_iter().map(|(_, view)| view).collect();
        (look, ended)
    }

    fn one(
        &self,
        id: TaskId,
        told: &HashMap<SessionId, Acks>,
        now: MonotonicMs,
    ) -> Result<One, ReadError> {
        let dir = match self.root.task(id) {
            Ok(dir) => dir,
            Err(StoreError::Io { source, .. }) => return Err(source.into()),
            // Removed meanwhile; it was acknowledged, or is past its retention.
            Err(_) => return Ok(One::default()),
        };
        let TaskNotices { state, notices } = match dir.story() {
            // Just being made.
            Err(ReadError::Content(JournalError::Empty)) => return Ok(One::default()),
            result => result?,
        };
        let mut one = One::default();
        if !state.is_live() {
            let seqs = notices.iter().map(|notice| notice.id.seq).collect();
            one.ended = Some(Entry { session: state.spec.session_id.clone(), seqs });
        }
        let Some(acks) = told.get(&state.spec.session_id) else { return Ok(one) };
        for notice in notices {
            if acks.has(&self.consumer, notice.id) {
                continue;
            }
            if let Some(until) = notice.caller_priority_until(&state, &self.boot, now) {
                one.later = [one.later, Some(until)].into_iter().flatten().min();
                continue;
            }
            let (written, text) = output_of(&dir, &state)?;
            let has_resumed = |stall: &StallRecord| {
                notice.event.kind() == NoticeKind::Stalled && stall.output_bytes < written.bytes
            };
            if state.stall.as_ref().is_some_and(has_resumed) {
                continue;
            }
            let view = NoticeView::new(&state, &notice, written, &text);
            one.told.push((notice, view));
        }
        Ok(one)
    }
}

/// What one task has to tell.
#[derive(Debug, Default)]
struct One {
    told: Vec<(Notice, NoticeView)>,
    later: Option<MonotonicMs>,
    /// What will never change: it has ended.
    ended: Option<Entry>,
}

fn output_of(dir: &TaskDir, state: &TaskState) -> io::Result<(NoticeOutput, String)> {
    let bytes = match &state.closed {
        Some(closed) => closed.output.bytes,
        None => output::Extent::measure(dir, state.spec.keep_head).bytes,
    };
    let path = output::path(dir.path(), state);
    Ok((NoticeOutput { path, bytes }, output::gist(dir, &state.spec, MAX_SUMMARY_BYTES)?))
}
