//! The state of a task's processes at one moment, as the kernel reports it.

use crate::process::{MonotonicMs, ProcRef};

/// The living processes of a task at one moment, at most 512. The sample holds no names or paths,
/// because reading them from /proc for each process would be slow and would enlarge the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSample {
    /// Time at which the sample was taken.
    pub taken_at: MonotonicMs,
    /// The living processes, ordered by start time.
    pub processes: Vec<ProcessFacts>,
}

impl TaskSample {
    /// Returns the process with this pid.
    #[must_use]
    pub fn process(&self, pid: i32) -> Option<&ProcessFacts> {
        self.processes.iter().find(|one| one.process.pid == pid)
    }
}

/// The state of one process and its threads, as `/proc` reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Pid and start time, which together identify a process after its pid has been reused.
    pub process: ProcRef,
    /// Pid of the parent, which may be outside of the task.
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
    /// Resident memory of the process, in bytes.
    pub resident_bytes: u64,
    /// Whether the process has a controlling terminal.
    pub has_terminal: bool,
    /// Whether the controlling terminal is the terminal of the task; false for a task without one,
    /// and if the sampler does not know it.
    pub has_task_terminal: bool,
    /// Whether the foreground process group of the controlling terminal is not the process's own;
    /// also true without a terminal.
    pub is_in_terminal_background: bool,
    /// Whether the process's terminal echoes typed characters; `None` without a terminal, or when
    /// the terminal was not queried.
    pub terminal_echo: Option<bool>,
    /// The threads, the first thread of the process before the others.
    pub threads: Vec<ThreadFacts>,
}

/// The state of one thread of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadFacts {
    /// The thread id; the process's first thread has the pid as its id.
    pub tid: i32,
    /// Whether the thread runs, or in which system call it is blocked.
    pub state: ThreadState,
}

/// Whether a thread runs or is blocked, as far as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadState {
    /// On a CPU, or ready to run.
    Running,
    /// Blocked in a system call, or at an unknown place in the kernel.
    Blocked(BlockedSyscall),
    /// Unknown: the kernel denies access (`EACCES`, `EPERM`), because the program is setuid or not
    /// dumpable, or `kernel.yama.ptrace_scope` is strict.
    Denied,
    /// Unknown: this kernel does not report the state (gVisor, masked files in /proc).
    Hidden,
}

/// The system call in which a thread is blocked, and the descriptors for which it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedSyscall {
    /// Name of the system call; empty if the call is unknown.
    pub name: &'static str,
    /// Kind of the system call, which determines how its descriptors explain the wait.
    pub call: BlockingCall,
    /// Whether the wait cannot be interrupted (state `D`).
    pub is_uninterruptible: bool,
    /// The descriptors that the call waits for; empty if it waits for none, or if they are unknown.
    pub blocked_on: Vec<BlockedOn>,
    /// Whether the wait has no time limit; also true if the call or its arguments are unknown.
    pub has_no_timeout: bool,
    /// Processor time of this thread, in nanoseconds. The time is measured only for a wait with a
    /// timeout on an object that accepts typed input, because nothing else distinguishes one long
    /// wait from a loop of short ones.
    pub thread_cpu_ns: Option<u64>,
}

/// Kinds of system calls that can block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockingCall {
    /// Reads from a descriptor: `read`, `readv`, `splice`, `sendfile` and similar calls.
    Read,
    /// Writes to a descriptor: `write`, `writev` and similar calls.
    Write,
    /// Waits for one of several descriptors: `poll`, `select`, `epoll_wait` and similar calls.
    Poll,
    /// Waits for an incoming connection: `accept`, `accept4`.
    Accept,
    /// Waits until a connection is established: `connect`.
    Connect,
    /// Receives from or sends to a socket: `recvmsg`, `sendmsg` and similar calls.
    Transfer,
    /// Waits for a child to change its state: `wait4`, `waitid`.
    Child,
    /// `vfork` or `clone`: the child has neither called execve(2) nor exited yet.
    Vfork,
    /// Sleeps for a fixed time: `nanosleep`, `clock_nanosleep`.
    Sleep,
    /// Waits for another thread: `futex`.
    Futex,
    /// Waits for a file lock: `flock`, and `fcntl` with a blocking lock.
    Lock,
    /// Opens a FIFO whose other end is not open, or a file on a slow file system.
    Open,
    /// Waits for a signal: `sigsuspend`, `pause`, `sigtimedwait`.
    Signal,
    /// Waits until data has been written to the disk: `fsync`, `sync` and similar calls.
    Sync,
    /// Any other system call, such as `io_uring_enter`, or an unknown one.
    Other,
}

/// A descriptor on which a system call is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedOn {
    /// Number of the descriptor in the blocked process.
    pub fd: i32,
    /// The kind of object to which the descriptor refers.
    pub object: FdObject,
    /// Whether the call waits for data; otherwise it waits for free space.
    pub for_reading: bool,
}

/// The kind of object to which a descriptor refers, as far as it explains a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdObject {
    /// The pipe that siding created as the task's standard input.
    TaskStdin,
    /// The pipe into which the task writes its output. A process that reads from this pipe waits
    /// for typed input: some programs read answers from standard error, where they expect a
    /// terminal.
    OutputPipe,
    /// The terminal of the task; for a task without one, any terminal or pseudoterminal.
    Terminal,
    /// A terminal other than the task's own, for example the pseudoterminal that tmux or script(1)
    /// has opened in the task. A program of the task forwards the text that is typed there.
    OtherTerminal,
    /// An unnamed pipe, with its inode number.
    Pipe(u64),
    /// A FIFO that is opened by its path.
    Fifo,
    /// A socket that accepts connections.
    Listener,
    /// A socket that is not listening.
    Socket,
    /// A watch for file changes (inotify, fanotify).
    FileWatch,
    /// A timer descriptor (timerfd).
    Timer,
    /// A descriptor that wakes a program's event loop: an eventfd, signalfd or pidfd.
    WakeupFd,
    /// A regular file or a directory.
    File,
    /// An object of another kind, or one that could not be identified.
    Other,
}

impl FdObject {
    /// Returns whether a process that reads from the object waits for typed input.
    #[must_use]
    pub const fn accepts_typed_input(self) -> bool {
        matches!(self, Self::TaskStdin | Self::OutputPipe | Self::Terminal | Self::OtherTerminal)
    }
}
