//! From an empty process to a running task.
//!
//! The order is the promise: the task is on record before anything of it exists, and everything
//! that could fail for want of space is made before the command starts.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use siding_core::cgroup::{self, TaskGroup};
use siding_core::journal_file::JournalFile;
use siding_core::launch::{self, ShimFds, TaskPayload};
use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::process::ProcessTitle;
use siding_core::sys::signals::SignalFd;
use siding_core::sys::spawn::{self, Leader, Program};
use siding_core::sys::{birthmark, clock, descriptor, file, pidfd, process, procfs, unix_socket};
use siding_core::{net_policy, output, shim_client};
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TaskEvent;
use siding_model::limits::OnLimit;
use siding_model::process::{BootId, LeaderRef, ProcRef};
use siding_model::protocol::ShimMessage;
use siding_model::record::{AcceptedTask, Record, format_for};
use siding_model::signal::Signal;
use siding_model::spec::{StdinMode, TaskCommand, TaskSpec};

use crate::callers::{Caller, Callers};
use crate::deadline::DeadlineNotice;
use crate::direct::Direct;
use crate::egress::Egress;
use crate::ending::Ending;
use crate::keeper::Keeper;
use crate::kin::Kin;
use crate::lease::Lease;
use crate::log::Log;
use crate::meter::Meter;
use crate::monitor::Told;
use crate::pause;
use crate::pump::Pump;
use crate::ready::Awaited;
use crate::rounds::Kept;
use crate::script::{Reporter, Script, move_high};
use crate::stall::Stall;

/// Where programs are looked for when the environment does not say (as glibc's execvp does).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A step of the start that failed, for whoever started the shim.
#[derive(Debug)]
pub(crate) struct CannotStart {
    doing: &'static str,
    source: io::Error,
}

impl fmt::Display for CannotStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.doing, self.source)
    }
}

impl CannotStart {
    /// Returns what the starter is told.
    pub(crate) fn message(&self) -> ShimMessage {
        let errno = self.source.raw_os_error().unwrap_or(0);
        ShimMessage::CannotStart { doing: self.to_string(), errno }
    }
}

/// Names the step for an error.
pub(crate) fn when(doing: &'static str) -> impl Fn(io::Error) -> CannotStart {
    move |source| CannotStart { doing, source }
}

/// A process that has become a keeper and waits for what to keep.
#[derive(Debug)]
pub(crate) struct Ready(Result<Readied, CannotStart>);

/// What it has then.
#[derive(Debug)]
struct Readied {
    own: ProcRef,
    boot: BootId,
    signals: SignalFd,
    cgroup: Option<cgroup::OwnCgroup>,
    title: Option<ProcessTitle>,
}

impl Ready {
    /// Does everything that can be done before the task is known.
    pub(crate) fn make() -> Self {
        Self(Self::try_make())
    }

    fn try_make() -> Result<Readied, CannotStart> {
        process::set_name(launch::SHIM_NAME);
        process::become_subreaper().map_err(when("become a subreaper"))?;
        // Without it a stop would reach too little, which must be found out before anything runs.
        pidfd::probe().map_err(when("hold a process by a descriptor (pidfd, Linux 5.3)"))?;
        // The last two come of limits that the starter has set (`ulimit -f`, `-t`): they are the
        // task's. A write of the shim beyond one fails then, and is told as on a full disk.
        let watched = [
            Signal::CHLD,
            Signal::TERM,
            Signal::INT,
            Signal::HUP,
            Signal::PIPE,
            Signal::XFSZ,
            Signal::XCPU,
        ];
        let signals = SignalFd::block(&watched).map_err(when("listen to signals"))?;
        // The directory it was started in may be unmounted or removed; the task has its own.
        let _stays = std::env::set_current_dir("/");
        let own = procfs::self_ref()
            .ok_or_else(|| when("find itself in /proc")(io::ErrorKind::NotFound.into()))?;
        let boot = procfs::boot_id().map_err(when("read the boot id"))?;
        // Before it has a mark of its own: the shim of a task inside a task must not end with that
        // task's group.
        let cgroup = cgroup::OwnCgroup::find();
        let _spared_there = cgroup.as_ref().map(cgroup::OwnCgroup::leave_task_group);
        Ok(Readied { own, boot, signals, cgroup, title: ProcessTitle::find() })
    }
}

