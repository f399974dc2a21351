//! Creates a mirror for a new task, or for a task whose mirror was killed.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use siding_core::remote::ProgramCopy;
use siding_core::store::journal_file::{self, JournalFile};
use siding_core::store::{StateDir, task_files};
use siding_core::sys::{clock, file, process, system_info, unix_socket};
use siding_core::task::launch::{ShimFds, TaskPayload};
use siding_model::executor::RemoteExecutor;
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::mirror::RemoteEvent;
use siding_model::protocol::ShimMessage;
use siding_model::record::{AcceptedTask, NEWEST_FORMAT, Record};
use siding_model::remote::{ExecutorFacts, JobRequest, MirrorMachine, UnsentTask};
use siding_model::spec::{StdinMode, TaskSpec};

use super::Mirror;
use super::connection::MirrorConnection;
use super::input::MirrorInput;
use super::link::REQUEST_PIPE_BYTES;
use crate::clients::{Client, Clients};
use crate::failpoints;
use crate::journal_writer::JournalWriter;
use crate::lease::Lease;
use crate::output_file::OutputFile;
use crate::start::{PreparedShim, Shim, StartError, TaskDirs, failed_to};
use crate::task_record::TaskRecord;

/// Records a new task, which the mirror then sends to the remote machine. If the task cannot be
/// recorded, reports the error to the starter.
pub(crate) fn start(
    id: TaskId,
    prepared: PreparedShim,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<Mirror, StartError> {
    let mut starter = Client::starter(starter);
    let result = become_mirror(id, prepared).and_then(|shim| prepare(id, shim, handed));
    let mut mirror = result.inspect_err(|error| starter.send_message(&error.to_message()))?;
    mirror.clients.add(starter);
    Ok(mirror)
}

/// Turns this process into the mirror of a task. The processes that ssh leaves behind, such as the
/// one that shares a connection among tasks, are children of init, which reaps them.
fn become_mirror(id: TaskId, prepared: PreparedShim) -> Result<Shim, StartError> {
    let shim = Shim::for_task(id, prepared)?;
    process::resign_subreaper().map_err(failed_to("leave orphans to init"))?;
    Ok(shim)
}

fn prepare(id: TaskId, shim: Shim, mut handed: ShimFds) -> Result<Mirror, StartError> {
    let stdin = handed.stdin.take();
    let dirs = shim.open_dirs(id, handed);
    let TaskPayload { spec, environment } =
        TaskPayload::read(&dirs.payload).map_err(failed_to("read the specification"))?;
    failpoints::arm_from_task_environment(&environment);
    let unsent = unsent_task(&spec, &environment);
    check_request_size(&unsent).map_err(failed_to("send the command"))?;
    // If the task cannot be recorded, dropping the connection terminates ssh.
    let mut connection = new_connection(&spec, &dirs.root)?;
    connection.start_in_advance(&dirs.root);
    let accepted = AcceptedTask {
        format: NEWEST_FORMAT,
        boot: shim.boot.clone(),
        at: clock::monotonic_now(),
        wall: clock::unix_now(),
        shim: shim.self_process,
        cgroup: None,
        adopted: None,
        spec,
    };
    let dir = dirs.dir.as_fd();
    let output = file::open_at(dir, task_files::OUTPUT_FILE, file::OpenMode::CreateNew)
        .and_then(|fd| OutputFile::new(fd, accepted.spec.keep_head, accepted.spec.keep_tail))
        .map_err(failed_to("create the output file"))?;
    let input = MirrorInput::create(accepted.spec.stdin, stdin, runtime_dir(&dirs)?)
        .map_err(failed_to("open the input"))?;
    let listener = listen(&dirs)?;
    let mut journal = JournalFile::create(dir).map_err(failed_to("create the journal"))?;
    let state = TaskState::new(accepted.clone());
    journal
        .append(&[Record::Accepted(Box::new(accepted))])
        .map_err(failed_to("write the journal"))?;
    failpoints::pause_at("accepted");
    let files = MirrorFiles { state, journal, output, listener, input };
    Ok(assemble(shim, dirs, files, connection, Some(unsent)))
}

/// Returns the connection to the executor of a task, without a running ssh.
fn new_connection(spec: &TaskSpec, root: &StateDir) -> Result<MirrorConnection, StartError> {
    let missing = || failed_to("find the executor")(io::ErrorKind::InvalidData.into());
    let executor: RemoteExecutor = *spec.executor.clone().ok_or_else(missing)?;
    let copy = match executor.program {
        Some(_) => None,
        None => Some(
            ProgramCopy::of_running_program(root).map_err(failed_to("read the program to copy"))?,
        ),
    };
    Ok(MirrorConnection::new(executor, copy))
}

/// Rejects a task whose request would never fit into the pipe to ssh.
fn check_request_size(unsent: &UnsentTask) -> io::Result<()> {
    /// Space for the other parts of the request.
    const FRAME_BYTES: usize = 4096;
    let json = serde_json::to_vec(&(&unsent.spec, &unsent.variables)).map_err(io::Error::other)?;
    if json.len() + FRAME_BYTES > REQUEST_PIPE_BYTES {
        let why = "the command and its variables are larger than 1 MiB";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

/// Returns a task in the form that is sent to the remote machine. `variables` are the environment
/// of the command, as `NAME=value`.
fn unsent_task(local: &TaskSpec, variables: &[CString]) -> UnsentTask {
    let spec = TaskSpec {
        executor: None,
        // The paths are on this machine, and the mirror copies the files.
        fetch: None,
        sent_by: Some(sender(local.executor.as_deref())),
        // The session exists only here; the mirror requests the stop when the session ends.
        session_id: SessionId::implicit(),
        keep: true,
        parent_task: None,
        duplicate_of: None,
        stdin: remote_stdin(local.stdin),
        ..local.clone()
    };
    let split = |variable: &CString| {
        let text = variable.to_string_lossy();
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    UnsentTask { spec, variables: variables.iter().filter_map(split).collect() }
}

/// Returns the mode of the remote input, into which the remote siding writes the mirror's bytes.
const fn remote_stdin(local: StdinMode) -> StdinMode {
    match local {
        StdinMode::Null => StdinMode::Null,
        StdinMode::Terminal => StdinMode::Terminal,
        StdinMode::Pipe | StdinMode::Inherit => StdinMode::Pipe,
    }
}

/// Returns the names of the user and the machine that send a task.
fn sender(executor: Option<&RemoteExecutor>) -> String {
    let variables = executor.map(|executor| executor.ssh_variables.as_slice()).unwrap_or_default();
    let user = ["LOGNAME", "USER"].iter().find_map(|wanted| {
        variables.iter().find_map(|(name, value)| (name == wanted).then(|| value.clone()))
    });
    let user = user.unwrap_or_else(|| process::effective_uid().to_string());
    format!("{user}@{}", system_info::hostname())
}

/// Takes a task over from a killed mirror, and notifies the starter once the takeover is
/// recorded.
pub(crate) fn take_over(
    id: TaskId,
    prepared: PreparedShim,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<Mirror, StartError> {
    let mut starter = Client::subscriber(starter);
    let result = become_mirror(id, prepared).and_then(|shim| {
        let dirs = shim.open_dirs(id, handed);
        resume(shim, dirs, |message| starter.send_message(&message))
    });
    let mut mirror = result.inspect_err(|error| starter.send_message(&error.to_message()))?;
    mirror.clients.add(starter);
    Ok(mirror)
}

fn resume(
    shim: Shim,
    dirs: TaskDirs,
    notify: impl FnOnce(ShimMessage),
) -> Result<Mirror, StartError> {
    let dir = dirs.dir.as_fd();
    let replayed = journal_file::read(dir)
        .map_err(|error| failed_to("read the journal")(io::Error::other(error)))?;
    let mut journal = JournalFile::resume(dir, &replayed).map_err(failed_to("open the journal"))?;
    let mut state = replayed.state;
    // A removed file is created again.
    let output = file::open_or_create(dir, task_files::OUTPUT_FILE)
        .and_then(|fd| OutputFile::new(fd, state.spec.keep_head, state.spec.keep_tail))
        .map_err(failed_to("reopen the output"))?;
    let _already_removed = file::remove(runtime_dir(&dirs)?, task_files::SOCKET_NAME);
    let listener = listen(&dirs)?;
    let at = clock::monotonic_now().max(state.last_event_at);
    let rescued = Record::Rescued { at, shim: shim.self_process };
    let mut records = Vec::new();
    if state.boot != shim.boot {
        let boot = shim.boot.clone();
        records.push(Record::Remote(RemoteEvent::Rebooted { at: state.last_event_at, boot }));
    }
    let seq = state.next_seq + records.len() as u64;
    records.push(rescued.clone());
    for record in records.clone() {
        state
            .apply(record)
            .map_err(|why| failed_to("replay the journal")(io::Error::other(why)))?;
    }
    journal.append(&records).map_err(failed_to("write the journal"))?;
    notify(ShimMessage::Record { seq, record: Some(Box::new(rescued)) });
    let is_loss_recorded = state.remote.as_ref().is_some_and(|remote| remote.input_loss.is_some());
    let input = MirrorInput::take_over(state.spec.stdin, is_loss_recorded, runtime_dir(&dirs)?);
    let connection = new_connection(&state.spec, &dirs.root)?;
    let files = MirrorFiles { state, journal, output, listener, input };
    Ok(assemble(shim, dirs, files, connection, None))
}

fn runtime_dir(dirs: &TaskDirs) -> Result<BorrowedFd<'_>, StartError> {
    dirs.dir.endpoint_dir().map_err(failed_to("find the task's runtime directory"))
}

fn listen(dirs: &TaskDirs) -> Result<OwnedFd, StartError> {
    unix_socket::listen(runtime_dir(dirs)?, task_files::SOCKET_NAME)
        .map_err(failed_to("listen for clients"))
}

/// The open files of a task, and the state that its journal gives.
struct MirrorFiles {
    state: TaskState,
    journal: JournalFile,
    output: OutputFile,
    listener: OwnedFd,
    input: Option<MirrorInput>,
}

fn assemble(
    shim: Shim,
    dirs: TaskDirs,
    files: MirrorFiles,
    connection: MirrorConnection,
    unsent: Option<UnsentTask>,
) -> Mirror {
    let MirrorFiles { state, journal, output, listener, input } = files;
    let executor = connection.executor();
    let facts = ExecutorFacts {
        name: executor.name.clone(),
        program: executor.program.clone(),
        processor: std::env::consts::ARCH.to_owned(),
        job: executor.slurm.clone().map(|options| {
            let program = executor.program.clone();
            JobRequest { options, program }
        }),
    };
    let lease = Lease::acquire(&dirs.root, &state.spec);
    Mirror {
        task: TaskRecord::new(dirs.root, dirs.dir, state, JournalWriter::new(journal)),
        output,
        clients: Clients::new(listener),
        lease,
        signals: shim.signals,
        machine: MirrorMachine::new(facts, unsent),
        connection,
        input,
        unstored: None,
        deferred: Vec::new(),
        fetch: None,
        waiting_fetch: None,
        forwarded: Vec::new(),
        unsent_size: None,
        viewers: Vec::new(),
        delayed_stops: Vec::new(),
        is_told_to_exit: false,
    }
}
