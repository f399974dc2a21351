//! Recovers from crashes: finds tasks whose shim is dead, and starts a new shim for each or, if no
//! process of the task is left and its terminal has no output, records the end of the task.
//!
//! Only a process that holds a task's lock may give the task a shim. The kernel releases the lock
//! when the shim dies. A process that acquires the lock has thereby proved that the shim is dead
//! and that no other process is recovering the task.

mod batch;

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

use crate::output;
use crate::processes::cgroup::TaskGroup;
use crate::processes::tree::{self, SharedScan};
use crate::store::journal_file::{JournalFile, JournalReadError};
use crate::store::{LockedTask, StateDir, StoreError, TaskDir};
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, file, procfs, system_info};
use crate::task::launch::IdleShim;
use crate::task::monitor;
use crate::task::readiness::ready_after_end;
use crate::task::shim_client::{self, RecvResult, ShimConnection};
use crate::task::system_log;

pub use batch::BatchRecovery;

/// Timeout for a new shim's report that it has taken over, in milliseconds.
const TAKEOVER_TIMEOUT_MS: u64 = 10_000;

/// The state in which recovery found one task, and the repair that was made.
#[derive(Debug)]
pub enum RecoveryOutcome {
    /// The task's shim lives and supervises the task.
    Supervised,
    /// The task's shim had been stopped by a signal and was continued.
    Continued,
    /// The task had ended. Leftovers of the task were removed, unless its shim is still exiting.
    Ended,
    /// The task's shim was dead; a new one supervises the task.
    TakenOver,
    /// The task's shim was dead and no process of the task was left; the end was recorded.
    EndRecorded,
    /// The task's directory is missing, or it contained no record and was removed. A command is
    /// started only after the first record, so a task without a record has run nothing.
    NeverRecorded,
    /// Another process is starting or recovering the task at this moment, the shim still holds the
    /// task's lock, or a new shim exited without an answer because the task had ended. The next
    /// command tries again.
    Busy,
    /// Another machine, which shares this state directory, supervises the task. Nothing was
    /// changed.
    OtherMachine {
        /// The name of the other machine.
        machine: String,
    },
    /// The task's journal is damaged, and the task's directory was moved to the quarantine.
    /// Processes that still carry the task's birthmark have no shim.
    Quarantined {
        /// The path to which the directory was moved.
        path: PathBuf,
        /// The damage, with the first invalid record.
        why: JournalError,
    },
    /// A newer version of siding wrote the task's journal. Nothing was changed.
    TooNew {
        /// The error that names the format of the journal.
        why: JournalError,
    },
}

/// Age in milliseconds from which a task without a record and without a live marker is a leftover.
/// A start creates the directory and locks it within microseconds, but on a busy machine the
/// starter may be preempted in between.
const MIN_UNRECORDED_AGE_MS: i64 = 60_000;

/// The reason why a task could not be recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// An entry of the state directory could not be read, moved or removed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A system call on the task's files, its processes or its new shim failed.
    #[error("task {id}: could not {doing}: {source}")]
    Io {
        /// The task that was being recovered.
        id: TaskId,
        /// The action that failed; completes the sentence "could not …".
        doing: &'static str,
        /// The error of the system call, or the report of the new shim.
        source: io::Error,
    },
}

/// A task that runs without a shim, and whose lock this process holds.
#[derive(Debug)]
struct ShimlessTask {
    locked: LockedTask,
    /// The live processes of the task that the scan found: at least one, unless the task runs on
    /// another machine, or has ended and its terminal still contains output.
    processes: Vec<ProcRef>,
    /// Whether the task runs on another machine, so that the new shim becomes its mirror.
    is_remote: bool,
    /// The session whose end stops the task. `None` for a task with `--keep` or in the implicit
    /// session.
    session: Option<SessionId>,
}

/// The outcome for a task, or the task that still needs a new shim.
#[derive(Debug)]
enum RecoveryStep {
    Finished(RecoveryOutcome),
    Shimless(ShimlessTask),
}

/// Recovers tasks, with one scan of the machine's processes for all of them. Several threads may
/// share the value.
#[derive(Debug)]
pub struct Recovery<'r> {
    root: &'r StateDir,
    program: &'r CStr,
    boot: BootId,
    scan: SharedScan,
}

