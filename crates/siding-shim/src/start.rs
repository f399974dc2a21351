//! Starts a task: from an empty shim process to a running command.
//!
//! The order matters: the task is recorded before its first process exists, and every file without
//! which the task could not be supervised is created before the command starts, because the disk
//! may be full.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use siding_core::output::{OutputTimesWriter, SpanWriter};
use siding_core::processes::cgroup;
use siding_core::processes::siding_process;
use siding_core::store::journal_file::JournalFile;
use siding_core::store::{StateDir, TaskDir, task_files};
use siding_core::sys::process::ProcessTitle;
use siding_core::sys::signals::SignalFd;
use siding_core::sys::{birthmark, clock, descriptor, file, pidfd, process, procfs, unix_socket};
use siding_core::task::launch::{ShimFds, TaskPayload};
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TaskEvent;
use siding_model::process::{BootId, ProcRef};
use siding_model::protocol::ShimMessage;
use siding_model::record::{AcceptedTask, NEWEST_FORMAT, Record};
use siding_model::signal::Signal;
use siding_model::spec::{StdinMode, TaskSpec};

use crate::clients::{Client, Clients};
use crate::event_loop::TaskSet;
use crate::failpoints;
use crate::journal_writer::JournalWriter;
use crate::lease::Lease;
use crate::line_monitor::LineMonitor;
use crate::output_fifo::StderrFifo;
use crate::output_pump::OutputPump;
use crate::process_tree::ProcessTree;
use crate::proxy_handle::ProxyHandle;
use crate::readiness::ReadinessProbe;
use crate::shell_command::{LeaderReporter, move_high};
use crate::start_leader::{LeaderSurroundings, format_spawn_error, start_leader};
use crate::task_record::TaskRecord;
use crate::task_supervisor::TaskSupervisor;
use crate::terminal::TaskTerminal;

/// A failed step of a start, a takeover or an adoption, or of the start of a host supervisor.
/// [`Self::to_message`] reports it to the starter of the shim or supervisor.
#[derive(Debug)]
pub(crate) struct StartError {
    doing: &'static str,
    source: io::Error,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.doing, self.source)
    }
}

impl StartError {
    /// Returns the message that reports this error to the starter.
    pub(crate) fn to_message(&self) -> ShimMessage {
        let errno = self.source.raw_os_error().unwrap_or(0);
        ShimMessage::CannotStart { doing: self.to_string(), errno }
    }
}

/// Returns a function that adds the failed step to an error.
pub(crate) fn failed_to(doing: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError { doing, source }
}

/// The result of preparing this process to be a shim, before it knows its task. An error is kept
/// until the shim receives its command.
#[derive(Debug)]
pub(crate) struct PreparedShim(Result<ShimResources, StartError>);

/// The resources of a shim that does not know its task yet.
#[derive(Debug)]
struct ShimResources {
    self_process: ProcRef,
    boot: BootId,
    signals: SignalFd,
    cgroup: Option<cgroup::OwnCgroup>,
    title: Option<ProcessTitle>,
}

impl PreparedShim {
    /// Prepares everything that does not depend on the task.
    pub(crate) fn prepare() -> Self {
        Self(Self::try_prepare())
    }

    fn try_prepare() -> Result<ShimResources, StartError> {
        process::set_name(siding_process::SHIM_NAME);
        process::become_subreaper().map_err(failed_to("become a subreaper"))?;
        // Without pidfds a stop could not reach every process, so the command must not be started.
        pidfd::probe().map_err(failed_to("open a pidfd (needs Linux 5.3)"))?;
        // SIGXFSZ and SIGXCPU come from limits that the starter has set (`ulimit -f`, `-t`) for the
        // task. With SIGXFSZ blocked, a write of the shim beyond the limit fails with EFBIG
        // (setrlimit(2)) and is handled as on a full disk.
        let watched = [
            Signal::CHLD,
            Signal::TERM,
            Signal::INT,
            Signal::HUP,
            Signal::PIPE,
            Signal::XFSZ,
            Signal::XCPU,
        ];
        let signals = SignalFd::block(&watched).map_err(failed_to("listen to signals"))?;
        // The shim must not prevent the unmounting of the file system in which it was started. The
        // task has its own working directory.
        let _best_effort = std::env::set_current_dir("/");
        let own = procfs::self_stat().ok_or_else(|| {
            failed_to("find this process in /proc")(io::ErrorKind::NotFound.into())
        })?;
        let self_process = own.process;
        let boot = procfs::boot_id().map_err(failed_to("read the boot id"))?;
        // The shim of a task inside a task must not be killed with the control group of the outer
        // task.
        let cgroup = cgroup::OwnCgroup::find();
        let _best_effort = cgroup.as_ref().map(cgroup::OwnCgroup::leave_task_group);
        Ok(ShimResources {
            self_process,
            boot,
            signals,
            cgroup,
            title: ProcessTitle::from_stat(own),
        })
    }
}

