//! After a crash: finding tasks whose shim is gone, and putting a new one in its place.
//!
//! The lock of a task's directory decides who may. It lives with the shim; when it can be taken,
//! the shim is dead and nobody else is on the way.

mod crowd;

use std::ffi::CStr;
use std::io;
use std::path::PathBuf;

use siding_model::id::{SessionId, TaskId};
use siding_model::journal::{JournalError, Replayed, TaskState};
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::outcome::LeaderEnd;
use siding_model::process::{BootId, ProcRef, UnixMs};
use siding_model::protocol::ShimMessage;
use siding_model::record::{CloseSummary, OutputTotals, Record};

use crate::cgroup::Group;
use crate::journal_file::{JournalFile, ReadError};
use crate::launch::Shim;
use crate::link::{self, Heard, Link};
use crate::monitor;
use crate::output;
use crate::store::{LockedTask, Root, StoreError, TaskDir};
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, file, machine, procfs};
use crate::tree::{self, SharedLook};
use crate::wait;

pub use crowd::Crowd;

/// How long a new shim may take to say that it has taken over, in milliseconds.
const RESCUE_WAIT_MS: u64 = 10_000;

/// What recovery found, and did.
#[derive(Debug)]
pub enum Found {
    /// Its shim keeps it.
    Kept,
    /// Its shim had been stopped by a signal and was continued.
    Continued,
    /// It had ended; left-overs were cleared.
    Ended,
    /// Its shim was dead; a new one keeps it.
    Rescued,
    /// Its shim was dead and nothing of it was left; its end was recorded.
    Closed,
    /// It was never recorded, so nothing was ever started; its directory was removed.
    Unborn,
    /// Somebody else is starting or rescuing it at this moment.
    Busy,
    /// Another machine keeps it, which shares this state directory. It is left alone.
    Elsewhere {
        /// Which.
        machine: String,
    },
    /// Its journal cannot be read and was set aside. Processes that carry its mark are strays.
    SetAside {
        /// Where to.
        path: PathBuf,
        /// What is wrong with it.
        why: JournalError,
    },
    /// A newer siding wrote its journal. It is left alone.
    TooNew {
        /// What is wrong with it.
        why: JournalError,
    },
}

/// Age in milliseconds from which on a task without a record and without a live mark is a
/// leftover. Between the making of its directory and the taking of its lock lie microseconds, and on a
/// busy machine everything that others do in between.
const UNBORN_AGE_MS: i64 = 60_000;

/// Why a task could not be recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
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

/// A task that runs without a shim, and whose lock we have.
#[derive(Debug)]
struct Orphan {
    locked: LockedTask,
    /// Its processes, as far as they are known.
    found: Vec<ProcRef>,
    /// The session whose end is its end too.
    session: Option<SessionId>,
}

/// What became of a task, or has to be done about it yet.
#[derive(Debug)]
enum Examined {
    Found(Found),
    Orphan(Orphan),
}

/// Recovers tasks, looking at the machine's processes once for all of them. Several threads may
/// share it.
#[derive(Debug)]
pub struct Recovery<'r> {
    root: &'r Root,
    program: &'r CStr,
    boot: BootId,
    look: SharedLook,
}

impl<'r> Recovery<'r> {
    /// Prepares recovery in `root`; `program` becomes the new shims.
    ///
    /// # Errors
    ///
    /// The operating system's, when `/proc` is not there.
    pub fn new(root: &'r Root, program: &'r CStr) -> io::Result<Self> {
        Ok(Self { root, program, boot: procfs::boot_id()?, look: SharedLook::default() })
    }

    /// Recovers every task that is marked live. Calls `each` with what was found.
    ///
    /// # Errors
    ///
    /// [`RecoverError::Store`] when the list of tasks cannot be read. What fails for one task goes
    /// to `each`.
    pub fn all(
        &self,
        mut each: impl FnMut(TaskId, Result<Found, RecoverError>),
    ) -> Result<(), RecoverError> {
        for id in self.root.live_tasks()? {
            let found = self.task(id);
            each(id, found);
        }
        Ok(())
    }

    /// Recovers one task.
    ///
    /// # Errors
    ///
    /// [`RecoverError`].
    pub fn task(&self, id: TaskId) -> Result<Found, RecoverError> {
        match self.examine(id)? {
            Examined::Found(found) => Ok(found),
            Examined::Orphan(orphan) => self.rescue(&orphan),
        }
    }

