//! Takes over a task from a shim that was killed.
//!
//! The process that starts the new shim holds the task's lock. It passes the lock to the shim with
//! the descriptor of the locked directory. The processes are found by their birthmark and their
//! control group. The output continues through the same FIFO, which the task keeps open, and the
//! journal continues after its last valid record.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use siding_core::output::OutputTimesWriter;
use siding_core::processes::tree::RateLimitedScan;
use siding_core::store::journal_file::{self, JournalFile};
use siding_core::store::task_files;
use siding_core::sys::{clock, file, poll, unix_socket};
use siding_core::task::launch::{BatchTakeover, ShimCommand, ShimFds};
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::ProcRef;
use siding_model::protocol::ShimMessage;
use siding_model::record::Record;

use crate::adopted_output::AdoptedOutput;
use crate::clients::{Client, Clients};
use crate::event_loop::TaskSet;
use crate::journal_writer::JournalWriter;
use crate::lease::Lease;
use crate::line_monitor::LineMonitor;
use crate::output_fifo::StderrFifo;
use crate::output_pump::OutputPump;
use crate::process_tree::{LeaderHandle, ProcessTree};
use crate::readiness::ReadinessProbe;
use crate::splice_store;
use crate::start::{PreparedShim, Shim, StartError, TaskDirs, failed_to};
use crate::task_record::TaskRecord;
use crate::task_supervisor::TaskSupervisor;
use crate::terminal::TaskTerminal;

/// Maximum wait for the next command of a batch, in milliseconds. The starter sends the commands
/// one after another without a pause.
const NEXT_COMMAND_WAIT_MS: u64 = 500;

