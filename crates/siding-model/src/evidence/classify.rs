//! Derives the activity of a process from the system calls in which its threads are blocked.

use super::sample::{
    BlockedSyscall, BlockingCall, FdObject, ProcessFacts, TaskSample, ThreadFacts, ThreadState,
};
use crate::terminal::ReaderFact;

/// The activity of a process. The variants are ordered from the best explanation of a task's
/// silence to the worst. The activity of a process that is not stopped is that of the thread whose
/// variant comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProcessActivity {
    /// Blocked in a read of the task's input, a terminal or the output pipe, or in a poll of only
    /// these.
    ReadingInput,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// On a CPU, or ready to run.
    Running,
    /// Polls the input together with other objects.
    PollingInput,
    /// Reads, writes or syncs a file, or is in another uninterruptible wait.
    Disk,
    /// Waits for the peer of a socket.
    Network,
    /// Waits for incoming connections.
    Serving,
    /// Waits for a file lock.
    Lock,
    /// Waits for the other end of a FIFO.
    Fifo,
    /// Waits until a reader drains a full pipe, FIFO or terminal.
    PipeFull,
    /// Unknown: the kernel denies access to the process's state.
    Denied,
    /// Sleeps for a fixed time, or waits for a timer or for events with a timeout.
    Timer,
    /// Blocked in futex(2): waits for another thread.
    Futex,
    /// Waits for file changes, for a signal, or for an unknown event.
    Idle,
    /// Waits for a writer of a pipe.
    PipeRead,
    /// Waits for a child process.
    Child,
}

impl ProcessActivity {
    /// Returns whether the process only waits for another process of the task, whose activity then
    /// explains the silence.
    pub(super) const fn waits_for_other_process(self) -> bool {
        matches!(self, Self::PipeRead | Self::Child)
    }

    /// Returns whether one sample of the activity justifies another sample soon: the process may
    /// need an agent or a person.
    pub(super) const fn is_suspicious(self) -> bool {
        match self {
            Self::ReadingInput | Self::Stopped => true,
            Self::Running
            | Self::PollingInput
            | Self::Disk
            | Self::Network
            | Self::Serving
            | Self::Lock
            | Self::Fifo
            | Self::PipeFull
            | Self::Denied
            | Self::Timer
            | Self::Futex
            | Self::Idle
            | Self::PipeRead
            | Self::Child => false,
        }
    }

    /// Returns whether the activity cannot explain the silence once the verdicts about input,
    /// stopped processes and busy processes have been ruled out.
    pub(super) const fn is_inconclusive(self) -> bool {
        matches!(self, Self::ReadingInput | Self::Stopped | Self::Running | Self::PollingInput)
    }

    /// Returns whether the activity is work that may continue while another process or thread of
    /// the tree is blocked reading input or is stopped.
    pub(super) const fn is_independent_work(self) -> bool {
        matches!(
            self,
            Self::Running
                | Self::Disk
                | Self::Network
                | Self::Serving
                | Self::Lock
                | Self::Fifo
                | Self::PipeFull
                | Self::Timer
        )
    }
}

/// A process, its activity, and the thread from which the activity was determined.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassifiedProcess<'s> {
    pub(super) process: &'s ProcessFacts,
    pub(super) thread: Option<&'s ThreadFacts>,
    pub(super) activity: ProcessActivity,
}

/// Returns the activity of each living process of a sample. A process that reads input in one
/// thread and works in another yields two entries, because either may explain the silence.
pub(super) fn classify_sample(sample: &TaskSample) -> Vec<ClassifiedProcess<'_>> {
    let both = |process| {
        let first = classify_process(sample, process);
        let works = (first.activity == ProcessActivity::ReadingInput)
            .then(|| find_working_thread(sample, process))
            .flatten();
        [Some(first), works]
    };
    sample.processes.iter().flat_map(both).flatten().collect()
}

/// The process in the foreground of the task's terminal that waits for typed input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalReader {
    /// No process of the foreground process group waits for input.
    None,
    /// This process does.
    Found(ReaderFact),
    /// Unknown: the kernel hides what a process of the group waits for.
    Hidden,
}