impl<'r> Recovery<'r> {
    /// Prepares recovery in `root`. New shims execute `program`.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call if the boot id cannot be read from `/proc`.
    pub fn new(root: &'r StateDir, program: &'r CStr) -> io::Result<Self> {
        Ok(Self { root, program, boot: procfs::boot_id()?, scan: SharedScan::default() })
    }

    /// Recovers every task that is marked live, and calls `each` with the outcome.
    ///
    /// # Errors
    ///
    /// [`RecoverError::Store`] if the list of tasks cannot be read. The error of a single task is
    /// passed to `each`.
    pub fn recover_all(
        &self,
        mut each: impl FnMut(TaskId, Result<RecoveryOutcome, RecoverError>),
    ) -> Result<(), RecoverError> {
        for id in self.root.live_tasks()? {
            let found = self.recover_task(id);
            each(id, found);
        }
        Ok(())
    }

    /// Recovers one task: records its end or starts a new shim if its shim is dead, and continues a
    /// stopped shim.
    ///
    /// # Errors
    ///
    /// [`RecoverError`].
    pub fn recover_task(&self, id: TaskId) -> Result<RecoveryOutcome, RecoverError> {
        match self.examine(id)? {
            RecoveryStep::Finished(found) => Ok(found),
            RecoveryStep::Shimless(orphan) => self.start_takeover(&orphan),
        }
    }

    /// Examines a task, and makes every repair except for starting a new shim.
    fn examine(&self, id: TaskId) -> Result<RecoveryStep, RecoverError> {
        let dir = match self.root.task_dir(id) {
            Err(StoreError::NoSuchTask { .. }) => {
                self.root.unmark_live(id, "");
                return Ok(RecoveryStep::Finished(RecoveryOutcome::NeverRecorded));
            }
            result => result?,
        };
        if let Some(machine) = dir.other_machine() {
            let machine = machine.to_owned();
            return Ok(RecoveryStep::Finished(RecoveryOutcome::OtherMachine { machine }));
        }
        let found = match dir.read() {
            Ok(folded) => return self.examine_recorded(dir, &folded),
            Err(JournalReadError::Io(source)) => Err(io_error(id, "read its journal", source)),
            Err(JournalReadError::Content(JournalError::Empty)) => self.remove_unrecorded(dir),
            Err(JournalReadError::Content(why @ JournalError::TooNew { .. })) => {
                Ok(RecoveryOutcome::TooNew { why })
            }
            Err(JournalReadError::Content(why @ JournalError::Corrupt { .. })) => {
                self.quarantine_damaged(dir, why)
            }
        };
        found.map(RecoveryStep::Finished)
    }

    fn examine_recorded(
        &self,
        dir: TaskDir,
        folded: &Replayed,
    ) -> Result<RecoveryStep, RecoverError> {
        let id = dir.id();
        let state = &folded.state;
        if !state.is_live() {
            if !procfs::is_running(state.shim) {
                clear_ended(self.root, &dir, state);
            }
            return Ok(RecoveryStep::Finished(RecoveryOutcome::Ended));
        }
        // A process ID and a start time identify a process only within one boot.
        if state.boot == self.boot && procfs::is_running(state.shim) {
            let continued = shim_client::continue_stopped_shim(state.shim)
                .map_err(|source| io_error(id, "continue its shim", source))?;
            let found =
                if continued { RecoveryOutcome::Continued } else { RecoveryOutcome::Supervised };
            return Ok(RecoveryStep::Finished(found));
        }
        match dir.try_lock().map_err(|source| io_error(id, "lock it", source))? {
            Some(locked) => self.examine_shimless(locked),
            None => Ok(RecoveryStep::Finished(RecoveryOutcome::Busy)),
        }
    }

