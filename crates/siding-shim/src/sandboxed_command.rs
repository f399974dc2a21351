//! Distinguishes a command in a host's sandbox from the processes of the sandbox itself.

use siding_core::sys::procfs;
use siding_model::adopt::host_shell_command;

/// Maximum number of bytes that are read from a command line.
const MAX_COMMAND_LINE_BYTES: usize = 128 << 10;

/// Returns the processes of the command among those of its task: the host's shell and its
/// descendants. The other processes of a sandbox are relays, which wait for the network
/// permanently, so their waits do not explain a stall. Returns all processes if the shell is not
/// found.
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
