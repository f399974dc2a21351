//! The state of a task's processes at one moment, as the kernel reports it.

use crate::process::{MonotonicMs, ProcRef};

/// All living processes of a task at one moment. The sample holds no names or paths, because
/// reading them from /proc for each process would be slow and would enlarge the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSample {
    /// Time at which the sample was taken.
    pub taken_at: MonotonicMs,
    /// The processes; parents precede their children.
    pub processes: Vec<ProcessFacts>,
}

impl TaskSample {
    /// Returns the process with this pid.
    #[must_use]
    pub fn process(&self, pid: i32) -> Option<&ProcessFacts> {
        self.processes.iter().find(|one| one.process.pid == pid)
    }
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Pid and start time.
    pub process: ProcRef,
    /// Pid of the parent.
    pub parent: i32,
    /// State letter of the process's first thread (proc_pid_stat(5)).
    pub state: char,
    /// Value of the process's CPU clock just before the other facts were read, in nanoseconds;
    /// `None` when the clock could not be read.
    pub cpu_ns: Option<u64>,
    /// User and system time of the process itself, in clock ticks.
    pub self_ticks: u64,
    /// User and system time of the children that the process has reaped, in clock ticks.
    pub reaped_children_ticks: u64,
    /// The resident memory, in bytes.
    pub resident_bytes: u64,
    /// Whether the process has a controlling terminal.
    pub has_terminal: bool,
    /// Whether the foreground process group of the controlling terminal is not the process's own.
    pub is_in_terminal_background: bool,
    /// Whether the process's terminal echoes typed characters; `None` without a terminal, or when
    /// the terminal was not queried.
    pub terminal_echo: Option<bool>,
    /// The threads; the main thread comes first.
    pub threads: Vec<ThreadFacts>,
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadFacts {
    /// The thread id.
    pub tid: i32,
    /// The thread's state.
    pub state: ThreadState,
}

/// The state of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadState {
    /// Running or runnable.
    Running,
    /// Blocked in a system call.
    Blocked(BlockedSyscall),
    /// Unknown: the kernel denies access (`EACCES`, `EPERM`), because the program is setuid or not
    /// dumpable, or `kernel.yama.ptrace_scope` is strict.
    Denied,
    /// Unknown: this kernel does not report the state (gVisor, masked files in /proc).
    Hidden,
}

/// A wait in a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedSyscall {
    /// Name of the system call.
    pub name: &'static str,
    /// Kind of the system call.
    pub call: BlockingCall,
    /// Whether the wait cannot be interrupted (state `D`).
    pub is_uninterruptible: bool,
    /// The descriptors that the call waits for.
    pub blocked_on: Vec<BlockedOn>,
    /// Whether the wait has no time limit.
    pub has_no_timeout: bool,
    /// Processor time of this thread, in nanoseconds. The time is measured only for a wait with a
    /// timeout on a terminal or the task's input, because nothing else distinguishes one long wait
    /// from a loop of short ones.
    pub thread_cpu_ns: Option<u64>,
}

/// Kinds of system calls that can block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockingCall {
    /// `read` and similar calls.
    Read,
    /// `write` and similar calls.
    Write,
    /// `poll`, `select`, `epoll_wait` and similar calls.
    Poll,
    /// `accept`.
    Accept,
    /// `connect`.
    Connect,
    /// `recv`, `send` and similar calls.
    Transfer,
    /// `wait4`, `waitid`.
    Child,
    /// `vfork`: the child has not called execve(2) yet.
    Vfork,
    /// `nanosleep` and similar calls.
    Sleep,
    /// `futex`.
    Futex,
    /// `flock`, and `fcntl` with a blocking lock.
    Lock,
    /// `open` of a FIFO whose other end is not open, or of a file on a slow file system.
    Open,
    /// `sigsuspend`, `pause`, `sigtimedwait`.
    Signal,
    /// `fsync` and similar calls.
    Sync,
    /// Any other system call.
    Other,
}

/// A descriptor on which a system call is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedOn {
    /// Number of the descriptor in the blocked process.
    pub fd: i32,
    /// The object behind the descriptor.
    pub object: FdObject,
    /// Whether the call waits for data; otherwise it waits for free space.
    pub for_reading: bool,
}

/// The kind of object behind a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdObject {
    /// The pipe that siding created as the task's standard input.
    TaskStdin,
    /// The pipe into which the task writes its output. A process that reads from this pipe waits
    /// for typed input: some programs read answers from standard error, where they expect a
    /// terminal.
    OutputPipe,
    /// A terminal.
    Terminal,
    /// An unnamed pipe, with its inode number.
    Pipe(u64),
    /// A named FIFO.
    Fifo,
    /// A listening socket.
    Listener,
    /// Any other socket.
    Socket,
    /// A watch for file changes (inotify, fanotify).
    FileWatch,
    /// A timer descriptor (timerfd).
    Timer,
    /// A descriptor that wakes a program's event loop: an eventfd, signalfd or pidfd.
    WakeupFd,
    /// A regular file or a directory.
    File,
    /// Any other object.
    Other,
}

impl FdObject {
    /// Returns whether a process reads typed input from the object.
    #[must_use]
    pub const fn accepts_typed_input(self) -> bool {
        matches!(self, Self::TaskStdin | Self::OutputPipe | Self::Terminal)
    }
}
