//! What the kernel says about a task's processes at one moment.

use crate::process::{MonotonicMs, ProcRef};

/// All living processes of a task at one moment. Cheap to take and to hold: no names, no paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSample {
    /// When it was taken.
    pub taken_at: MonotonicMs,
    /// The processes, parents before their children.
    pub processes: Vec<ProcessFacts>,
}

impl TaskSample {
    /// Returns the process with this number.
    #[must_use]
    pub fn process(&self, pid: i32) -> Option<&ProcessFacts> {
        self.processes.iter().find(|one| one.process.pid == pid)
    }
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Which one.
    pub process: ProcRef,
    /// Its parent.
    pub parent: i32,
    /// State letter of its first thread (proc_pid_stat(5)).
    pub state: char,
    /// What its CPU clock said before it was looked at, in nanoseconds; `None` when it did not.
    pub cpu_ns: Option<u64>,
    /// Time it used itself, user and system, in clock ticks.
    pub self_ticks: u64,
    /// The same of its children that have ended and were waited for.
    pub reaped_children_ticks: u64,
    /// Its resident memory, in bytes.
    pub resident_bytes: u64,
    /// Whether it has a controlling terminal.
    pub has_terminal: bool,
    /// Whether that terminal's foreground belongs to another process group.
    pub is_in_terminal_background: bool,
    /// Whether its terminal shows what is typed; `None` without one, or when it was not asked.
    pub terminal_echo: Option<bool>,
    /// Its threads, the first one first.
    pub threads: Vec<ThreadFacts>,
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Its number.
    pub tid: i32,
    /// What it does.
    pub state: ThreadState,
}

/// What a thread does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadState {
    /// It runs, or is about to.
    Running,
    /// It waits in a system call.
    Blocked(BlockedSyscall),
    /// The kernel does not let this user look (`EACCES`, `EPERM`): a setuid program, one that is
    /// not dumpable, or a strict `kernel.yama.ptrace_scope`.
    Denied,
    /// This kernel does not tell (gVisor, masked files).
    Hidden,
}

/// A wait in a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedSyscall {
    /// The system call's name.
    pub name: &'static str,
    /// What kind it is of.
    pub call: BlockingCall,
    /// Whether the wait cannot be interrupted (state `D`).
    pub is_uninterruptible: bool,
    /// What would end the wait.
    pub blocked_on: Vec<BlockedOn>,
    /// Whether the wait has no time limit.
    pub has_no_timeout: bool,
    /// Processor time of this thread in nanoseconds, where only that tells a wait from a loop of
    /// short ones: asked for when a terminal or the input is waited for with a time limit.
    pub thread_cpu_ns: Option<u64>,
}

/// Kinds of system calls that can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockingCall {
    /// `read` and its like.
    Read,
    /// `write` and its like.
    Write,
    /// `poll`, `select`, `epoll_wait` and their like.
    Poll,
    /// `accept`.
    Accept,
    /// `connect`.
    Connect,
    /// `recv`, `send` and their like.
    Transfer,
    /// `wait4`, `waitid`.
    Child,
    /// `vfork`: the child has not called exec yet.
    Vfork,
    /// `nanosleep` and its like.
    Sleep,
    /// `futex`.
    Futex,
    /// `flock`, and `fcntl` with a lock that waits.
    Lock,
    /// `open`: of a FIFO that nobody has open on the other side.
    Open,
    /// `sigsuspend`, `pause`, `sigtimedwait`.
    Signal,
    /// `fsync` and its like.
    Sync,
    /// Anything else.
    Other,
}

/// One descriptor that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedOn {
    /// Its number in the process that waits.
    pub fd: i32,
    /// What it is.
    pub object: FdObject,
    /// Whether data is waited for, or else room for it.
    pub for_reading: bool,
}

/// What a descriptor refers to, as far as verdicts need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdObject {
    /// The pipe that siding gave the task as its standard input.
    TaskStdin,
    /// The pipe that siding collects the task's output from. Who reads it waits for input: it is
    /// what a program finds on its standard error when it looks for a terminal there.
    OutputPipe,
    /// A terminal.
    Terminal,
    /// A pipe without a name.
    Pipe(u64),
    /// A FIFO with a name.
    Fifo,
    /// A socket that waits for connections.
    Listener,
    /// Any other socket.
    Socket,
    /// A watch of files (inotify, fanotify).
    FileWatch,
    /// A timer's descriptor.
    Timer,
    /// Means of a program to wake itself, and children or signals as descriptors: eventfd,
    /// signalfd, pidfd.
    WakeupFd,
    /// A file or a directory.
    File,
    /// Anything else.
    Other,
}

impl FdObject {
    /// Whether somebody could type into it.
    #[must_use]
    pub const fn accepts_typed_input(self) -> bool {
        matches!(self, Self::TaskStdin | Self::OutputPipe | Self::Terminal)
    }
}