/// Takes over one task, and adds the starter to its clients.
pub(crate) fn run(
    id: TaskId,
    prepared: PreparedShim,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<TaskSet, StartError> {
    // The starter is only a subscriber: unlike the caller that started the task, it may disconnect
    // without moving the task to the background.
    let mut starter = Client::subscriber(starter);
    let result = Shim::for_task(id, prepared).and_then(|shim| {
        let supervisor =
            take_over(shim.open_dirs(id, handed), None, |message| starter.send_message(&message))?;
        Ok((shim, supervisor))
    });
    let (shim, mut supervisor) =
        result.inspect_err(|error| starter.send_message(&error.to_message()))?;
    supervisor.add_client(starter);
    supervisor.resume_phase();
    Ok(TaskSet::new(vec![supervisor], shim.signals))
}

/// Takes over several tasks of sessions that have ended: task `id`, and the tasks in the commands
/// that follow.
///
/// All commands are received before the first scan of the system, so that one scan serves all
/// tasks. If this process cannot become a shim, the connection is closed without a message, and the
/// starter starts a shim for each task.
pub(crate) fn run_batch(
    id: TaskId,
    prepared: PreparedShim,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<TaskSet, StartError> {
    let shim = Shim::for_task(id, prepared)?;
    let shared_scan = Rc::new(RateLimitedScan::default());
    let mut supervisors = Vec::new();
    let mut next = Some((id, handed));
    while let Some((id, handed)) = next {
        let notify = |message| {
            let packet = serde_json::to_vec(&message).unwrap_or_default();
            // A starter that has disconnected reads the journal.
            let _peer_gone = unix_socket::send(&starter, &packet, false);
        };
        shared_scan.add_task(id);
        match take_over(shim.open_dirs(id, handed), Some(&shared_scan), notify) {
            Ok(supervisor) => supervisors.push(supervisor),
            Err(error) => notify(error.to_message()),
        }
        next = if supervisors.len() < BatchTakeover::MAX_BATCH_TASKS {
            next_command(&starter)
        } else {
            None
        };
    }
    drop(starter);
    supervisors.iter_mut().for_each(TaskSupervisor::resume_phase);
    Ok(TaskSet::new(supervisors, shim.signals))
}

/// Waits for the next command of a batch. `None` if no valid command arrives in time, or if it does
/// not belong to a batch.
fn next_command(starter: &OwnedFd) -> Option<(TaskId, ShimFds)> {
    let ready = poll::wait_readable(&[starter.as_fd()], Some(NEXT_COMMAND_WAIT_MS)).ok()?;
    match ready.contains(&true).then(|| ShimFds::receive(starter))? {
        Ok(Some((ShimCommand::RescueAmong(id), handed))) => Some((id, handed)),
        Ok(
            Some((
                ShimCommand::Start { .. }
                | ShimCommand::Rescue(_)
                | ShimCommand::StartMirror { .. }
                | ShimCommand::RescueMirror(_)
                | ShimCommand::Adopt(_),
                _,
            ))
            | None,
        )
        | Err(_) => None,
    }
}

/// Takes over a task, and notifies the starter once the takeover is recorded.
fn take_over(
    dirs: TaskDirs,
    shared_scan: Option<&Rc<RateLimitedScan>>,
    notify: impl FnOnce(ShimMessage),
) -> Result<TaskSupervisor, StartError> {
    let known = known_processes(&dirs.payload);
    let dir = dirs.dir.as_fd();
    let replayed = journal_file::read(dir)
        .map_err(|error| failed_to("read the journal")(io::Error::other(error)))?;
    let mut journal = JournalFile::resume(dir, &replayed).map_err(failed_to("open the journal"))?;
    let mut state = replayed.state;
    let mut output = reopen_output(&dirs.dir, &state).map_err(failed_to("reopen the output"))?;
    let runtime_dir =
        dirs.dir.endpoint_dir().map_err(failed_to("find the task's runtime directory"))?;
    let terminal = match &state.terminal {
        // A terminal that cannot be received must not leave the task without a shim, and thus
        // without its deadline.
        Some(terminal) => {
            let idle_ms = state.spec.attach_idle_ms;
            TaskTerminal::take_over(terminal, idle_ms, runtime_dir).unwrap_or_default()
        }
        None => None,
    };
    if let Some(terminal) = &terminal {
        let times = OutputTimesWriter::resume(dir).ok();
        let mut terminal = terminal.output(times).map_err(failed_to("duplicate the terminal"))?;
        // After a failed read, the terminal seems to show the primary screen until the next switch.
        let _best_effort = terminal.scan_stored(&dirs.dir);
        output.set_terminal(terminal);
    }
    let _already_removed = file::remove(runtime_dir, task_files::SOCKET_NAME);
    // The socket is created before the record: a client that reads in the journal which shim
    // supervises the task must be able to connect to it.
    let listener = unix_socket::listen(runtime_dir, task_files::SOCKET_NAME)
        .map_err(failed_to("listen for clients"))?;
    let leader = state.leader.filter(|_| state.leader_end.is_none());
    let leader_result = leader.map_or(Ok(LeaderHandle::Finished), |leader| {
        LeaderHandle::from_record(&dirs.root, &state, leader)
    });
    let leader_handle = leader_result.map_err(failed_to("open a pidfd of the leader"))?;
    let seq = state.next_seq;
    let record = Record::Rescued { at: clock::monotonic_now(), shim: dirs.self_process };
    state
        .apply(record.clone())
        .map_err(|why| failed_to("replay the journal")(io::Error::other(why)))?;
    journal.append(std::slice::from_ref(&record)).map_err(failed_to("write the journal"))?;
    notify(ShimMessage::Record { seq, record: Some(Box::new(record)) });
    // Acquiring the lease needs descriptors. This must precede the opening of the pidfds of the
    // task's processes, because these may use up all descriptors but one.
    let lease = Lease::acquire(&dirs.root, &state.spec);
    let tree =
        ProcessTree::discovered(&dirs.root, &state, leader_handle, &known, shared_scan.cloned());
    let readiness =
        ReadinessProbe::new(&state).map_err(failed_to("read the task's readiness conditions"))?;
    let record = TaskRecord::new(dirs.root, dirs.dir, state, JournalWriter::new(journal));
    // No proxy is started. If the task had one, that proxy ended with the dead shim, and the task
    // reaches no remote host from then on.
    let supervisor = TaskSupervisor::new(record, output, tree, Clients::new(listener), lease);
    Ok(supervisor.with_readiness(readiness).with_terminal(terminal))
}

/// Returns the processes that the starter of this shim has found. Returns no processes if the
/// starter's list cannot be read; this shim then scans for the processes.
fn known_processes(memory: &OwnedFd) -> Vec<ProcRef> {
    const MAX_LIST_BYTES: usize = 1 << 20;
    file::read_to_end(memory.as_fd(), MAX_LIST_BYTES)
        .and_then(|json| serde_json::from_slice(&json).map_err(io::Error::other))
        .unwrap_or_default()
}

/// Reopens the task's output. If the FIFO or the file was removed, creates a new one, so that the
/// shim can supervise the task.
fn reopen_output(dir: &siding_core::store::TaskDir, state: &TaskState) -> io::Result<OutputPump> {
    if let Some(adopted) = &state.adopted {
        return Ok(OutputPump::Adopted(AdoptedOutput::resume(dir, adopted)));
    }
    let runtime_dir = dir.endpoint_dir()?;
    let fifo =
        match file::open_at(runtime_dir, task_files::OUTPUT_FIFO, file::OpenMode::FifoReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                file::create_fifo(runtime_dir, task_files::OUTPUT_FIFO)?;
                file::open_at(runtime_dir, task_files::OUTPUT_FIFO, file::OpenMode::FifoReadWrite)
            }
            result => result,
        }?;
    // A shim creates this file before the first record of the journal, so a missing file was
    // removed.
    let file = file::open_or_create(dir, task_files::OUTPUT_FILE)?;
    let marker_file = task_files::splice_marker_file(state.format);
    // The call fails, for example, if the task has replaced the marker file. In that case, some
    // bytes may be stored twice, which is no reason to leave the task without a shim.
    let _best_effort = splice_store::discard_stored(runtime_dir, marker_file, &fifo, &file);
    let stored = file::metadata(&file)?.len;
    let mut pump = OutputPump::new(fifo, file, state.spec.keep_head, state.spec.keep_tail)?;
    if state.spec.separate_stderr {
        pump.set_stderr(StderrFifo::reopen(dir, stored)?);
    }
    pump.set_marker_file(marker_file);
    pump.set_line_monitor(LineMonitor::resume(dir, state)?);
    Ok(pump)
}