    /// Examines a task whose lock this process holds. The journal of the task is read again,
    /// because the previous holder of the lock may have written to it since.
    fn examine_shimless(&self, locked: LockedTask) -> Result<RecoveryStep, RecoverError> {
        let id = locked.dir().id();
        let folded = match locked.dir().read() {
            Ok(folded) => folded,
            Err(JournalReadError::Io(source)) => {
                return Err(io_error(id, "read its journal", source));
            }
            // The journal was valid a moment ago; the next command reads it again.
            Err(JournalReadError::Content(_)) => {
                return Ok(RecoveryStep::Finished(RecoveryOutcome::Busy));
            }
        };
        let state = &folded.state;
        if !state.is_live() {
            clear_ended(self.root, locked.dir(), state);
            return Ok(RecoveryStep::Finished(RecoveryOutcome::Ended));
        }
        if state.spec.is_remote() {
            // The task continues on the other machine, whatever happens to this one.
            let orphan =
                ShimlessTask { locked, processes: Vec::new(), is_remote: true, session: None };
            return Ok(RecoveryStep::Shimless(orphan));
        }
        if state.boot != self.boot {
            let why = "the machine was restarted while it ran".to_owned();
            return self
                .record_end(&locked, &folded, TaskEvent::Vanished { why })
                .map(RecoveryStep::Finished);
        }
        let found = self
            .scan
            .processes_of(self.root, state)
            .map_err(|source| io_error(id, "search for its processes", source))?;
        if found.is_empty() && !has_unstored_terminal_output(state) {
            let event = end_without_processes(&folded);
            return self.record_end(&locked, &folded, event).map(RecoveryStep::Finished);
        }
        let spec = &state.spec;
        let session =
            (!spec.keep && !spec.session_id.is_implicit()).then(|| spec.session_id.clone());
        Ok(RecoveryStep::Shimless(ShimlessTask {
            locked,
            processes: found,
            is_remote: false,
            session,
        }))
    }

    /// Starts a new shim, which takes the task over.
    fn start_takeover(&self, orphan: &ShimlessTask) -> Result<RecoveryOutcome, RecoverError> {
        let ShimlessTask { locked, processes: found, is_remote, .. } = orphan;
        let id = locked.dir().id();
        let link = IdleShim::start(self.program)
            .and_then(|shim| match is_remote {
                true => shim.take_over_mirror(self.root, locked),
                false => shim.take_over(self.root, locked, found),
            })
            .map_err(|source| io_error(id, "start a new shim", source))?;
        await_takeover(id, &link)
    }

    /// Appends the final records of a task that has no process left: remaining monitor lines,
    /// readiness if it is proved, and the end.
    fn record_end(
        &self,
        locked: &LockedTask,
        folded: &Replayed,
        event: TaskEvent,
    ) -> Result<RecoveryOutcome, RecoverError> {
        let dir = locked.dir();
        let io = |source| io_error(dir.id(), "record its end", source);
        let mut journal = JournalFile::resume(dir, folded).map_err(io)?;
        // After a restart of the machine, the task's recorded times belong to another boot, whose
        // monotonic clock cannot be compared with the present one.
        let at = if folded.state.boot == self.boot {
            clock::monotonic_now()
        } else {
            folded.state.last_event_at
        };
        // Output that is only temporarily unreadable would be recorded as missing, permanently; the
        // next command tries again.
        if let Err(error) = output::open(dir)
            && file::is_transient(&error)
        {
            return Err(io(error));
        }
        let output = output::OutputSize::measure(dir, folded.state.spec.keep_head);
        let closed = CloseSummary {
            wall: clock::unix_now(),
            at,
            report: None,
            output: OutputTotals { bytes: output.bytes, gap: output.gap, lost: 0 },
            peaks: None,
            proof: tree::proof_without_shim(&folded.state).to_owned(),
        };
        let mut records = monitor::lines_after_shim_loss(dir, &folded.state, at);
        // A condition that holds after a reboot need not have held before it.
        let same_boot = folded.state.boot == self.boot;
        let ready = same_boot.then(|| ready_after_end(dir, &folded.state, at)).flatten();
        records.extend(ready.map(|ready| Record::Ready(Box::new(ready))));
        records.push(Record::Event { at, event });
        // In a task that was being killed, the end of the leader alone does not end the task.
        if !ends_task(&folded.state, &records) {
            records.push(Record::Event { at, event: TaskEvent::Swept { survivors: 0 } });
        }
        records.push(Record::Closed(Box::new(closed)));
        journal.append(&records).map_err(io)?;
        journal.sync().map_err(io)?;
        let _best_effort = journal.release_reserve();
        clear_ended(self.root, dir, &folded.state);
        system_log::log_records(&folded.state, records);
        Ok(RecoveryOutcome::EndRecorded)
    }

    fn remove_unrecorded(&self, dir: TaskDir) -> Result<RecoveryOutcome, RecoverError> {
        let id = dir.id();
        if is_being_created(self.root, &dir) {
            return Ok(RecoveryOutcome::Busy);
        }
        let Some(locked) = dir.try_lock().map_err(|source| io_error(id, "lock it", source))? else {
            return Ok(RecoveryOutcome::Busy);
        };
        if !locked.dir().is_unrecorded() {
            return Ok(RecoveryOutcome::Busy);
        }
        self.root.remove_task(&locked)?;
        Ok(RecoveryOutcome::NeverRecorded)
    }