/// The directories of a task and the memory file `payload`, which the starter handed over, with the
/// identity of this shim.
#[derive(Debug)]
pub(crate) struct TaskDirs {
    pub(crate) root: StateDir,
    pub(crate) dir: TaskDir,
    pub(crate) self_process: ProcRef,
    pub(crate) payload: OwnedFd,
}

/// This process, once it has become the shim of a task.
#[derive(Debug)]
pub(crate) struct Shim {
    pub(crate) self_process: ProcRef,
    pub(crate) signals: SignalFd,
    pub(crate) boot: BootId,
    /// Whether the task's processes can get a birthmark.
    can_mark: bool,
    /// The control group of the process that started this shim, if it was found.
    cgroup: Option<cgroup::OwnCgroup>,
}

impl Shim {
    /// Turns this process into the shim of a task.
    pub(crate) fn for_task(id: TaskId, prepared: PreparedShim) -> Result<Self, StartError> {
        let ShimResources { self_process, boot, signals, cgroup, title } = prepared.0?;
        // Without a birthmark of its own, the shim of a task inside a task would be mistaken for a
        // process of the outer task. In a takeover from inside a task, the call may fail, because a
        // birthmark can only be lowered (setrlimit(2)). Such a shim is recognized by its title and
        // the journal.
        let can_mark = birthmark::set_birthmark(id.birthmark()).is_ok();
        if let Some(title) = title {
            title.set(&format!("siding {} {id}", siding_process::SHIM_ARGUMENT));
        }
        Ok(Self { self_process, signals, boot, can_mark, cgroup })
    }

    /// Returns the directories of a task whose descriptors the starter handed over.
    pub(crate) fn open_dirs(&self, id: TaskId, handed: ShimFds) -> TaskDirs {
        let root = StateDir::from_fd(PathBuf::new(), handed.root);
        let dir = TaskDir::from_fd(id, handed.dir, handed.runtime_dir);
        TaskDirs { root, dir, self_process: self.self_process, payload: handed.memfd }
    }
}

