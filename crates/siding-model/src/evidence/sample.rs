//! The state of a task's processes at one moment, as the kernel reports it.

use crate::process::{MonotonicMs, ProcRef};

/// All living processes of a task at one moment. The sample holds no names or paths, so it is cheap
/// to take and to keep.
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
    /// State letter of the first thread (proc_pid_stat(5)).
    pub state: char,
    /// Value of the process's CPU clock just before the other facts were read, in nanoseconds;
    /// `None` when the clock could not be read.
    pub cpu_ns: Option<u64>,
    /// User and system time of the process itself, in clock ticks.
    pub self_ticks: u64,
    /// User and system time of the children that have ended and were waited for, in clock ticks.
    pub reaped_children_ticks: u64,
    /// The resident memory, in bytes.
    pub resident_bytes: u64,
    /// Whether the process has a controlling terminal.
    pub has_terminal: bool,
    /// Whether another process group is in the foreground of the controlling terminal.
    pub is_in_terminal_background: bool,
    /// Whether the controlling terminal echoes typed characters; `None` without a terminal, or when
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
    /// The thread is running or runnable.
    Running,
    /// The thread is blocked in a system call.
    Blocked(BlockedSyscall),
    /// The kernel denies access to the thread's state (`EACCES`, `EPERM`): the program is setuid or
    /// not dumpable, or `kernel.yama.ptrace_scope` is strict.
    Denied,
    /// The kernel does not report the thread's state (gVisor, masked files in /proc).
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
    /// The descriptors that would end the wait.
    pub blocked_on: Vec<BlockedOn>,
    /// Whether the wait has no time limit.
    pub has_no_timeout: bool,
    /// Processor time of this thread, in nanoseconds. Measured only for a wait with a timeout on a
    /// terminal or the input, where only this time distinguishes one long wait from a loop of short
    /// ones.
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
    /// `open` of a FIFO whose other side is not open.
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

/// The object behind a descriptor, as precisely as verdicts need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdObject {
    /// The pipe that siding created as the task's standard input.
    TaskStdin,
    /// The pipe into which the task writes its output. A process that reads from this pipe waits
    /// for input: some programs read from standard error because they expect a terminal there.
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
    /// A descriptor by which a program wakes itself or observes children or signals: eventfd,
    /// signalfd, pidfd.
    WakeupFd,
    /// A regular file or a directory.
    File,
    /// Any other object.
    Other,
}

impl FdObject {
    /// Returns whether a user could type input into the object.
    #[must_use]
    pub const fn accepts_typed_input(self) -> bool {
        matches!(self, Self::TaskStdin | Self::OutputPipe | Self::Terminal)
    }
}