/// What a shim has for a task when it begins.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) root: StateDir,
    pub(crate) dir: TaskDir,
    pub(crate) own: ProcRef,
    pub(crate) memory: OwnedFd,
}

/// A process that keeps tasks.
#[derive(Debug)]
pub(crate) struct Shim {
    pub(crate) own: ProcRef,
    pub(crate) signals: SignalFd,
    pub(crate) boot: BootId,
    /// Whether the task's processes can be marked.
    marked: bool,
    /// The control group of whoever started this shim.
    cgroup: Option<cgroup::OwnCgroup>,
}

impl Shim {
    /// Becomes the keeper of this task, maybe among others.
    pub(crate) fn of(id: TaskId, ready: Ready) -> Result<Self, CannotStart> {
        let Readied { own, boot, signals, cgroup, title } = ready.0?;
        // The shim of a task inside a task would else be taken for one of the outer task's
        // processes. A rescuer inside a task may have to go without (a mark can only be lowered),
        // and is known by its title and the journal.
        let marked = birthmark::set_birthmark(id.birthmark()).is_ok();
        if let Some(title) = title {
            title.set(&format!("siding {} {id}", launch::SHIM_ARGUMENT));
        }
        Ok(Self { own, signals, boot, marked, cgroup })
    }

    /// Takes over the directories of a task.
    pub(crate) fn settle(&self, id: TaskId, handed: ShimFds) -> Setting {
        let root = StateDir::from_fd(PathBuf::new(), handed.root);
        let dir = TaskDir::from_fd(id, handed.dir, handed.runtime_dir);
        Setting { root, dir, own: self.own, memory: handed.memfd }
    }
}