/// Starts a new task. If the task cannot be recorded, reports the error to the starter. If the
/// command cannot be started, the task ends with the outcome `failed_to_start`.
pub(crate) fn run(
    id: TaskId,
    prepared: PreparedShim,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<TaskSet, StartError> {
    let mut starter = Client::starter(starter);
    match prepare_task(id, prepared, handed) {
        Ok(task) => Ok(task.start(starter)),
        Err(error) => {
            starter.send_message(&error.to_message());
            Err(error)
        }
    }
}

/// A task that is recorded and has all its files, but no process yet.
#[derive(Debug)]
struct PreparedTask {
    shim: Shim,
    dirs: TaskDirs,
    state: TaskState,
    environment: Vec<CString>,
    journal: JournalWriter,
    pump: OutputPump,
    readiness_probe: ReadinessProbe,
    listener: OwnedFd,
    pipes: StdioPipes,
    /// The task's terminal, if it has one. The leader inherits it in place of the pipes.
    terminal: Option<TaskTerminal>,
    /// Socket to the task's proxy, if the task has one.
    proxy: Option<OwnedFd>,
    /// Descriptors that reserve numbers for the start of the leader: without them, a limit on open
    /// files could make the start fail after the task is recorded.
    spare_fds: Vec<OwnedFd>,
}

/// Maximum number of descriptors that are open concurrently while the leader is started: the
/// working directory, the control group, the confinement, the command's text twice, a file of
/// /proc.
const SPARE_FDS: usize = 6;

/// The descriptors that the leader inherits, and the shim's end of the leader's input.
#[derive(Debug)]
struct StdioPipes {
    stdin: OwnedFd,
    /// The write end of the output FIFO, for the task's descriptor 1 and usually also 2.
    stdout: OwnedFd,
    /// The write end of the FIFO for the task's descriptor 2, if that is separate.
    stderr: Option<OwnedFd>,
    /// Read ends of the output FIFOs. The task inherits them, so that a process that keeps them
    /// open gets no SIGPIPE when the shim dies.
    fifo_keepalives: Vec<OwnedFd>,
    /// The shim's write end of the input FIFO, which keeps the task's input open; `None` if the
    /// input is not a pipe of siding's.
    input_writer: Option<OwnedFd>,
}

fn prepare_task(
    id: TaskId,
    prepared: PreparedShim,
    mut handed: ShimFds,
) -> Result<PreparedTask, StartError> {
    let shim = Shim::for_task(id, prepared)?;
    let (proxy, stdin) = (handed.proxy.take(), handed.stdin.take());
    let dirs = shim.open_dirs(id, handed);
    let TaskPayload { spec, environment } =
        TaskPayload::read(&dirs.payload).map_err(failed_to("read the specification"))?;
    failpoints::arm_from_task_environment(&environment);
    failpoints::pause_at("begun");
    let dir = dirs.dir.as_fd();
    let accepted = AcceptedTask {
        format: NEWEST_FORMAT,
        boot: shim.boot.clone(),
        at: clock::monotonic_now(),
        wall: clock::unix_now(),
        shim: shim.self_process,
        cgroup: shim.cgroup.as_ref().and_then(|own| own.group_for(id, spec.limits.memory > 0)),
        adopted: None,
        spec,
    };
    let runtime_dir =
        dirs.dir.endpoint_dir().map_err(failed_to("find the task's runtime directory"))?;
    let pipes = StdioPipes::create(runtime_dir, &accepted.spec, stdin)?;
    let output_error = failed_to("create the output file");
    let file = file::open_at(dir, task_files::OUTPUT_FILE, file::OpenMode::CreateNew)
        .map_err(&output_error)?;
    let fifo = file::open_at(runtime_dir, task_files::OUTPUT_FIFO, file::OpenMode::FifoReadWrite)
        .map_err(&output_error)?;
    let mut pump = OutputPump::new(fifo, file, accepted.spec.keep_head, accepted.spec.keep_tail)
        .map_err(&output_error)?;
    if accepted.spec.separate_stderr {
        let stderr = StderrFifo::open(runtime_dir)
            .and_then(|fifo| Ok(StderrFifo { fifo, spans: SpanWriter::create(dir)? }));
        pump.set_stderr(stderr.map_err(&output_error)?);
    }
    let mut terminal = open_terminal(&accepted.spec, &dirs.dir, runtime_dir, &mut pump)
        .map_err(failed_to("open a terminal"))?;
    pump.set_line_monitor(
        LineMonitor::new(&accepted.spec).map_err(failed_to("read the monitor's pattern"))?,
    );
    let listener = unix_socket::listen(runtime_dir, task_files::SOCKET_NAME)
        .map_err(failed_to("listen for clients"))?;
    let duplicates = (0..SPARE_FDS).map(|_| descriptor::duplicate_from(&pipes.stdin, 0));
    let spare_fds =
        duplicates.collect::<io::Result<_>>().map_err(failed_to("reserve descriptors"))?;
    let mut state = TaskState::new(accepted.clone());
    let readiness_probe =
        ReadinessProbe::new(&state).map_err(failed_to("read the task's readiness conditions"))?;
    let opened = terminal.as_ref().map(TaskTerminal::opened_record);
    let journal = create_journal(dir, accepted, opened, &mut state)
        .map_err(failed_to("write the journal"))?;
    if let Some(terminal) = &mut terminal {
        terminal.release_holder();
    }
    failpoints::pause_at("accepted");
    Ok(PreparedTask {
        shim,
        dirs,
        state,
        environment,
        journal: JournalWriter::new(journal),
        pump,
        readiness_probe,
        listener,
        pipes,
        terminal,
        proxy,
        spare_fds,
    })
}

/// Opens the terminal of a task that has one, and connects the terminal's output with the output
/// FIFO.
fn open_terminal(
    spec: &TaskSpec,
    dir: &TaskDir,
    runtime_dir: BorrowedFd<'_>,
    pump: &mut OutputPump,
) -> io::Result<Option<TaskTerminal>> {
    let Some(size) = spec.terminal else { return Ok(None) };
    let terminal = TaskTerminal::open(size, spec.attach_idle_ms, runtime_dir)?;
    if let Some(attributes) = &spec.terminal_attributes {
        terminal.apply_attributes(attributes)?;
    }
    // The times of the output are optional, so an error is ignored.
    pump.set_terminal(terminal.output(OutputTimesWriter::create(dir).ok())?);
    Ok(Some(terminal))
}

/// Creates the journal with the first records: the task, and its terminal if it has one.
fn create_journal(
    dir: BorrowedFd<'_>,
    accepted: AcceptedTask,
    opened: Option<Record>,
    state: &mut TaskState,
) -> io::Result<JournalFile> {
    if let Some(opened) = &opened {
        state.apply(opened.clone()).map_err(io::Error::other)?;
    }
    let records: Vec<Record> =
        std::iter::once(Record::Accepted(Box::new(accepted))).chain(opened).collect();
    let mut journal = JournalFile::create(dir)?;
    journal.append(&records)?;
    Ok(journal)
}

impl StdioPipes {
    /// Returns the descriptors that become 0, 1 and 2 in the leader: the pipes, or the task's
    /// terminal.
    fn stdio<'a>(&'a self, terminal: Option<&'a TaskTerminal>) -> [BorrowedFd<'a>; 3] {
        if let Some(terminal) = terminal {
            return [terminal.slave(); 3];
        }
        let Self { stdin, stdout, stderr, .. } = self;
        [stdin.as_fd(), stdout.as_fd(), stderr.as_ref().unwrap_or(stdout).as_fd()]
    }

    /// Creates the FIFOs in `dir`, the task's runtime directory. `inherited` is the descriptor that
    /// the starter handed over as the task's input.
    fn create(
        dir: impl AsFd,
        spec: &TaskSpec,
        inherited: Option<OwnedFd>,
    ) -> Result<Self, StartError> {
        let dir = dir.as_fd();
        let create =
            |name| Self::create_output(dir, name).map_err(failed_to("create an output FIFO"));
        let (stdout, keepalive) = create(task_files::OUTPUT_FIFO)?;
        let mut fifo_keepalives = vec![keepalive];
        let mut stderr = None;
        if spec.separate_stderr {
            let (write, keepalive) = create(task_files::STDERR_FIFO)?;
            fifo_keepalives.push(keepalive);
            stderr = Some(write);
        }
        let (stdin, input) = match spec.stdin {
            StdinMode::Null => (file::open_null().map_err(failed_to("open /dev/null"))?, None),
            StdinMode::Pipe => {
                Self::create_input(dir).map_err(failed_to("create the input FIFO"))?
            }
            StdinMode::Inherit => {
                let missing = || failed_to("receive the input")(io::ErrorKind::InvalidData.into());
                (inherited.ok_or_else(missing)?, None)
            }
            // The leader gets the terminal in place of the inherited input.
            StdinMode::Terminal => (file::open_null().map_err(failed_to("open /dev/null"))?, None),
        };
        Ok(Self { stdin, stdout, stderr, fifo_keepalives, input_writer: input })
    }

    /// Creates an output FIFO, and returns its write end and the read end that the task holds.
    fn create_output(dir: BorrowedFd<'_>, name: &str) -> io::Result<(OwnedFd, OwnedFd)> {
        file::create_fifo(dir, name)?;
        let keepalive = file::open_at(dir, name, file::OpenMode::Read).and_then(move_high)?;
        let write = file::open_at(dir, name, file::OpenMode::FifoWrite)?;
        file::set_blocking(&write)?;
        Ok((write, keepalive))
    }

    fn create_input(dir: impl AsFd) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        file::create_fifo(&dir, task_files::INPUT_FIFO)?;
        let read = file::open_at(&dir, task_files::INPUT_FIFO, file::OpenMode::Read)?;
        let write = file::open_at(&dir, task_files::INPUT_FIFO, file::OpenMode::FifoWrite)?;
        file::set_blocking(&read)?;
        Ok((read, Some(write)))
    }
}

