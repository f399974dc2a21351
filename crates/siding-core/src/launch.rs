//! Starting shims: for a new task, or for one whose shim was killed.
//!
//! A shim is started knowing nothing but a socket, and is told over it what to keep. So it can be
//! started first, and become ready while its client still finds out what it is to run.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;
use siding_model::net::NetPolicy;
use siding_model::process::{MonotonicMs, ProcRef, UnixMs};
use siding_model::spec::TaskSpec;

use crate::proxy;
use crate::shim_client::ShimConnection;
use crate::store::{LockedTask, StateDir, TaskDir};
use crate::sys::{daemonize, descriptor, file, unix_socket};

/// Arguments of a shim that keeps nothing yet. The last only makes room for the task's id.
const SHIM_ARGV: [&CStr; 3] = [c"siding", c"__shim", c"--------------"];

/// What a shim is to do, sent as a packet of its starter, with the descriptors of
/// [`ShimFds`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShimCommand {
    /// Start this new task. The memory holds a [`TaskPayload`].
    Start(TaskId),
    /// The same, with the proxy through which it reaches the network.
    StartBehind(TaskId),
    /// Take this task over from a shim that was killed. The memory holds processes that were found
    /// (`[ProcRef]`).
    Rescue(TaskId),
    /// The same for a task whose session is over, and for the others that follow, each in a packet
    /// of its own, until the starter leaves. It answers each before the next is sent.
    RescueAmong(TaskId),
    /// Take on a process that is marked. The memory holds an [`Adoption`]. There is no task's
    /// directory yet: see [`ShimFds::into_adoption`].
    Adopt(TaskId),
}

/// What is handed to a shim with its errand.
#[derive(Debug)]
pub struct ShimFds {
    /// The state directory.
    pub root: OwnedFd,
    /// The task's directory, which carries the task's lock if it is its place.
    pub dir: OwnedFd,
    /// A file in memory.
    pub memfd: OwnedFd,
    /// The task's place when that is not its directory. It carries the task's lock then.
    pub runtime_dir: Option<OwnedFd>,
    /// Socket to the task's proxy, which lives as long as somebody holds it.
    pub proxy: Option<OwnedFd>,
}

impl ShimFds {
    /// Waits for the errand. `None` when there is none: the starter had nothing to do after all,
    /// or is gone.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` when it is no errand.
    pub fn receive(starter: impl AsFd) -> io::Result<Option<(ShimCommand, Self)>> {
        let Some((packet, mut descriptors)) =
            unix_socket::receive_with_fds(starter, MAX_COMMAND_BYTES)?
        else {
            return Ok(None);
        };
        let errand = serde_json::from_slice(&packet)?;
        // The last one, whether there is a place or not.
        let proxy =
            if matches!(errand, ShimCommand::StartBehind(_)) { descriptors.pop() } else { None };
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or(io::ErrorKind::InvalidData);
        let (root, dir, memory) = (next()?, next()?, next()?);
        Ok(Some((
            errand,
            Self { root, dir, memfd: memory, runtime_dir: descriptors.next(), proxy },
        )))
    }

    /// Returns what comes with [`ShimCommand::Adopt`]: the file in memory, the descriptor that holds the
    /// process, and the file that it writes to.
    #[must_use]
    pub fn into_adoption(self) -> (OwnedFd, OwnedFd, Option<OwnedFd>) {
        (self.memfd, self.dir, self.runtime_dir)
    }
}

/// Largest packet with an [`ShimCommand`], in bytes.
const MAX_COMMAND_BYTES: usize = 256;

/// A shim that keeps nothing yet. It leaves when this is dropped.
#[derive(Debug)]
pub struct IdleShim {
    socket: OwnedFd,
    /// Where it was forked: tells whether that worked.
    intermediate: Option<daemonize::IntermediateChild>,
}

