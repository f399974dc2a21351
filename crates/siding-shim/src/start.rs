//! From an empty process to a running task.
//!
//! The order is the promise: the task is on record before anything of it exists, and everything
//! that could fail for want of space is made before the command starts.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use siding_core::journal_file::JournalFile;
use siding_core::launch::Inherited;
use siding_core::store::{Root, TaskDir};
use siding_core::sys::signals::SignalFd;
use siding_core::sys::spawn::{self, Leader, Program};
use siding_core::sys::{clock, descriptor, file, limit, process, procfs, socket};
use siding_core::{link, output};
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::Event;
use siding_model::process::ProcRef;
use siding_model::protocol::Message;
use siding_model::record::{Accepted, FORMAT, Record};
use siding_model::signal::Signal;
use siding_model::spec::{Command, Stdin, TaskSpec};

use crate::callers::{Caller, Callers};
use crate::ending::Ending;
use crate::keeper::Keeper;
use crate::kin::Kin;
use crate::lease::Lease;
use crate::log::Log;
use crate::meter::Meter;
use crate::pause;
use crate::pump::Pump;
use crate::script::{Script, move_high};
use crate::stall::Stall;

/// Longest specification. A command may have 2 MiB of arguments.
const SPEC_MAX: usize = 16 << 20;
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

/// Names the step for an error.
pub(crate) fn when(doing: &'static str) -> impl Fn(io::Error) -> CannotStart {
    move |source| CannotStart { doing, source }
}

/// What every shim sets up first.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) root: Root,
    pub(crate) dir: TaskDir,
    pub(crate) own: ProcRef,
    pub(crate) signals: SignalFd,
    /// Whether the task's processes can be marked.
    pub(crate) marked: bool,
}

/// Takes over the descriptors, and makes this process a keeper.
pub(crate) fn settle(id: TaskId) -> Result<Setting, CannotStart> {
    process::set_name(c"siding-shim");
    let inherited = |which: Inherited| descriptor::inherited(which as i32);
    let root = inherited(Inherited::Root).map_err(when("take over the state directory"))?;
    let dir = inherited(Inherited::Task).map_err(when("take over the task's directory"))?;
    let root = Root::inherited(PathBuf::new(), root);
    let dir = TaskDir::inherited(id, dir);
    process::become_subreaper().map_err(when("become a subreaper"))?;
    // The shim of a task inside a task would else be taken for one of the outer task's processes.
    let marked = limit::set_birthmark(id.birthmark()).is_ok();
    let watched = [Signal::CHLD, Signal::TERM, Signal::INT, Signal::HUP, Signal::PIPE];
    let signals = SignalFd::block(&watched).map_err(when("listen to signals"))?;
    // The directory it was started in may be unmounted or removed; the task has its own.
    let _stays = std::env::set_current_dir("/");
    let own = procfs::own()
        .ok_or_else(|| when("find itself in /proc")(io::ErrorKind::NotFound.into()))?;
    Ok(Setting { root, dir, own, signals, marked })
}

/// Returns the connection to whoever started this shim.
pub(crate) fn starter() -> Result<Caller, CannotStart> {
    descriptor::inherited(Inherited::Starter as i32)
        .map(Caller::starter)
        .map_err(when("take over the starter's socket"))
}

/// Runs a new task.
pub(crate) fn run(id: TaskId) -> Result<(), CannotStart> {
    let mut starter = starter()?;
    match begin(id) {
        Ok(begun) => {
            begun.run(starter);
            Ok(())
        }
        Err(error) => {
            let errno = error.source.raw_os_error().unwrap_or(0);
            starter.tell(&Message::CannotStart { doing: error.to_string(), errno });
            Err(error)
        }
    }
}

/// A task that is on record and has all it needs, but no process.
#[derive(Debug)]
struct Begun {
    setting: Setting,
    state: TaskState,
    log: Log,
    pump: Pump,
    listener: OwnedFd,
    plumbing: Plumbing,
}

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

fn begin(id: TaskId) -> Result<Begun, CannotStart> {
    let spec = descriptor::inherited(Inherited::Spec as i32)
        .and_then(|memory| file::read_whole(memory.as_fd(), SPEC_MAX))
        .and_then(|json| serde_json::from_slice::<TaskSpec>(&json).map_err(io::Error::other))
        .map_err(when("read the specification"))?;
    let setting = settle(id)?;
    pause::at("begun");
    let dir = setting.dir.as_fd();
    let accepted = Accepted {
        format: FORMAT,
        boot: procfs::boot_id().map_err(when("read the boot id"))?,
        at: clock::mono(),
        wall: clock::wall(),
        shim: setting.own,
        spec,
    };
    let plumbing = Plumbing::lay(dir, accepted.spec.stdin)?;
    let store = when("create the output file");
    let file = file::open_at(dir, output::FILE, file::Open::CreateNew).map_err(&store)?;
    let fifo = file::open_at(dir, output::FIFO, file::Open::FifoBoth).map_err(&store)?;
    let pump =
        Pump::new(fifo, file, accepted.spec.keep_head, accepted.spec.keep_tail).map_err(&store)?;
    let listener = socket::listen(dir, link::NAME).map_err(when("listen for callers"))?;
    let mut journal = JournalFile::create(dir).map_err(when("create the journal"))?;
    let state = TaskState::new(accepted.clone());
    journal.append(&[Record::Accepted(Box::new(accepted))]).map_err(when("write the journal"))?;
    pause::at("accepted");
    Ok(Begun { state, log: Log::new(journal), pump, listener, plumbing, setting })
}

