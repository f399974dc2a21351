//! Starts shims for new tasks, for adopted processes, and for tasks whose shim was killed.
//!
//! A new shim receives its command over a socket. A client can therefore start the shim first, and
//! prepare the task while the shim becomes ready.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;
use siding_model::net::NetPolicy;
use siding_model::process::{MonotonicMs, ProcRef, UnixMs};
use siding_model::spec::TaskSpec;

use crate::net::proxy;
use crate::store::{LockedTask, StateDir, TaskDir};
use crate::sys::{daemonize, descriptor, file, unix_socket};
use crate::task::shim_client::ShimConnection;

/// The arguments of a shim without a task. The last argument only reserves space: the shim later
/// overwrites it with the task's id.
const SHIM_ARGV: [&CStr; 3] = [c"siding", c"__shim", c"--------------"];

/// A command to a shim. The starter of the shim sends the command as one packet, with the
/// descriptors of [`ShimFds`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShimCommand {
    /// Start a new task. The memory file holds a [`TaskPayload`].
    Start {
        /// The id of the task.
        task_id: TaskId,
        /// Whether the packet contains [`ShimFds::proxy`].
        has_proxy: bool,
        /// Whether the packet contains [`ShimFds::stdin`].
        has_stdin: bool,
    },
    /// Take this task over from a shim that was killed. The memory file holds the processes of the
    /// task that a scan found (`[ProcRef]`).
    Rescue(TaskId),
    /// Take over several tasks whose session has ended: this one, and others that follow. Each task
    /// comes in its own packet until the starter closes its socket, and the shim answers each
    /// packet before the next is sent.
    RescueAmong(TaskId),
    /// Send a new task to another machine, and become its mirror. The memory file contains a
    /// [`TaskPayload`], whose environment consists of the variables for the other machine.
    StartMirror {
        /// The id of the task.
        task_id: TaskId,
        /// Whether the packet contains [`ShimFds::stdin`].
        has_stdin: bool,
    },
    /// Take over the mirror of a task from a shim that was killed. The memory file is empty.
    RescueMirror(TaskId),
    /// Adopt a process that is already marked. The memory file holds an [`Adoption`]. The task has
    /// no directory yet: see [`ShimFds::into_adoption`].
    Adopt(TaskId),
}

/// The descriptors that a shim receives with its command, as ancillary data of the packet. With
/// [`ShimCommand::Adopt`], `dir` and `runtime_dir` have another meaning: see
/// [`Self::into_adoption`].
#[derive(Debug)]
pub struct ShimFds {
    /// The open state directory.
    pub root: OwnedFd,
    /// The task's directory, which carries the task's lock unless there is a `runtime_dir`.
    pub dir: OwnedFd,
    /// The memory file (memfd_create(2)) with the content of the command.
    pub memfd: OwnedFd,
    /// The task's runtime directory, if that is not the task's directory. The task's lock is then
    /// on this directory.
    pub runtime_dir: Option<OwnedFd>,
    /// A socket to the proxy through which a new task reaches the network. The proxy lives as long
    /// as any process holds this socket.
    pub proxy: Option<OwnedFd>,
    /// The file or pipe that a new task inherits as its standard input, or that its mirror reads.
    pub stdin: Option<OwnedFd>,
}

impl ShimFds {
    /// Waits for the command. `None` if no command arrives: the starter needed no shim after all,
    /// or has exited.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `InvalidData` if the packet is not a command.
    pub fn receive(starter: impl AsFd) -> io::Result<Option<(ShimCommand, Self)>> {
        let Some((packet, mut descriptors)) =
            unix_socket::receive_with_fds(starter, MAX_COMMAND_BYTES)?
        else {
            return Ok(None);
        };
        let command = serde_json::from_slice(&packet)?;
        // The proxy's socket and the input come last, with or without a runtime directory before
        // them.
        let (mut proxy, mut stdin) = (None, None);
        if let ShimCommand::Start { has_proxy, has_stdin, .. } = command {
            stdin = if has_stdin { descriptors.pop() } else { None };
            proxy = if has_proxy { descriptors.pop() } else { None };
        }
        if let ShimCommand::StartMirror { has_stdin: true, .. } = command {
            stdin = descriptors.pop();
        }
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or(io::ErrorKind::InvalidData);
        let (root, dir, memfd) = (next()?, next()?, next()?);
        let runtime_dir = descriptors.next();
        Ok(Some((command, Self { root, dir, memfd, runtime_dir, proxy, stdin })))
    }

    /// Returns the descriptors that accompany [`ShimCommand::Adopt`]: the memory file, the pidfd of
    /// the process, and the file to which the process writes.
    #[must_use]
    pub fn into_adoption(self) -> (OwnedFd, OwnedFd, Option<OwnedFd>) {
        (self.memfd, self.dir, self.runtime_dir)
    }
}

/// The maximum size of a packet with a [`ShimCommand`], in bytes.
const MAX_COMMAND_BYTES: usize = 256;