    /// Does for a task what needs no new shim.
    fn examine(&self, id: TaskId) -> Result<Examined, RecoverError> {
        let dir = match self.root.task(id) {
            Err(StoreError::NoSuchTask { .. }) => {
                self.root.unmark_live(id, "");
                return Ok(Examined::Found(Found::Unborn));
            }
            result => result?,
        };
        if let Some(machine) = dir.elsewhere() {
            let machine = machine.to_owned();
            return Ok(Examined::Found(Found::Elsewhere { machine }));
        }
        let found = match dir.read() {
            Ok(folded) => return self.readable(dir, &folded),
            Err(ReadError::Io(source)) => Err(io_error(id, "read its journal", source)),
            Err(ReadError::Content(JournalError::Empty)) => self.unborn(dir),
            Err(ReadError::Content(why @ JournalError::TooNew { .. })) => Ok(Found::TooNew { why }),
            Err(ReadError::Content(why @ JournalError::Corrupt { .. })) => self.damaged(dir, why),
        };
        found.map(Examined::Found)
    }

    fn readable(&self, dir: TaskDir, folded: &Replayed) -> Result<Examined, RecoverError> {
        let id = dir.id();
        let state = &folded.state;
        if !state.is_live() {
            if !procfs::is_running(state.shim) {
                clear(self.root, &dir, state);
            }
            return Ok(Examined::Found(Found::Ended));
        }
        if state.boot == self.boot && procfs::is_running(state.shim) {
            let continued = link::continue_stopped_shim(state.shim)
                .map_err(|source| io_error(id, "continue its shim", source))?;
            let found = if continued { Found::Continued } else { Found::Kept };
            return Ok(Examined::Found(found));
        }
        match dir.try_lock().map_err(|source| io_error(id, "lock it", source))? {
            Some(locked) => self.orphan(locked),
            None => Ok(Examined::Found(Found::Busy)),
        }
    }

    /// Goes on with a task whose lock we have. Its journal is read again: the one who had the lock
    /// before may have written since.
    fn orphan(&self, locked: LockedTask) -> Result<Examined, RecoverError> {
        let id = locked.dir().id();
        let folded = match locked.dir().read() {
            Ok(folded) => folded,
            Err(ReadError::Io(source)) => return Err(io_error(id, "read its journal", source)),
            // Seen whole a moment ago; the next command looks again.
            Err(ReadError::Content(_)) => return Ok(Examined::Found(Found::Busy)),
        };
        let state = &folded.state;
        if !state.is_live() {
            clear(self.root, locked.dir(), state);
            return Ok(Examined::Found(Found::Ended));
        }
        if state.boot != self.boot {
            let why = "the machine was restarted while it ran".to_owned();
            return self.close(&locked, &folded, TaskEvent::Vanished { why }).map(Examined::Found);
        }
        let found = self
            .look
            .of(self.root, state)
            .map_err(|source| io_error(id, "look for its processes", source))?;
        if found.is_empty() {
            let event = end_of_the_vanished(&folded);
            return self.close(&locked, &folded, event).map(Examined::Found);
        }
        let spec = &state.spec;
        let session =
            (!spec.keep && !spec.session_id.is_implicit()).then(|| spec.session_id.clone());
        Ok(Examined::Orphan(Orphan { locked, found, session }))
    }

    /// Starts a new shim.
    fn rescue(&self, orphan: &Orphan) -> Result<Found, RecoverError> {
        let Orphan { locked, found, .. } = orphan;
        let id = locked.dir().id();
        let link = Shim::start(self.program)
            .and_then(|shim| shim.rescue(self.root, locked, found))
            .map_err(|source| io_error(id, "start a new shim", source))?;
        taken_over(id, &link)
    }

    /// Records the end of a task of which nothing is left.
    fn close(
        &self,
        locked: &LockedTask,
        folded: &Replayed,
        event: TaskEvent,
    ) -> Result<Found, RecoverError> {
        let dir = locked.dir();
        let io = |source| io_error(dir.id(), "record its end", source);
        let mut journal = JournalFile::resume(dir, folded).map_err(io)?;
        // The clock of another boot says nothing about this task.
        let at =
            if folded.state.boot == self.boot { clock::mono() } else { folded.state.last_event_at };
        // What cannot be read for now would be on record as not there, and for good.
        if let Err(error) = output::open(dir)
            && file::is_passing(&error)
        {
            return Err(io(error));
        }
        let output = output::Extent::measure(dir, folded.state.spec.keep_head);
        let closed = CloseSummary {
            wall: clock::wall(),
            at,
            report: None,
            output: OutputTotals { bytes: output.bytes, gap: output.gap, lost: 0 },
            peaks: None,
            proof: tree::proof_without_shim(&folded.state).to_owned(),
        };
        let mut records = monitor::last_lines(dir, &folded.state, at);
        // What is there after a restart of the machine need not have been there before.
        let same_boot = folded.state.boot == self.boot;
        let ready = same_boot.then(|| wait::ready_after_all(dir, &folded.state, at)).flatten();
        records.extend(ready.map(|ready| Record::Ready(Box::new(ready))));
        records.push(Record::Event { at, event });
        // While it was being killed, its leader's end is news and not yet the end.
        if !ends(&folded.state, &records) {
            records.push(Record::Event { at, event: TaskEvent::Swept { survivors: 0 } });
        }
        records.push(Record::Closed(Box::new(closed)));
        journal.append(&records).map_err(io)?;
        journal.sync().map_err(io)?;
        let _only_space = journal.finish();
        clear(self.root, dir, &folded.state);
        Ok(Found::Closed)
    }

