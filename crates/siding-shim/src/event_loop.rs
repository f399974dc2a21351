//! The shim's one loop: waits for events, and dispatches each to the supervisor of its task.
//!
//! | wakes the shim | what the supervisor does |
//! |---|---|
//! | the output FIFO has data | moves it into the output file, notifies followers |
//! | a signal: SIGCHLD | reaps, records the leader's end or the empty tree |
//! | a signal: SIGTERM, SIGINT | stops the task |
//! | a process that is not a child ended | the same as after SIGCHLD |
//! | the holder of the terminal ended | starts another one |
//! | the session's owner ended | searches for another owner, otherwise starts the grace |
//! | a server has responded | nothing: the next tick checks the task's readiness |
//! | the proxy reported | records denied hosts |
//! | a client sent a request | carries it out, answers |
//! | a client connects | accepts it |
//! | a timeout | does what is due: [`TaskSupervisor::tick`] |

use std::os::fd::AsFd as _;

use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, memory};
use siding_model::signal::Signal;

use crate::poll_set::{PollSet, ReadySources, Source};
use crate::task_supervisor::{LoopStatus, TaskSupervisor};

/// The supervisors of a shim's tasks, and the signals that the tasks share.
#[derive(Debug)]
pub(crate) struct TaskSet {
    supervisors: Vec<TaskSupervisor>,
    signals: SignalFd,
    /// Whether memory that can be returned to the kernel was used since the last wait.
    releases_memory: bool,
}

impl TaskSet {
    /// Creates a set of tasks to supervise. `signals` receives the shim's signals.
    pub(crate) fn new(supervisors: Vec<TaskSupervisor>, signals: SignalFd) -> Self {
        // A command may end within milliseconds, so start-up memory is released only after the
        // first check that itself uses memory, usually the first sample of a silent task.
        Self { supervisors, signals, releases_memory: false }
    }

    /// Makes [`run`] return start-up memory to the kernel before the first wait.
    pub(crate) fn release_memory_first(self) -> Self {
        Self { releases_memory: true, ..self }
    }
}

/// Supervises tasks until all have ended.
///
/// Neither this function nor the wait uses much of the stack: the pages that are in use while the
/// shim waits stay in memory for as long as the task runs. Code that needs more stack is in
/// functions that are not inlined.
pub(crate) fn run(TaskSet { mut supervisors, signals, mut releases_memory }: TaskSet) {
    supervisors.iter_mut().for_each(TaskSupervisor::on_takeover);
    loop {
        releases_memory |= tick(&mut supervisors);
        if supervisors.is_empty() {
            return;
        }
        if std::mem::take(&mut releases_memory) {
            // Memory is released last, because it may be long before this shim wakes again.
            memory::release_unused();
        }
        let ready = wait(&mut supervisors, &signals);
        let received = if ready.contains_shared(Source::Signals) {
            signals.read_pending()
        } else {
            Vec::new()
        };
        for (index, supervisor) in supervisors.iter_mut().enumerate() {
            dispatch(supervisor, &ready.for_task(index), &received);
        }
    }
}

/// Waits until a source is readable or a timeout has passed. This is the only place where the shim
/// of a recorded task waits for events, except for the pauses between the rounds of a kill.
fn wait(supervisors: &mut [TaskSupervisor], signals: &SignalFd) -> ReadySources {
    let wake_at = supervisors.iter_mut().filter_map(TaskSupervisor::wake_at).min();
    let mut poll_set = PollSet::default();
    poll_set.add_shared(Source::Signals, signals.as_fd());
    for (index, supervisor) in supervisors.iter().enumerate() {
        supervisor.add_sources(index, &mut poll_set);
    }
    poll_set.wait(wake_at.map(|at| at.ms_since(clock::monotonic_now())))
}

/// Dispatches the readable sources of a task, in the order of [`Source`].
#[inline(never)]
fn dispatch(supervisor: &mut TaskSupervisor, ready: &[Source], signals: &[Signal]) {
    for source in ready {
        match *source {
            Source::Output => supervisor.on_output_readable(),
            Source::Signals => supervisor.on_signals(signals),
            Source::TreeMember => supervisor.on_member_exited(),
            Source::TerminalHolder => supervisor.on_terminal_holder_exited(),
            Source::SessionOwner => supervisor.on_owner_exited(),
            // The response is evaluated by the tick that follows.
            Source::Readiness => {}
            Source::Proxy => supervisor.on_proxy_readable(),
            // Only a mirror has these sources.
            Source::RemoteMessages | Source::RemoteErrors | Source::LocalInput | Source::Fetch => {}
            Source::Client(id) => supervisor.on_client_readable(id),
            Source::Listener => supervisor.on_connection(),
        }
    }
    supervisor.remove_disconnected_clients();
}

/// Performs the due actions of every task, and shuts down the tasks that have ended. Returns
/// whether memory was used that will not be needed soon.
#[inline(never)]
fn tick(supervisors: &mut Vec<TaskSupervisor>) -> bool {
    let mut releases_memory = false;
    let is_finished = |supervisor: &mut TaskSupervisor| {
        let status = supervisor.tick();
        releases_memory |= status == LoopStatus::LiveMemoryUsed;
        status == LoopStatus::Finished
    };
    let ended: Vec<TaskSupervisor> = supervisors.extract_if(.., is_finished).collect();
    // Ended tasks are shut down last, because the shutdown waits for the disk.
    ended.into_iter().for_each(TaskSupervisor::shutdown);
    releases_memory
}
