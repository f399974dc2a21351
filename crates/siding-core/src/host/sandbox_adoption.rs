//! Adopts the commands that a host runs in a sandbox, from outside the sandbox.

use std::ffi::CStr;
use std::io;

use siding_model::host::{HostRecord, SandboxedCommand, sandboxed_commands};
use siding_model::id::{Birthmark, TaskId};

use super::files::{HostContext, HostFiles};
use super::mark::{mark_tree, processes_with_mark, read_unless_ended};
use crate::processes::siding_process::SHIM_NAME;
use crate::store::StateDir;
use crate::sys::{birthmark, procfs};
use crate::task::adopt::{AdoptError, ClaimedProcess, SandboxView};
use crate::task::launch::IdleShim;

/// Adopts every command that the host runs in a sandbox and that is not a task yet.
/// `commands_since` is the start time of the host's first command, in clock ticks since boot;
/// `None` if no command has started yet. `program` holds the program to execute as a shim, and a
/// function that is called for each command after the marking and before the start of the shim.
/// Returns the number of commands that were adopted; 0 if the processes, or the host's session and
/// settings, cannot be read.
pub fn adopt_sandboxed_commands(
    root: &StateDir,
    files: &HostFiles,
    record: &HostRecord,
    commands_since: Option<u64>,
    program: (&CStr, &dyn Fn()),
) -> usize {
    let from = files.mark.birthmark();
    let Ok(carriers) = processes_with_mark(from, record.host.pid) else { return 0 };
    let found = sandboxed_commands(record.host.pid, &carriers, commands_since);
    if found.is_empty() {
        return 0;
    }
    let Ok(current) = files.context() else { return 0 };
    let taken =
        |command: &SandboxedCommand| adopt_command(root, files, &current, command, program).is_ok();
    found.iter().filter(|command| taken(command)).count()
}

fn adopt_command(
    root: &StateDir,
    files: &HostFiles,
    current: &HostContext,
    command: &SandboxedCommand,
    program: (&CStr, &dyn Fn()),
) -> Result<(), AdoptError> {
    let pid = command.leader.pid;
    let io = |doing| move |source| AdoptError::Io { pid, doing, source };
    let task =
        root.new_id(siding_model::id::TaskKind::LocalBash).map_err(io("create a task id"))?;
    let claim = ClaimedProcess::from_sandboxed(
        command,
        (task, current.session.clone()),
        sandbox_view(command),
    )?;
    // The claim is recorded before the marking: if this supervisor is killed between the two, the
    // claim tells the next supervisor which mark the processes carry.
    files.record_claim(task).map_err(io("record the claim on it"))?;
    if let Err(source) = mark_tree(pid, files.mark.birthmark(), task.birthmark()) {
        files.remove_claim(task);
        return Err(io("mark it")(source));
    }
    let (program, at) = program;
    at();
    claim.hand_to_shim(root, IdleShim::start(program), &current.terms)?;
    files.remove_claim(task);
    Ok(())
}

/// Starts shims for the commands that a supervisor has claimed but not handed to a shim. Removes
/// each claim whose task has a shim, a live marker or no process left; a claim about which this is
/// unknown stays.
pub fn retry_claims(root: &StateDir, files: &HostFiles, record: &HostRecord, program: &CStr) {
    for task in files.list_claims().unwrap_or_default() {
        let mark = task.birthmark();
        match is_unsupervised(root, task) {
            Ok(true) => {}
            Ok(false) => {
                files.remove_claim(task);
                continue;
            }
            Err(_) => continue,
        }
        let Ok(carriers) = processes_with_mark(mark, record.host.pid) else { continue };
        // The process was recognized as a command before, so its start time no longer matters.
        let commands = sandboxed_commands(record.host.pid, &carriers, Some(0));
        let (Some(command), Ok(current)) = (commands.first(), files.context()) else {
            if carriers.is_empty() {
                files.remove_claim(task);
            }
            continue;
        };
        let pid = command.leader.pid;
        // The earlier supervisor may have been killed while it marked the tree.
        let _best_effort = mark_tree(pid, files.mark.birthmark(), mark);
        let claimed =
            ClaimedProcess::from_sandboxed(command, (task, current.session), sandbox_view(command));
        let given = claimed
            .and_then(|claim| claim.hand_to_shim(root, IdleShim::start(program), &current.terms));
        if given.is_ok() {
            files.remove_claim(task);
        }
    }
}

/// Returns whether a shim carries this mark. Such a shim may supervise a task that has no record
/// yet.
fn has_shim(mark: Birthmark) -> io::Result<bool> {
    for pid in procfs::all_pids()? {
        if procfs::read_birthmark(pid)? == Some(mark)
            && let Some(name) = read_unless_ended(pid, mark, procfs::process_name)?
            && name.as_bytes() == SHIM_NAME.to_bytes()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a claimed task has neither a live marker nor a shim. The processes with its mark
/// are then treated as the host's.
///
/// # Errors
///
/// The I/O error if the processes cannot be listed, or if a process that may be the shim cannot be
/// read.
pub fn is_unsupervised(root: &StateDir, task: TaskId) -> io::Result<bool> {
    Ok(!root.is_marked_live(task) && !has_shim(task.birthmark())?)
}

/// Returns the working directory of a sandboxed command's shell; if it cannot be read, that of the
/// command's leader, and otherwise `/`.
fn sandbox_view(command: &SandboxedCommand) -> SandboxView {
    let shell = command.shell.unwrap_or(command.leader);
    let cwd = procfs::working_directory(shell.pid)
        .or_else(|| procfs::working_directory(command.leader.pid));
    SandboxView { cwd: cwd.unwrap_or_else(|| "/".to_owned()) }
}

/// Replaces a host's mark on this process with the mark of siding's supervisors, because every
/// process that carries a host's mark is terminated after the host has exited.
pub fn drop_host_mark() {
    let _best_effort = birthmark::set_birthmark(Birthmark::SUPERVISOR);
}