/// Starts a new task.
pub(crate) fn run(
    id: TaskId,
    ready: Ready,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<Kept, CannotStart> {
    let mut starter = Caller::starter(starter);
    match begin(id, ready, handed) {
        Ok(begun) => Ok(begun.run(starter)),
        Err(error) => {
            starter.tell(&error.message());
            Err(error)
        }
    }
}

/// A task that is on record and has all it needs, but no process.
#[derive(Debug)]
struct Begun {
    shim: Shim,
    setting: Setting,
    state: TaskState,
    environment: Vec<CString>,
    log: Log,
    pump: Pump,
    awaited: Awaited,
    listener: OwnedFd,
    plumbing: Plumbing,
    /// Socket to the task's proxy, where it has one.
    proxy: Option<OwnedFd>,
    /// Descriptors that the start of the leader will need for a moment.
    spare: Vec<OwnedFd>,
}

/// Most descriptors open at once while the leader is started: its directory, its control group, its
/// confinement, its command's text twice, a file of /proc.
const SPARE: usize = 6;

/// What the leader gets.
#[derive(Debug)]
struct Plumbing {
    stdin: OwnedFd,
    /// The task's end of the output FIFO, both for its 1 and its 2.
    stdout: OwnedFd,
    /// A read end that the task holds itself, so that it never gets SIGPIPE when the shim dies.
    keeper: OwnedFd,
    /// The shim's hold on the task's input.
    input: Option<OwnedFd>,
}

fn begin(id: TaskId, ready: Ready, mut handed: ShimFds) -> Result<Begun, CannotStart> {
    let shim = Shim::of(id, ready)?;
    let proxy = handed.proxy.take();
    let setting = shim.settle(id, handed);
    let TaskPayload { spec, environment } =
        TaskPayload::read(&setting.memory).map_err(when("read the specification"))?;
    pause::plan(&environment);
    pause::at("begun");
    let dir = setting.dir.as_fd();
    let accepted = AcceptedTask {
        format: format_for(&spec, None),
        boot: shim.boot.clone(),
        at: clock::monotonic_now(),
        wall: clock::unix_now(),
        shim: shim.own,
        cgroup: shim.cgroup.as_ref().and_then(|own| own.group_for(id, spec.limits.memory > 0)),
        adopted: None,
        spec,
    };
    let place = setting.dir.endpoint_dir().map_err(when("find its place"))?;
    let plumbing = Plumbing::lay(place, accepted.spec.stdin)?;
    let store = when("create the output file");
    let file =
        file::open_at(dir, output::OUTPUT_FILE, file::OpenMode::CreateNew).map_err(&store)?;
    let fifo =
        file::open_at(place, output::OUTPUT_FIFO, file::OpenMode::FifoReadWrite).map_err(&store)?;
    let mut pump =
        Pump::new(fifo, file, accepted.spec.keep_head, accepted.spec.keep_tail).map_err(&store)?;
    pump.tell(Told::new(&accepted.spec).map_err(when("read the monitor's pattern"))?);
    let listener =
        unix_socket::listen(place, shim_client::SOCKET_NAME).map_err(when("listen for callers"))?;
    let spare = (0..SPARE).map(|_| descriptor::duplicate_from(&plumbing.stdin, 0));
    let spare = spare.collect::<io::Result<_>>().map_err(when("keep descriptors at hand"))?;
    let mut journal = JournalFile::create(dir).map_err(when("create the journal"))?;
    let state = TaskState::new(accepted.clone());
    let awaited = Awaited::new(&state).map_err(when("read what it waits for"))?;
    journal.append(&[Record::Accepted(Box::new(accepted))]).map_err(when("write the journal"))?;
    pause::at("accepted");
    let log = Log::new(journal);
    Ok(Begun {
        shim,
        setting,
        state,
        environment,
        log,
        pump,
        awaited,
        listener,
        plumbing,
        proxy,
        spare,
    })
}

impl Plumbing {
    fn lay(dir: impl AsFd, stdin: StdinMode) -> Result<Self, CannotStart> {
        let dir = dir.as_fd();
        let fifo = when("create the output FIFO");
        file::create_fifo(dir, output::OUTPUT_FIFO).map_err(&fifo)?;
        let keeper = file::open_at(dir, output::OUTPUT_FIFO, file::OpenMode::Read)
            .and_then(move_high)
            .map_err(&fifo)?;
        let stdout = file::open_at(dir, output::OUTPUT_FIFO, file::OpenMode::FifoWrite)
            .and_then(|fd| {
                file::set_blocking(&fd)?;
                Ok(fd)
            })
            .map_err(&fifo)?;
        let (stdin, input) = match stdin {
            StdinMode::Null => (file::open_null().map_err(when("open /dev/null"))?, None),
            StdinMode::Pipe => Self::input(dir).map_err(when("create the input FIFO"))?,
        };
        Ok(Self { stdin, stdout, keeper, input })
    }

    fn input(dir: impl AsFd) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        file::create_fifo(&dir, output::INPUT_FIFO)?;
        let read = file::open_at(&dir, output::INPUT_FIFO, file::OpenMode::Read)?;
        let write = file::open_at(&dir, output::INPUT_FIFO, file::OpenMode::FifoWrite)?;
        file::set_blocking(&read)?;
        Ok((read, Some(write)))
    }
}

impl Begun {
    fn run(self, starter: Caller) -> Kept {
        let Self {
            shim,
            setting,
            state,
            environment,
            log,
            pump,
            awaited,
            listener,
            plumbing,
            proxy,
            spare,
        } = self;
        pause::at("ready");
        drop(spare);
        let started = start_leader(&state, &environment, &plumbing, proxy.as_ref(), shim.marked);
        drop(environment);
        pause::at("spawned");
        let (event, reporter) = match started {
            Ok((leader, reporter)) => (TaskEvent::Spawned { leader }, reporter),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                let error = reason(&state.spec, &error);
                (TaskEvent::SpawnFailed { error, errno }, Reporter::Silent)
            }
        };
        let leader = if let TaskEvent::Spawned { leader } = &event { Some(*leader) } else { None };
        let lease = Lease::take(&setting.root, &state.spec);
        let stall = Stall::new(&state, pump.bytes(), clock::monotonic_now());
        let meter = Meter::new(&state, pump.bytes(), clock::monotonic_now());
        let mut keeper = Keeper {
            root: setting.root,
            dir: setting.dir,
            state,
            log,
            pump,
            kin: Kin::below(leader),
            callers: Callers::new(starter),
            listener,
            lease,
            reporter,
            input: plumbing.input,
            egress: Egress::new(proxy),
            ending: Ending::default(),
            stall,
            meter,
            awaited,
            deadline_notice: DeadlineNotice::default(),
        };
        // The task has its own copies; the shim's would keep its input and output open.
        drop((plumbing.stdin, plumbing.stdout, plumbing.keeper));
        keeper.happen(&event);
        pause::at("running");
        Kept::new(vec![keeper], shim.signals)
    }
}