impl IdleShim {
    /// Starts a shim by executing `program`.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn start(program: &CStr) -> io::Result<Self> {
        Self::from_spawn(|descriptors| {
            daemonize::spawn_daemon(&daemonize::DaemonCommand {
                program,
                argv: &SHIM_ARGV,
                descriptors,
            })?;
            Ok(None)
        })
    }

    /// Starts a shim as a copy of this process that goes on with `main` and never returns. Only for
    /// a program with one thread that has allocated next to nothing: whatever it has, each shim
    /// keeps a copy of.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn fork(main: fn() -> u8) -> io::Result<Self> {
        Self::from_spawn(|descriptors| daemonize::fork_daemon(descriptors, main).map(Some))
    }

    fn from_spawn(
        start: impl FnOnce(&[BorrowedFd<'_>]) -> io::Result<Option<daemonize::IntermediateChild>>,
    ) -> io::Result<Self> {
        let null = file::open_null()?;
        let (socket, theirs) = unix_socket::pair()?;
        let null = null.as_fd();
        let between = start(&[null, null, null, theirs.as_fd()])?;
        Ok(Self { socket, intermediate: between })
    }

    /// Has it start a new task, and hands it the directory's lock. `environment` is the task's
    /// whole environment, as `NAME=value`; it is passed on in memory and never written.
    ///
    /// # Errors
    ///
    /// The operating system's; `EPIPE` when the shim was killed meanwhile.
    pub fn start_task(
        self,
        root: &StateDir,
        dir: TaskDir,
        spec: &TaskSpec,
        environment: &[CString],
    ) -> io::Result<ShimConnection> {
        let birth = TaskPayload::encode_payload(spec, environment)?;
        let NetPolicy::Allow(hosts) = &spec.net else {
            return self.send_command(ShimCommand::Start(spec.task_id), root, &dir, &birth);
        };
        let proxy = proxy::start(hosts, spec.task_id)?;
        let errand = ShimCommand::StartBehind(spec.task_id);
        let more = [dir.runtime_dir(), Some(proxy.as_fd())];
        self.send_command_with(errand, [root.as_fd(), dir.as_fd()], more, &birth)
    }

    /// Has it take over a task whose shim is dead, and hands it the lock. `found` are processes of
    /// the task, so that not each of a thousand rescuers has to look at the whole machine; it makes
    /// sure of them itself.
    ///
    /// # Errors
    ///
    /// As [`Self::start_task`].
    pub fn take_over(
        self,
        root: &StateDir,
        task: &LockedTask,
        found: &[ProcRef],
    ) -> io::Result<ShimConnection> {
        self.send_command(
            ShimCommand::Rescue(task.dir().id()),
            root,
            task.dir(),
            &encode_processes(found)?,
        )
    }

    /// Lets it take over several tasks.
    ///
    /// # Errors
    ///
    /// The operating system's; `EPIPE` when the shim was killed meanwhile.
    pub fn into_batch(mut self) -> io::Result<BatchTakeover> {
        self.intermediate.as_mut().map_or(Ok(()), daemonize::IntermediateChild::wait_exited)?;
        Ok(BatchTakeover { link: ShimConnection::from_socket(self.socket) })
    }

    /// Has it take on a process that is marked. `leader` holds it, `output` is the file that it writes
    /// to, where that is the user's.
    ///
    /// # Errors
    ///
    /// As [`Self::start_task`].
    pub fn adopt(
        self,
        root: &StateDir,
        adoption: &Adoption,
        leader: BorrowedFd<'_>,
        output: Option<BorrowedFd<'_>>,
    ) -> io::Result<ShimConnection> {
        let content = serde_json::to_vec(adoption).map_err(io::Error::other)?;
        let errand = ShimCommand::Adopt(adoption.spec.task_id);
        self.send_command_with(errand, [root.as_fd(), leader], [output, None], &content)
    }

    fn send_command(
        self,
        errand: ShimCommand,
        root: &StateDir,
        dir: &TaskDir,
        content: &[u8],
    ) -> io::Result<ShimConnection> {
        self.send_command_with(
            errand,
            [root.as_fd(), dir.as_fd()],
            [dir.runtime_dir(), None],
            content,
        )
    }

    fn send_command_with(
        mut self,
        errand: ShimCommand,
        [root, dir]: [BorrowedFd<'_>; 2],
        more: [Option<BorrowedFd<'_>>; 2],
        content: &[u8],
    ) -> io::Result<ShimConnection> {
        self.intermediate.as_mut().map_or(Ok(()), daemonize::IntermediateChild::wait_exited)?;
        send_command_packet(&self.socket, errand, [root, dir], more, content)?;
        Ok(ShimConnection::from_socket(self.socket))
    }
}

/// A process that is to be taken on while it runs, and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// The process, the leader of the task.
    pub process: ProcRef,
    /// What the task is.
    pub spec: TaskSpec,
    /// The state directory.
    pub root: PathBuf,
    /// How long it may run before it is put on record, in milliseconds.
    pub keep_after_ms: u64,
    /// Name of the file that it writes to, which is handed over, where it is the user's.
    pub output: Option<String>,
    /// Program of the sandbox that it is in, where it was found from outside.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// Names of programs that are no members once they have left the command's session.
    #[serde(default)]
    pub spare_programs: Vec<String>,
    /// When it was marked.
    pub at: MonotonicMs,
    /// The same moment on the wall clock.
    pub wall: UnixMs,
}

impl Adoption {
    /// Reads it back from the file in memory.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` when the file holds something else.
    pub fn read(memory: impl AsFd) -> io::Result<Self> {
        Ok(serde_json::from_slice(&file::read_to_end(memory.as_fd(), MAX_PAYLOAD_BYTES)?)?)
    }
}

/// A shim that is given one task after the other. It begins with what it has when this is dropped.
#[derive(Debug)]
pub struct BatchTakeover {
    link: ShimConnection,
}

impl BatchTakeover {
    /// Most tasks that one shim takes over: with six descriptors each, and as many again for their
    /// processes, it stays below the usual limit of 1,024.
    pub const MAX_BATCH_TASKS: usize = 64;

    /// Hands it one more task, as [`Shim::rescue`] does. Its answer comes over the link.
    ///
    /// # Errors
    ///
    /// The operating system's; `EPIPE` when the shim was killed, or has begun without us.
    pub fn add_task(
        &self,
        root: &StateDir,
        task: &LockedTask,
        found: &[ProcRef],
    ) -> io::Result<&ShimConnection> {
        let errand = ShimCommand::RescueAmong(task.dir().id());
        let dir = task.dir();
        let content = encode_processes(found)?;
        let more = [dir.runtime_dir(), None];
        send_command_packet(&self.link, errand, [root.as_fd(), dir.as_fd()], more, &content)?;
        Ok(&self.link)
    }
}

fn encode_processes(found: &[ProcRef]) -> io::Result<Vec<u8>> {
    serde_json::to_vec(&found[..found.len().min(MAX_HANDED_PROCESSES)]).map_err(io::Error::other)
}

fn send_command_packet(
    socket: impl AsFd,
    errand: ShimCommand,
    [root, dir]: [BorrowedFd<'_>; 2],
    more: [Option<BorrowedFd<'_>>; 2],
    content: &[u8],
) -> io::Result<()> {
    let memory = descriptor::create_memfd("siding-errand")?;
    file::write_all_at(&memory, content, 0)?;
    let mut descriptors = vec![root, dir, memory.as_fd()];
    descriptors.extend(more.into_iter().flatten());
    let packet = serde_json::to_vec(&errand).map_err(io::Error::other)?;
    unix_socket::send_with_fds(socket, &packet, &descriptors)
}

/// Most processes that are handed to a rescuer. It must hold one that lives, and finds the others
/// when those that it holds have ended.
const MAX_HANDED_PROCESSES: usize = 256;

/// All that a new task is born with.
#[derive(Debug, PartialEq, Eq)]
pub struct TaskPayload {
    /// What it is asked to be.
    pub spec: TaskSpec,
    /// Its whole environment, as `NAME=value`.
    pub environment: Vec<CString>,
}

/// Longest birth. A command may have 2 MiB of arguments and variables.
const MAX_PAYLOAD_BYTES: usize = 16 << 20;

impl TaskPayload {
    /// Reads it back from the file in memory.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` when the file holds something else.
    pub fn read(memory: impl AsFd) -> io::Result<Self> {
        let bytes = file::read_to_end(memory.as_fd(), MAX_PAYLOAD_BYTES)?;
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "not a task's birth");
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(broken)?;
        let spec = serde_json::from_slice(&bytes[..end])?;
        let environment = bytes[end + 1..]
            .split_inclusive(|&byte| byte == 0)
            .map(|variable| CStr::from_bytes_with_nul(variable).map(CStr::to_owned))
            .collect::<Result<_, _>>()
            .map_err(|_| broken())?;
        Ok(Self { spec, environment })
    }

    /// Writes the specification as one line of JSON, then each variable ended by a zero byte.
    fn encode_payload(spec: &TaskSpec, environment: &[CString]) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(spec).map_err(io::Error::other)?;
        bytes.push(b'\n');
        for variable in environment {
            bytes.extend_from_slice(variable.to_bytes_with_nul());
        }
        Ok(bytes)
    }
}