impl Plumbing {
    fn lay(dir: impl AsFd, stdin: Stdin) -> Result<Self, CannotStart> {
        let dir = dir.as_fd();
        let fifo = when("create the output FIFO");
        file::make_fifo(dir, output::FIFO).map_err(&fifo)?;
        let keeper = file::open_at(dir, output::FIFO, file::Open::Read)
            .and_then(move_high)
            .map_err(&fifo)?;
        let stdout = file::open_at(dir, output::FIFO, file::Open::FifoWrite)
            .and_then(|fd| {
                file::set_blocking(&fd)?;
                Ok(fd)
            })
            .map_err(&fifo)?;
        let (stdin, input) = match stdin {
            Stdin::Null => (file::open_null().map_err(when("open /dev/null"))?, None),
            Stdin::Pipe => Self::input(dir).map_err(when("create the input FIFO"))?,
        };
        Ok(Self { stdin, stdout, keeper, input })
    }

    fn input(dir: impl AsFd) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        file::make_fifo(&dir, output::INPUT_FIFO)?;
        let read = file::open_at(&dir, output::INPUT_FIFO, file::Open::Read)?;
        let write = file::open_at(&dir, output::INPUT_FIFO, file::Open::FifoWrite)?;
        file::set_blocking(&read)?;
        Ok((read, Some(write)))
    }
}

impl Begun {
    fn run(self, starter: Caller) {
        let Self { setting, state, log, pump, listener, plumbing } = self;
        let script = match &state.spec.command {
            Command::Shell { text, .. } => Script::new(text).map(Some),
            Command::Argv { .. } => Ok(None),
        };
        pause::at("ready");
        let spawned = script.and_then(|script| {
            let leader = spawn_leader(&state.spec, script.as_ref(), &plumbing, setting.marked)?;
            Ok((leader, script))
        });
        pause::at("spawned");
        let (event, script) = match spawned {
            Ok((leader, script)) => (Event::Spawned { leader }, script),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                (Event::SpawnFailed { error: reason(&state.spec, &error), errno }, None)
            }
        };
        let leader = if let Event::Spawned { leader } = &event { Some(*leader) } else { None };
        let lease = Lease::take(&setting.root, &state.spec);
        let stall = Stall::new(&state, pump.bytes(), clock::mono());
        let meter = Meter::new(&state, pump.bytes(), clock::mono());
        let mut keeper = Keeper {
            root: setting.root,
            dir: setting.dir,
            state,
            log,
            pump,
            kin: Kin::Below { leader },
            callers: Callers::new(starter),
            listener,
            signals: setting.signals,
            lease,
            script,
            input: plumbing.input,
            ending: Ending::default(),
            stall,
            meter,
        };
        // The task has its own copies; the shim's would keep its input and output open.
        drop((plumbing.stdin, plumbing.stdout, plumbing.keeper));
        keeper.happen(&event);
        pause::at("running");
        keeper.keep();
    }
}

/// Starts the leader and returns who it is.
fn spawn_leader(
    spec: &TaskSpec,
    script: Option<&Script>,
    plumbing: &Plumbing,
    marked: bool,
) -> io::Result<ProcRef> {
    let argv = match (&spec.command, script) {
        (Command::Shell { text, shell }, Some(script)) => script.argv(shell, text),
        (Command::Shell { text, shell }, None) => {
            vec![shell.clone(), "-c".to_owned(), text.clone()]
        }
        (Command::Argv { argv }, _) => argv.clone(),
    };
    let path = std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned());
    let program = Program::new(&argv, &path).map_err(io::Error::other)?;
    let cwd = file::open_directory(Path::new(&spec.cwd)).map_err(|error| {
        io::Error::new(error.kind(), format!("directory `{}`: {error}", spec.cwd))
    })?;
    let mut kept = vec![plumbing.keeper.as_fd()];
    kept.extend(script.map(Script::descriptor));
    let pid = spawn::leader(&Leader {
        program: &program,
        cwd: cwd.as_fd(),
        stdio: [plumbing.stdin.as_fd(), plumbing.stdout.as_fd(), plumbing.stdout.as_fd()],
        kept: &kept,
        birthmark: marked.then(|| spec.task_id.birthmark()),
    })?;
    // It cannot be gone from /proc: it is our child and nobody has reaped it.
    Ok(procfs::identify(pid).unwrap_or(ProcRef { pid, start_ticks: 0 }))
}

/// Returns why nothing was started, with the file it is about.
fn reason(spec: &TaskSpec, error: &io::Error) -> String {
    // A custom error says it all; a bare one is about the program.
    if error.raw_os_error().is_none() {
        return error.to_string();
    }
    let program = match &spec.command {
        Command::Shell { shell, .. } => shell,
        Command::Argv { argv } => argv.first().map_or("", String::as_str),
    };
    format!("`{program}`: {error}")
}