/// Returns the process in the foreground of the task's terminal that waits for typed input: it is
/// blocked in a read of that terminal, or in a wait for several objects that include it. A process
/// that reads another terminal, such as the one that tmux has opened in the task, does not count.
#[must_use]
pub fn find_terminal_reader(sample: &TaskSample) -> TerminalReader {
    let foreground = sample
        .processes
        .iter()
        .filter(|one| one.has_task_terminal && !one.is_in_terminal_background);
    let mut reader = TerminalReader::None;
    for process in foreground {
        let activity = classify_process(sample, process).activity;
        if activity == ProcessActivity::Denied {
            reader = TerminalReader::Hidden;
        }
        if activity == ProcessActivity::Stopped {
            continue;
        }
        let threads = classify_threads(sample, process).filter(|one| {
            matches!(one.activity, ProcessActivity::ReadingInput | ProcessActivity::PollingInput)
        });
        let mut threads = threads.filter_map(|one| one.thread);
        if let Some(thread) = threads.find(|thread| awaits_task_terminal(thread)) {
            return TerminalReader::Found(reader_fact(process, thread));
        }
    }
    reader
}

fn awaits_task_terminal(thread: &ThreadFacts) -> bool {
    match &thread.state {
        ThreadState::Blocked(blocked) => {
            blocked.blocked_on.iter().any(|on| on.for_reading && on.object == FdObject::Terminal)
        }
        ThreadState::Running | ThreadState::Denied | ThreadState::Hidden => false,
    }
}

fn reader_fact(process: &ProcessFacts, thread: &ThreadFacts) -> ReaderFact {
    let (is_in_read, timed_wait_cpu_ns) = match &thread.state {
        ThreadState::Blocked(blocked) => {
            let cpu_ns = blocked.thread_cpu_ns.filter(|_| !blocked.has_no_timeout);
            (blocked.call == BlockingCall::Read, cpu_ns)
        }
        ThreadState::Running | ThreadState::Denied | ThreadState::Hidden => (false, None),
    };
    ReaderFact { process: process.process, is_in_read, timed_wait_cpu_ns }
}

fn classify_process<'s>(
    sample: &'s TaskSample,
    process: &'s ProcessFacts,
) -> ClassifiedProcess<'s> {
    if matches!(process.state, 'T' | 't') {
        return ClassifiedProcess {
            process,
            thread: process.threads.first(),
            activity: ProcessActivity::Stopped,
        };
    }
    let first = classify_threads(sample, process).min_by_key(|one| one.activity);
    first.unwrap_or(ClassifiedProcess { process, thread: None, activity: ProcessActivity::Idle })
}

/// Returns the thread that does independent work; `None` if no thread of the process does.
fn find_working_thread<'s>(
    sample: &'s TaskSample,
    process: &'s ProcessFacts,
) -> Option<ClassifiedProcess<'s>> {
    classify_threads(sample, process)
        .filter(|one| one.activity.is_independent_work())
        .min_by_key(|one| one.activity)
}

fn classify_threads<'s>(
    sample: &'s TaskSample,
    process: &'s ProcessFacts,
) -> impl Iterator<Item = ClassifiedProcess<'s>> {
    let is_parent = sample.processes.iter().any(|other| other.parent == process.process.pid);
    process.threads.iter().map(move |thread| ClassifiedProcess {
        process,
        thread: Some(thread),
        activity: classify_thread(thread, is_parent),
    })
}

fn classify_thread(thread: &ThreadFacts, is_parent: bool) -> ProcessActivity {
    match &thread.state {
        ThreadState::Running => ProcessActivity::Running,
        ThreadState::Denied => ProcessActivity::Denied,
        ThreadState::Hidden => ProcessActivity::Idle,
        ThreadState::Blocked(asleep) => classify_wait(asleep, is_parent),
    }
}