/// A shim that has no task yet. The shim exits when this value is dropped.
#[derive(Debug)]
pub struct IdleShim {
    socket: OwnedFd,
    /// The intermediate process of the double fork that starts the shim; its exit status reports
    /// whether the second fork succeeded. `None` if the shim was started by exec.
    intermediate: Option<daemonize::IntermediateChild>,
}

impl IdleShim {
    /// Starts a shim by executing `program`.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
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

    /// Starts a shim as a fork of this process that runs `main` and then exits. The process must
    /// have one thread, and should have allocated little, because each shim keeps a copy of its
    /// memory.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
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

    /// Makes the shim start a new task, and passes the lock of the task's directory to the shim.
    /// `environment` is the whole environment of the task, as `NAME=value`, which is passed in
    /// memory and never written to disk. `stdin` is the file or pipe that the task inherits if
    /// `spec` requests it. For a task on another machine, the mirror reads it.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `EPIPE` if the shim has been killed.
    pub fn start_task(
        self,
        root: &StateDir,
        dir: TaskDir,
        spec: &TaskSpec,
        environment: &[CString],
        stdin: Option<BorrowedFd<'_>>,
    ) -> io::Result<ShimConnection> {
        let payload = TaskPayload::encode_payload(spec, environment)?;
        if spec.is_remote() {
            let command =
                ShimCommand::StartMirror { task_id: spec.task_id, has_stdin: stdin.is_some() };
            let more = [dir.runtime_dir(), stdin];
            return self.send_command_with(command, [root.as_fd(), dir.as_fd()], &more, &payload);
        }
        let proxy = match &spec.net {
            NetPolicy::Allow(hosts) => Some(proxy::start(hosts, spec.task_id)?),
            NetPolicy::Unrestricted
            | NetPolicy::None
            | NetPolicy::Loopback
            | NetPolicy::Ports(_) => None,
        };
        let command = ShimCommand::Start {
            task_id: spec.task_id,
            has_proxy: proxy.is_some(),
            has_stdin: stdin.is_some(),
        };
        let more = [dir.runtime_dir(), proxy.as_ref().map(AsFd::as_fd), stdin];
        self.send_command_with(command, [root.as_fd(), dir.as_fd()], &more, &payload)
    }

    /// Makes this shim take over a task whose shim is dead, and passes the task's lock to it.
    /// `found` are the processes of the task that a scan found. As long as all of these are alive,
    /// the new shim needs no scan. Otherwise, each of a thousand new shims would scan all processes
    /// of the machine.
    ///
    /// # Errors
    ///
    /// See [`Self::start_task`].
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

    /// Makes this shim take over the mirror of a task whose shim is dead, and passes the task's lock
    /// to it.
    ///
    /// # Errors
    ///
    /// See [`Self::start_task`].
    pub fn take_over_mirror(
        self,
        root: &StateDir,
        task: &LockedTask,
    ) -> io::Result<ShimConnection> {
        let id = task.dir().id();
        self.send_command(ShimCommand::RescueMirror(id), root, task.dir(), &[])
    }

    /// Uses the shim for a takeover of several tasks, which the caller then adds one by one with
    /// [`BatchTakeover::add_task`].
    ///
    /// # Errors
    ///
    /// The I/O error with which the start of the shim failed.
    pub fn into_batch(mut self) -> io::Result<BatchTakeover> {
        self.intermediate.as_mut().map_or(Ok(()), daemonize::IntermediateChild::wait_exited)?;
        Ok(BatchTakeover { link: ShimConnection::from_socket(self.socket) })
    }

    /// Makes the shim adopt a process that is marked. `leader` is the pidfd of the process.
    /// `output` is the file to which the process writes, if the user owns that file.
    ///
    /// # Errors
    ///
    /// See [`Self::start_task`].
    pub fn adopt(
        self,
        root: &StateDir,
        adoption: &Adoption,
        leader: BorrowedFd<'_>,
        output: Option<BorrowedFd<'_>>,
    ) -> io::Result<ShimConnection> {
        let content = serde_json::to_vec(adoption).map_err(io::Error::other)?;
        let command = ShimCommand::Adopt(adoption.spec.task_id);
        self.send_command_with(command, [root.as_fd(), leader], &[output], &content)
    }

    fn send_command(
        self,
        command: ShimCommand,
        root: &StateDir,
        dir: &TaskDir,
        content: &[u8],
    ) -> io::Result<ShimConnection> {
        self.send_command_with(command, [root.as_fd(), dir.as_fd()], &[dir.runtime_dir()], content)
    }