impl PreparedTask {
    fn start(self, starter: Client) -> TaskSet {
        let Self {
            shim,
            dirs,
            state,
            environment,
            journal,
            pump,
            readiness_probe,
            listener,
            pipes,
            terminal,
            proxy,
            spare_fds,
        } = self;
        failpoints::pause_at("ready");
        drop(spare_fds);
        let surroundings = LeaderSurroundings {
            stdio: pipes.stdio(terminal.as_ref()),
            controls_terminal: terminal.is_some(),
            keepalives: &pipes.fifo_keepalives,
            proxy: proxy.as_ref(),
            can_mark: shim.can_mark,
        };
        let start_result = start_leader(&state, &environment, &surroundings);
        drop(environment);
        failpoints::pause_at("spawned");
        let (event, reporter) = match start_result {
            Ok((leader, reporter)) => (TaskEvent::Spawned { leader }, reporter),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                let error = format_spawn_error(&state.spec, &error);
                (TaskEvent::SpawnFailed { error, errno }, LeaderReporter::Silent)
            }
        };
        let leader = if let TaskEvent::Spawned { leader } = &event { Some(*leader) } else { None };
        let lease = Lease::acquire(&dirs.root, &state.spec);
        let mut clients = Clients::new(listener);
        clients.add(starter);
        let record = TaskRecord::new(dirs.root, dirs.dir, state, journal);
        let tree = ProcessTree::from_descendants(leader);
        let mut supervisor = TaskSupervisor::new(record, pump, tree, clients, lease)
            .with_leader(reporter, pipes.input_writer, ProxyHandle::new(proxy))
            .with_readiness(readiness_probe)
            .with_terminal(terminal);
        // The task has its own copies. The shim's copies would keep the task's input and output
        // open.
        drop((pipes.stdin, pipes.stdout, pipes.stderr, pipes.fifo_keepalives));
        supervisor.handle_event(&event);
        failpoints::pause_at("running");
        TaskSet::new(vec![supervisor], shim.signals)
    }
}
