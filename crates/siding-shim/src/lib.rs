//! The shim: the small process that supervises one task, or several that are about to be stopped.
//!
//! The shim starts the leader, adopts a running command or takes over a task whose shim is dead. It
//! is the only writer of the task's journal and of the output that it receives through a FIFO. It
//! enforces the deadline and the task's lease, serves its clients, and kills the process tree of a
//! task that is stopped. It records how the task ended, and exits. The shim has one thread, which
//! waits for the events of recorded tasks only in the poll of `event_loop`; further threads, one
//! for each URL, exist only while HTTP conditions of a task's readiness are checked. While it
//! supervises a task, the shim waits neither for a client that does not read nor for an end of
//! file.
//!
//! The crate also contains the supervisor of a host (`host_supervisor`), which supervises no task.

#![forbid(unsafe_code)]

mod adopt;
mod adopted_output;
mod clients;
mod deadline_notice;
mod event_loop;
mod excluded_programs;
mod failpoints;
mod host_supervisor;
mod journal_writer;
mod lease;
mod line_monitor;
mod mirror;
mod output_fifo;
mod output_file;
mod output_pump;
mod pending_adoption;
mod poll_set;
mod process_tree;
mod proxy_handle;
mod readiness;
mod resource_monitor;
mod sandboxed_command;
mod shell_bypass;
mod shell_command;
mod splice_store;
mod stall;
mod start;
mod start_leader;
mod takeover;
mod task_context;
mod task_record;
mod task_supervisor;
mod terminal;
mod terminal_output;
mod tree_kill;
mod unrecorded_adoption;

use std::os::fd::OwnedFd;

use siding_core::processes::siding_process;
use siding_core::sys::descriptor;
use siding_core::task::launch::{ShimCommand, ShimFds};

use crate::event_loop::TaskSet;
use crate::mirror::Mirror;

pub use host_supervisor::main as supervise;

/// Exit code of a shim that siding did not start, or that received no valid command.
const USAGE_EXIT_CODE: u8 = 2;

/// The tasks that a shim supervises, after it has read its command.
enum Supervised {
    /// Tasks on this machine.
    Tasks(TaskSet),
    /// The mirror of a task on another machine.
    Mirror(Box<Mirror>),
}

/// Runs this process as a shim: waits for a command and executes it. Returns the exit code of the
/// process.
#[must_use]
pub fn main() -> u8 {
    let Ok(starter) = descriptor::take_inherited(siding_process::STARTER_FD) else {
        eprintln!("siding: `__shim` is started by siding itself; run `siding --help`");
        return USAGE_EXIT_CODE;
    };
    match execute_shim_command(starter) {
        Ok(Some(Supervised::Tasks(tasks))) => event_loop::run(tasks),
        Ok(Some(Supervised::Mirror(mirror))) => mirror.run(),
        Ok(None) => {}
        Err(code) => return code,
    }
    0
}

/// Waits for a command and starts, adopts or takes over its tasks. Returns `None` when there is no
/// task to supervise, and the exit code of the process as the error.
///
/// This function is not inlined, because it needs 24 KiB of stack, which must be free again while
/// the event loop runs, possibly for hours.
#[inline(never)]
fn execute_shim_command(starter: OwnedFd) -> Result<Option<Supervised>, u8> {
    let prepared = start::PreparedShim::prepare();
    let (command, handed) = match ShimFds::receive(&starter) {
        Ok(Some(received)) => received,
        Ok(None) => return Ok(None),
        Err(_) => return Err(USAGE_EXIT_CODE),
    };
    let tasks = match command {
        ShimCommand::StartMirror { task_id, .. } => {
            let mirror = mirror::start(task_id, prepared, handed, starter);
            return mirror.map(|mirror| Some(Supervised::Mirror(Box::new(mirror)))).map_err(|_| 1);
        }
        ShimCommand::RescueMirror(id) => {
            let mirror = mirror::take_over(id, prepared, handed, starter);
            return mirror.map(|mirror| Some(Supervised::Mirror(Box::new(mirror)))).map_err(|_| 1);
        }
        ShimCommand::Start { task_id, .. } => {
            start::run(task_id, prepared, handed, starter).map(Some)
        }
        ShimCommand::Rescue(id) => takeover::run(id, prepared, handed, starter).map(Some),
        ShimCommand::RescueAmong(id) => {
            takeover::run_batch(id, prepared, handed, starter).map(Some)
        }
        ShimCommand::Adopt(id) => adopt::run(id, prepared, handed, starter),
    };
    // The starter received the error as a message, or, from a shim for several tasks, finds the
    // connection closed. The standard error of a shim is /dev/null.
    tasks.map(|tasks| tasks.map(Supervised::Tasks)).map_err(|_| 1)
}
