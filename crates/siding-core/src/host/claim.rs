//! Taking on the commands that a host runs in a sandbox, from outside of it.

use std::ffi::CStr;

use siding_model::host::{HostRecord, SandboxedCommand, sandboxed_commands};
use siding_model::id::{Birthmark, TaskId};

use super::files::{Current, HostFiles};
use super::mark::{mark_tree, marked};
use crate::adopt::{AdoptError, Claim, Found};
use crate::launch::{SHIM_NAME, Shim};
use crate::store::Root;
use crate::sys::{limit, procfs};

/// Takes on every command that the host runs in a sandbox and that is no task yet. `at` is told of
/// each that is marked and that no shim keeps yet. Returns how many shims were started.
pub fn claim_commands(
    root: &Root,
    files: &HostFiles,
    record: &HostRecord,
    commands_since: Option<u64>,
    program: (&CStr, &dyn Fn()),
) -> usize {
    let from = files.mark.birthmark();
    let carriers = marked(from, record.host.pid);
    let found = sandboxed_commands(record.host.pid, &carriers, commands_since);
    if found.is_empty() {
        return 0;
    }
    let Ok(current) = files.current() else { return 0 };
    let taken = |command: &SandboxedCommand| take(root, files, &current, command, program).is_ok();
    found.iter().filter(|command| taken(command)).count()
}

/// Takes on one command.
fn take(
    root: &Root,
    files: &HostFiles,
    current: &Current,
    command: &SandboxedCommand,
    program: (&CStr, &dyn Fn()),
) -> Result<(), AdoptError> {
    let pid = command.leader.pid;
    let io = |doing| move |source| AdoptError::Io { pid, doing, source };
    let task = root.new_id(siding_model::id::TaskKind::LocalBash).map_err(io("make an id"))?;
    let claim = Claim::of_sandboxed(command, (task, current.session.clone()), found(command))?;
    // First on record: a supervisor that is killed in between leaves a mark that somebody explains.
    files.note_claim(task).map_err(io("note that it is taken on"))?;
    if let Err(source) = mark_tree(pid, files.mark.birthmark(), task.birthmark()) {
        files.forget_claim(task);
        return Err(io("mark it")(source));
    }
    let (program, at) = program;
    at();
    claim.give(root, Shim::start(program), &current.terms)?;
    files.forget_claim(task);
    Ok(())
}

/// Gives those a shim that an earlier supervisor has marked and could give none.
pub fn give_again(root: &Root, files: &HostFiles, record: &HostRecord, program: &CStr) {
    for task in files.claims() {
        let mark = task.birthmark();
        if !is_unkept(root, task) {
            files.forget_claim(task);
            continue;
        }
        let carriers = marked(mark, record.host.pid);
        // Of the host's own words or not: it was taken for a command before.
        let commands = sandboxed_commands(record.host.pid, &carriers, Some(0));
        let (Some(command), Ok(current)) = (commands.first(), files.current()) else {
            if carriers.is_empty() {
                files.forget_claim(task);
            }
            continue;
        };
        let pid = command.leader.pid;
        // It may have been killed in the middle of its work.
        let _half_marked = mark_tree(pid, files.mark.birthmark(), mark);
        let claimed = Claim::of_sandboxed(command, (task, current.session), found(command));
        let given =
            claimed.and_then(|claim| claim.give(root, Shim::start(program), &current.terms));
        if given.is_ok() {
            files.forget_claim(task);
        }
    }
}

/// Whether a shim carries this mark: it keeps what is not on record yet.
fn is_kept(mark: Birthmark) -> bool {
    let is_shim = |pid: &i32| {
        procfs::birthmark(*pid) == Some(mark)
            && procfs::name(*pid).is_some_and(|name| name.as_bytes() == SHIM_NAME.to_bytes())
    };
    procfs::all_pids().iter().any(is_shim)
}

/// Whether nobody keeps a task that was claimed: then what carries its mark is the host's.
#[must_use]
pub fn is_unkept(root: &Root, task: TaskId) -> bool {
    !root.is_marked_live(task) && !is_kept(task.birthmark())
}

/// Returns where a command in a sandbox runs.
fn found(command: &SandboxedCommand) -> Found {
    let shell = command.shell.unwrap_or(command.leader);
    let cwd = procfs::directory(shell.pid).or_else(|| procfs::directory(command.leader.pid));
    Found { cwd: cwd.unwrap_or_else(|| "/".to_owned()) }
}

/// Lets this process carry siding's own mark instead of a host's: whatever carries a host's ends
/// with it.
pub fn leave_host() {
    let _unmarked_or_a_tasks = limit::set_birthmark(Birthmark::SUPERVISOR);
}