    fn unborn(&self, dir: TaskDir) -> Result<Found, RecoverError> {
        let id = dir.id();
        if is_being_made(self.root, &dir) {
            return Ok(Found::Busy);
        }
        let Some(locked) = dir.try_lock().map_err(|source| io_error(id, "lock it", source))? else {
            return Ok(Found::Busy);
        };
        if !locked.dir().is_unborn() {
            return Ok(Found::Busy);
        }
        self.root.remove_task(&locked)?;
        Ok(Found::Unborn)
    }

    fn damaged(&self, dir: TaskDir, why: JournalError) -> Result<Found, RecoverError> {
        let id = dir.id();
        match dir.try_lock().map_err(|source| io_error(id, "lock it", source))? {
            Some(locked) => {
                let path = self.root.set_aside(id)?;
                locked.dir().clear_place();
                Ok(Found::SetAside { path, why })
            }
            // Its shim lives and has the truth in memory: a reader must not take its files away.
            None => Ok(Found::Busy),
        }
    }
}

/// Whether somebody may just be making this task, of which nothing is on record: it has no live mark,
/// which comes with its lock, and is young.
pub(crate) fn is_being_made(root: &Root, dir: &TaskDir) -> bool {
    let is_old = |at: UnixMs| clock::wall().0.saturating_sub(at.0) >= UNBORN_AGE_MS;
    !root.is_marked_live(dir.id()) && !machine::changed(dir).is_ok_and(is_old)
}

/// Waits until a new shim says that it has taken over.
fn taken_over(id: TaskId, link: &Link) -> Result<Found, RecoverError> {
    let hear = |source| io_error(id, "hear from the new shim", source);
    match link.hear(Some(RESCUE_WAIT_MS)).map_err(hear)? {
        Heard::Message(ShimMessage::CannotStart { doing, .. }) => {
            Err(io_error(id, "start a new shim", io::Error::other(doing)))
        }
        Heard::Message(_) => Ok(Found::Rescued),
        Heard::Nothing => Err(hear(io::ErrorKind::TimedOut.into())),
        // It saw that the task had ended by itself and left.
        Heard::Gone => Ok(Found::Busy),
    }
}

/// Whether these records end the task.
fn ends(state: &TaskState, records: &[Record]) -> bool {
    let mut state = state.clone();
    records.iter().all(|record| state.apply(record.clone()).is_ok()) && !state.is_live()
}

/// Returns what happened to a task whose shim and processes are all gone. The leader's true end is
/// taken where the kernel still has it.
fn end_of_the_vanished(folded: &Replayed) -> TaskEvent {
    let state = &folded.state;
    let seen = state
        .leader
        .filter(|_| state.leader_end.is_none())
        .and_then(|leader| PidFd::open(leader.process()?).ok()?.end());
    match seen {
        Some(end @ (LeaderEnd::Exited { .. } | LeaderEnd::Signaled { .. })) => {
            TaskEvent::LeaderEnded {
                end,
                tree: TreeLiveness::Empty,
                final_cwd: None,
                pipeline: None,
            }
        }
        Some(LeaderEnd::Unknown { .. }) | None if state.leader.is_none() => {
            TaskEvent::Vanished { why: "its shim was killed while it was being started".to_owned() }
        }
        Some(LeaderEnd::Unknown { .. }) | None => TaskEvent::Vanished {
            why: "its shim was killed, and it ended before another could take over".to_owned(),
        },
    }
}

/// Removes what exists only while a task has not ended. The live mark goes last: while it is there
/// the next command looks for the rest.
pub fn clear(root: &Root, dir: &TaskDir, task: &TaskState) {
    dir.clear_place();
    if let Some(group) = Group::of(task) {
        let _left_to_the_reaper = group.remove();
    }
    root.unmark_live(dir.id(), &task.spec.same_key);
}

fn io_error(id: TaskId, doing: &'static str, source: io::Error) -> RecoverError {
    RecoverError::Io { id, doing, source }
}