fn classify_wait(asleep: &BlockedSyscall, is_parent: bool) -> ProcessActivity {
    match asleep.call {
        BlockingCall::Child | BlockingCall::Vfork => ProcessActivity::Child,
        BlockingCall::Read => classify_read(asleep),
        BlockingCall::Write => classify_write(asleep),
        BlockingCall::Poll => classify_poll(asleep, is_parent),
        BlockingCall::Accept => ProcessActivity::Serving,
        BlockingCall::Connect | BlockingCall::Transfer => ProcessActivity::Network,
        BlockingCall::Sleep => ProcessActivity::Timer,
        BlockingCall::Futex => ProcessActivity::Futex,
        BlockingCall::Lock => ProcessActivity::Lock,
        BlockingCall::Open if asleep.is_uninterruptible => ProcessActivity::Disk,
        BlockingCall::Open => ProcessActivity::Fifo,
        // Some shells, such as zsh, wait for their children in sigsuspend(2).
        BlockingCall::Signal if is_parent => ProcessActivity::Child,
        BlockingCall::Signal if !asleep.has_no_timeout => ProcessActivity::Timer,
        BlockingCall::Signal => ProcessActivity::Idle,
        BlockingCall::Sync => ProcessActivity::Disk,
        BlockingCall::Other if asleep.is_uninterruptible => ProcessActivity::Disk,
        BlockingCall::Other => ProcessActivity::Idle,
    }
}

fn classify_read(asleep: &BlockedSyscall) -> ProcessActivity {
    match asleep.blocked_on.first().filter(|waited| waited.for_reading).map(|waited| waited.object)
    {
        Some(object) if object.accepts_typed_input() => ProcessActivity::ReadingInput,
        Some(FdObject::Pipe(_)) => ProcessActivity::PipeRead,
        Some(FdObject::Fifo) => ProcessActivity::Fifo,
        Some(FdObject::Socket | FdObject::Listener) => ProcessActivity::Network,
        Some(FdObject::File) => ProcessActivity::Disk,
        Some(FdObject::Timer) => ProcessActivity::Timer,
        _ if asleep.is_uninterruptible => ProcessActivity::Disk,
        _ => ProcessActivity::Idle,
    }
}

fn classify_write(asleep: &BlockedSyscall) -> ProcessActivity {
    match asleep.blocked_on.first().map(|waited| waited.object) {
        Some(
            FdObject::Pipe(_)
            | FdObject::Fifo
            | FdObject::OutputPipe
            | FdObject::Terminal
            | FdObject::OtherTerminal,
        ) => ProcessActivity::PipeFull,
        Some(FdObject::Socket) => ProcessActivity::Network,
        Some(FdObject::File) => ProcessActivity::Disk,
        _ if asleep.is_uninterruptible => ProcessActivity::Disk,
        _ => ProcessActivity::Idle,
    }
}

fn classify_poll(asleep: &BlockedSyscall, is_parent: bool) -> ProcessActivity {
    let has = |wanted: fn(FdObject) -> bool| {
        asleep.blocked_on.iter().any(|waited| waited.for_reading && wanted(waited.object))
    };
    let to_write =
        |object| asleep.blocked_on.iter().any(|one| !one.for_reading && one.object == object);
    if has(|object| object == FdObject::Listener) {
        return ProcessActivity::Serving;
    }
    if has(FdObject::accepts_typed_input) {
        let alone = asleep
            .blocked_on
            .iter()
            .all(|waited| waited.for_reading && waited.object.accepts_typed_input());
        return if alone { ProcessActivity::ReadingInput } else { ProcessActivity::PollingInput };
    }
    if has(|object| object == FdObject::Socket) || to_write(FdObject::Socket) {
        ProcessActivity::Network
    } else if has(|object| object == FdObject::Fifo) {
        ProcessActivity::Fifo
    } else if asleep
        .blocked_on
        .iter()
        .any(|one| !one.for_reading && matches!(one.object, FdObject::Pipe(_)))
    {
        ProcessActivity::PipeFull
    } else if is_parent {
        // An event loop with children, and without sockets or input, is assumed to wait for its
        // children.
        ProcessActivity::Child
    } else if has(|object| object == FdObject::FileWatch) {
        ProcessActivity::Idle
    } else if !asleep.has_no_timeout || has(|object| object == FdObject::Timer) {
        ProcessActivity::Timer
    } else if has(|object| matches!(object, FdObject::Pipe(_)))
        && !has(|object| object == FdObject::WakeupFd)
    {
        ProcessActivity::PipeRead
    } else {
        ProcessActivity::Idle
    }
}
