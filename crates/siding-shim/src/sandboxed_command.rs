//! A command in a host's sandbox, apart from what the sandbox has beside it.

use siding_core::sys::procfs;
use siding_model::adopt::host_shell_command;

/// Most of a command line that is read, in bytes.
const MAX_COMMAND_LINE_BYTES: usize = 128 << 10;

/// Returns the processes of the command itself among those of its task: the host's shell and what is
/// below it. The sandbox's relays wait on the network for as long as it runs, which explains nothing.
/// Where that shell is not known it is all of them.
pub(crate) fn command_processes(members: Vec<i32>) -> Vec<i32> {
    let is_shell = |pid: &&i32| {
        procfs::command_words(**pid, MAX_COMMAND_LINE_BYTES)
            .is_some_and(|(words, _)| host_shell_command(&words).is_some())
    };
    let Some(shell) = members.iter().find(is_shell).copied() else { return members };
    let mut processes = procfs::descendants(shell, |pid| !members.contains(&pid));
    processes.insert(0, shell);
    processes
}
