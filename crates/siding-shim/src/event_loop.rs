//! The shim's one loop: wait for something to happen, and let the keepers attend to it.

use std::os::fd::{AsFd, BorrowedFd};

use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, memory, poll};

use crate::task_supervisor::{LoopStatus, TaskSupervisor};

/// What a shim keeps.
#[derive(Debug)]
pub(crate) struct TaskSet {
    supervisors: Vec<TaskSupervisor>,
    signals: SignalFd,
    /// Whether memory was used that is not needed again.
    releases_memory: bool,
}

impl TaskSet {
    /// Returns what is kept from now on, with the signals that are read from it.
    pub(crate) fn new(keepers: Vec<TaskSupervisor>, signals: SignalFd) -> Self {
        // A command may end at once: what its start has used is let go of with the first look at a
        // silent one.
        Self { supervisors: keepers, signals, releases_memory: false }
    }

    /// Has what was used until now let go of at once.
    pub(crate) fn release_memory_first(self) -> Self {
        Self { releases_memory: true, ..self }
    }
}

/// Keeps tasks until all have ended.
///
/// It hardly uses the stack, and neither does the wait: what lies there stays in memory for as long as a
/// task runs. Whatever needs more is a function of its own.
pub(crate) fn run(TaskSet { mut supervisors, signals, mut releases_memory }: TaskSet) {
    supervisors.iter_mut().for_each(TaskSupervisor::on_takeover);
    loop {
        releases_memory |= tick(&mut supervisors);
        if supervisors.is_empty() {
            return;
        }
        if releases_memory {
            // Last: it may be long before this shim wakes again.
            memory::release_unused();
            releases_memory = false;
        }
        wait_and_dispatch(&mut supervisors, &signals);
    }
}

/// Has done what is due by now, and lets those go that have ended. Returns whether memory was used that
/// will not be needed soon.
#[inline(never)]
fn tick(supervisors: &mut Vec<TaskSupervisor>) -> bool {
    let mut releases_memory = false;
    let is_finished = |keeper: &mut TaskSupervisor| {
        let status = keeper.tick();
        releases_memory |= status == LoopStatus::LiveMemoryUsed;
        status == LoopStatus::Finished
    };
    let ended: Vec<TaskSupervisor> = supervisors.extract_if(.., is_finished).collect();
    // Last, since it waits for the disk.
    ended.into_iter().for_each(TaskSupervisor::shutdown);
    releases_memory
}

/// Waits until something is due, and has it attended to. The only place that blocks.
fn wait_and_dispatch(supervisors: &mut [TaskSupervisor], signals: &SignalFd) {
    let wake_at = supervisors.iter_mut().filter_map(TaskSupervisor::wake_at).min();
    let mut sources: Vec<BorrowedFd<'_>> = vec![signals.as_fd()];
    let mut counts = Vec::with_capacity(supervisors.len());
    for keeper in supervisors.iter() {
        let own = keeper.sources();
        counts.push(own.len());
        sources.extend(own);
    }
    let timeout = wake_at.map(|at| at.ms_since(clock::monotonic_now()));
    // It can only fail for want of kernel memory; then everything is simply looked at.
    let ready =
        poll::wait_readable(&sources, timeout).unwrap_or_else(|_| vec![true; sources.len()]);
    drop(sources);
    let received = ready[0].then(|| signals.read_pending());
    let mut ready = &ready[1..];
    for (keeper, count) in supervisors.iter_mut().zip(counts) {
        let (own, others) = ready.split_at(count);
        ready = others;
        keeper.dispatch_ready(own, received.as_deref());
    }
}