    fn send_command_with(
        mut self,
        command: ShimCommand,
        [root, dir]: [BorrowedFd<'_>; 2],
        more: &[Option<BorrowedFd<'_>>],
        content: &[u8],
    ) -> io::Result<ShimConnection> {
        self.intermediate.as_mut().map_or(Ok(()), daemonize::IntermediateChild::wait_exited)?;
        send_command_packet(&self.socket, command, [root, dir], more, content)?;
        Ok(ShimConnection::from_socket(self.socket))
    }
}

/// A running process to adopt, and the task that it becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// The process, which becomes the leader of the task.
    pub process: ProcRef,
    /// The specification of the task, which the first record will contain.
    pub spec: TaskSpec,
    /// The absolute path of the state directory, in which the shim creates the task.
    pub root: PathBuf,
    /// Time after `at` at which the task is recorded at the latest, in milliseconds, if the process
    /// still lives.
    pub keep_after_ms: u64,
    /// The name of the file to which the process writes, if the user owns that file. The file
    /// itself is passed as a descriptor.
    pub output: Option<String>,
    /// The sandbox program that runs the process, if it was found from outside the sandbox.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// The names of programs whose processes are not members of the task once they have left the
    /// command's session (setsid(2)).
    #[serde(default)]
    pub spare_programs: Vec<String>,
    /// Time at which the process was marked.
    pub at: MonotonicMs,
    /// Wall-clock time at which the process was marked.
    pub wall: UnixMs,
}

impl Adoption {
    /// Reads the adoption from the memory file.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `InvalidData` if the file holds something else.
    pub fn read(memory: impl AsFd) -> io::Result<Self> {
        Ok(serde_json::from_slice(&file::read_to_end(memory.as_fd(), MAX_PAYLOAD_BYTES)?)?)
    }
}

/// A shim that receives several tasks. The shim starts to supervise them when this value is
/// dropped.
#[derive(Debug)]
pub struct BatchTakeover {
    link: ShimConnection,
}

impl BatchTakeover {
    /// Maximum number of tasks that one shim takes over. With six descriptors for each task, and as
    /// many again for the tasks' processes, the shim stays below the usual limit of 1,024
    /// descriptors.
    pub const MAX_BATCH_TASKS: usize = 64;

    /// Hands the shim one more task, as [`IdleShim::take_over`] does. The shim's reply arrives over
    /// the returned connection.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `EPIPE` if the shim has been killed, or has started
    /// without this task.
    pub fn add_task(
        &self,
        root: &StateDir,
        task: &LockedTask,
        found: &[ProcRef],
    ) -> io::Result<&ShimConnection> {
        let command = ShimCommand::RescueAmong(task.dir().id());
        let dir = task.dir();
        let content = encode_processes(found)?;
        let more = [dir.runtime_dir()];
        send_command_packet(&self.link, command, [root.as_fd(), dir.as_fd()], &more, &content)?;
        Ok(&self.link)
    }
}

fn encode_processes(found: &[ProcRef]) -> io::Result<Vec<u8>> {
    serde_json::to_vec(&found[..found.len().min(MAX_HANDED_PROCESSES)]).map_err(io::Error::other)
}

fn send_command_packet(
    socket: impl AsFd,
    command: ShimCommand,
    [root, dir]: [BorrowedFd<'_>; 2],
    more: &[Option<BorrowedFd<'_>>],
    content: &[u8],
) -> io::Result<()> {
    let memory = descriptor::create_memfd("siding-shim-command")?;
    file::write_all_at(&memory, content, 0)?;
    let mut descriptors = vec![root, dir, memory.as_fd()];
    descriptors.extend(more.iter().copied().flatten());
    let packet = serde_json::to_vec(&command).map_err(io::Error::other)?;
    unix_socket::send_with_fds(socket, &packet, &descriptors)
}

/// Maximum number of processes that a shim receives with a takeover. The shim needs only one that
/// is alive, and scans for others once one of these has ended.
const MAX_HANDED_PROCESSES: usize = 256;

/// The specification and the environment of a new task, which the shim reads from a memory file.
#[derive(Debug, PartialEq, Eq)]
pub struct TaskPayload {
    /// The specification, which the first record will contain.
    pub spec: TaskSpec,
    /// The complete environment of the command, as `NAME=value`.
    pub environment: Vec<CString>,
}

/// Maximum size of a payload, in bytes. execve(2) accepts about 2 MiB of arguments and variables by
/// default.
const MAX_PAYLOAD_BYTES: usize = 16 << 20;

impl TaskPayload {
    /// Reads the payload from the memory file.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call; `InvalidData` if the file holds something else.
    pub fn read(memory: impl AsFd) -> io::Result<Self> {
        let bytes = file::read_to_end(memory.as_fd(), MAX_PAYLOAD_BYTES)?;
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "not the payload of a task");
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(broken)?;
        let spec = serde_json::from_slice(&bytes[..end])?;
        let environment = bytes[end + 1..]
            .split_inclusive(|&byte| byte == 0)
            .map(|variable| CStr::from_bytes_with_nul(variable).map(CStr::to_owned))
            .collect::<Result<_, _>>()
            .map_err(|_| broken())?;
        Ok(Self { spec, environment })
    }

    /// Encodes the specification as one line of JSON, then each variable with a terminating NUL
    /// byte.
    fn encode_payload(spec: &TaskSpec, environment: &[CString]) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(spec).map_err(io::Error::other)?;
        bytes.push(b'\n');
        for variable in environment {
            bytes.extend_from_slice(variable.to_bytes_with_nul());
        }
        Ok(bytes)
    }
}