/// Starts the leader. Returns who it is and who tells of it.
fn start_leader(
    task: &TaskState,
    environment: &[CString],
    plumbing: &Plumbing,
    proxy: Option<&OwnedFd>,
    marked: bool,
) -> io::Result<(LeaderRef, Reporter)> {
    let spec = &task.spec;
    let cwd = file::open_directory(Path::new(&spec.cwd)).map_err(|error| {
        io::Error::new(error.kind(), format!("directory `{}`: {error}", spec.cwd))
    })?;
    // On record already, so that a rescuer finds whoever is in it. Without one the task runs too.
    let group = TaskGroup::from_task(task).and_then(|group| group.create().ok());
    if let Some(group) = &group {
        hold_memory(spec, group.as_fd());
    }
    let confinement =
        net_policy::net_sandbox(&spec.net, proxy.map(AsFd::as_fd)).map_err(io::Error::other)?;
    let start = |program: &Program,
                 environment: &[CString],
                 script: Option<&Script>|
     -> io::Result<LeaderRef> {
        let mut kept = vec![plumbing.keeper.as_fd()];
        kept.extend(script.map(Script::descriptor));
        let pid = spawn::spawn_leader(&Leader {
            program,
            environment,
            cwd: cwd.as_fd(),
            stdio: [plumbing.stdin.as_fd(), plumbing.stdout.as_fd(), plumbing.stdout.as_fd()],
            inherited_fds: &kept,
            birthmark: marked.then(|| spec.task_id.birthmark()),
            cgroup: group.as_ref().map(AsFd::as_fd),
            net_sandbox: confinement.as_ref(),
        })?;
        // It is there, as a child that was not reaped yet; /proc may all the same not show it.
        Ok(procfs::identify(pid).map_or(LeaderRef::Unidentified { pid }, LeaderRef::from))
    };
    if let Some(Direct { path, argv, environment }) = Direct::of(spec, environment) {
        let program = Program::at_path(&path, &argv).map_err(io::Error::other)?;
        // What cannot be executed after all is bash's to run or to complain about.
        if let Ok(leader) = start(&program, &environment, None) {
            return Ok((leader, Reporter::Direct));
        }
    }
    let path = environment.iter().find_map(|variable| variable.to_bytes().strip_prefix(b"PATH="));
    let path = path.unwrap_or(DEFAULT_PATH.as_bytes());
    let program = |argv: &[String]| Program::new(argv, path).map_err(io::Error::other);
    match &spec.command {
        TaskCommand::Shell { text, shell } => {
            let script = Script::new(text)?;
            let program = program(&script.argv(shell, text))?;
            let leader = start(&program, environment, Some(&script))?;
            Ok((leader, Reporter::Script(script)))
        }
        TaskCommand::Argv { argv } => {
            Ok((start(&program(argv)?, environment, None)?, Reporter::Silent))
        }
    }
}

/// Lets the kernel hold the limit on memory of a task that is to be stopped at it, where the task's
/// group can. Else, and where that fails, its use is watched.
fn hold_memory(spec: &TaskSpec, group: BorrowedFd<'_>) {
    if spec.limits.memory > 0 && spec.limits.on_limit == OnLimit::Stop {
        let _watched =
            cgroup::GroupMemory::at_dir(group).map(|memory| memory.set_limit(spec.limits.memory));
    }
}

/// Returns why nothing was started, with the file it is about.
fn reason(spec: &TaskSpec, error: &io::Error) -> String {
    // A custom error says it all; a bare one is about the program.
    if error.raw_os_error().is_none() {
        return error.to_string();
    }
    let program = match &spec.command {
        TaskCommand::Shell { shell, .. } => shell,
        TaskCommand::Argv { argv } => argv.first().map_or("", String::as_str),
    };
    format!("`{program}`: {error}")
}