    fn quarantine_damaged(
        &self,
        dir: TaskDir,
        why: JournalError,
    ) -> Result<RecoveryOutcome, RecoverError> {
        let id = dir.id();
        match dir.try_lock().map_err(|source| io_error(id, "lock it", source))? {
            Some(locked) => {
                let path = self.root.quarantine(id)?;
                locked.dir().remove_transient();
                Ok(RecoveryOutcome::Quarantined { path, why })
            }
            // Another process holds the task's lock: the shim, which has the true state in memory,
            // or another recovery. The task's files must not be moved while either of them holds
            // the lock.
            None => Ok(RecoveryOutcome::Busy),
        }
    }
}

/// Returns whether another process may currently be creating this unrecorded task: the task is
/// young and has no live marker. A starter creates the marker only after it has locked the task.
pub(crate) fn is_being_created(root: &StateDir, dir: &TaskDir) -> bool {
    let is_old = |at: UnixMs| clock::unix_now().0.saturating_sub(at.0) >= MIN_UNRECORDED_AGE_MS;
    !root.is_marked_live(dir.id()) && !system_info::changed_at(dir).is_ok_and(is_old)
}

/// Returns whether the terminal of a task without processes may have output that no shim has
/// stored. The holder lives as long as there is such output. It passes the terminal to a new shim,
/// which stores the output and records the end.
fn has_unstored_terminal_output(state: &TaskState) -> bool {
    let holder = state.terminal.as_ref().and_then(|terminal| terminal.holder);
    holder.is_some_and(procfs::is_running)
}

/// Waits until a new shim reports that it has taken over.
fn await_takeover(id: TaskId, link: &ShimConnection) -> Result<RecoveryOutcome, RecoverError> {
    let hear = |source| io_error(id, "receive the answer of its new shim", source);
    match link.recv(Some(TAKEOVER_TIMEOUT_MS)).map_err(hear)? {
        RecvResult::Message(ShimMessage::CannotStart { doing, .. }) => {
            Err(io_error(id, "start a new shim", io::Error::other(doing)))
        }
        RecvResult::Message(_) => Ok(RecoveryOutcome::TakenOver),
        RecvResult::TimedOut => Err(hear(io::ErrorKind::TimedOut.into())),
        // The shim has exited without an answer, for example because it found that the task had
        // ended by itself.
        RecvResult::Disconnected => Ok(RecoveryOutcome::Busy),
    }
}

/// Returns whether these records end the task.
fn ends_task(state: &TaskState, records: &[Record]) -> bool {
    let mut state = state.clone();
    records.iter().all(|record| state.apply(record.clone()).is_ok()) && !state.is_live()
}

/// Returns the final event of a task that has neither a shim nor processes. The event contains the
/// leader's exit status if the kernel still reports it.
fn end_without_processes(folded: &Replayed) -> TaskEvent {
    let state = &folded.state;
    let seen = state
        .leader
        .filter(|_| state.leader_end.is_none())
        .and_then(|leader| PidFd::open(leader.process()?).ok()?.exit_status());
    match seen {
        Some(end @ (LeaderEnd::Exited { .. } | LeaderEnd::Signaled { .. })) => {
            TaskEvent::LeaderEnded {
                end,
                tree: TreeLiveness::Empty,
                final_cwd: None,
                pipeline: None,
            }
        }
        Some(LeaderEnd::Unknown { .. }) | None if state.leader.is_none() => TaskEvent::Vanished {
            why: "its shim was killed while the task was being started".to_owned(),
        },
        Some(LeaderEnd::Unknown { .. }) | None => TaskEvent::Vanished {
            why: "its shim was killed, and the task ended before another shim could take over"
                .to_owned(),
        },
    }
}

/// Removes the FIFOs, the socket, the control group and the live marker of a task that has ended.
/// The live marker is removed last: while it exists, the next command repeats the cleanup.
pub fn clear_ended(root: &StateDir, dir: &TaskDir, task: &TaskState) {
    dir.remove_transient();
    if let Some(group) = TaskGroup::from_task(task) {
        let _best_effort = group.remove();
    }
    root.unmark_live(dir.id(), &task.spec.same_key);
}

fn io_error(id: TaskId, doing: &'static str, source: io::Error) -> RecoverError {
    RecoverError::Io { id, doing, source }
}
