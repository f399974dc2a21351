//! Detection of the commands that a host runs in a sandbox, from the host's process tree.
//!
//! ```text
//! claude ─ sh ─ bwrap ─ bwrap ─ bash ─┬─ socat
//!          │                          └─ apply-seccomp ─ bash -c '… eval COMMAND …'
//!          └ the leader: the topmost process below the host
//! ```

use std::collections::HashMap;

use crate::adopt::{
    command_from_argv, find_host_command, host_shell_command, is_shell_with_dash_c,
    is_wrapper_program,
};
use crate::process::ProcRef;
use crate::spec::TaskCommand;

/// Programs that start another program in a sandbox.
const SANDBOX_PROGRAMS: [&str; 1] = ["bwrap"];
/// Maximum number of processes on the path from a sandbox up to the child of its host. The bound
/// ends a search in a cycle of reused pids.
const MAX_ANCESTOR_DEPTH: usize = 16;

/// A process that carries a host's mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedProcess {
    /// Pid and start time of the process.
    pub process: ProcRef,
    /// Pid of the parent, which links the processes to a tree.
    pub parent: i32,
    /// File name of the executable, or the kernel's name of the process.
    pub program: String,
    /// Words of the command line, in which the host's wrapper text is searched for.
    pub words: Vec<String>,
}

/// A command that a host runs in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxedCommand {
    /// The topmost process below the host: the sandbox program itself, or an ancestor of it.
    pub leader: ProcRef,
    /// Name of the program that created the sandbox, such as `bwrap`.
    pub sandbox: &'static str,
    /// The command that runs in the sandbox, without the host's wrapper text.
    pub command: TaskCommand,
    /// The shell that runs the command, if it was found. The shell's working directory is the
    /// command's.
    pub shell: Option<ProcRef>,
}

/// Returns the sandboxed commands among `marked`, the processes that carry the mark of `host`.
///
/// A sandbox whose text is not the wrapper text of a known host may be a server of the host. Such a
/// sandbox counts as a command only if a shell with `-c` runs in it, and its leader was started at
/// or after `commands_since`: the time of the host's first command in clock ticks since boot.
#[must_use]
pub fn sandboxed_commands(
    host: i32,
    marked: &[MarkedProcess],
    commands_since: Option<u64>,
) -> Vec<SandboxedCommand> {
    let by_pid: HashMap<i32, &MarkedProcess> =
        marked.iter().map(|one| (one.process.pid, one)).collect();
    let sandbox =
        |one: &MarkedProcess| SANDBOX_PROGRAMS.iter().find(|name| **name == one.program).copied();
    let mut found: Vec<SandboxedCommand> = Vec::new();
    for one in marked {
        let Some(sandbox) = sandbox(one) else { continue };
        let Some(leader) = topmost_below_host(host, one, &by_pid) else { continue };
        // bwrap forks inside the sandbox, so one command has two bwrap processes.
        if found.iter().any(|known| known.leader == leader.process) {
            continue;
        }
        let below = descendants(one.process.pid, marked);
        let is_later = commands_since.is_some_and(|since| leader.process.start_ticks >= since);
        let Some((command, shell)) = find_command(one, &below, is_later) else { continue };
        found.push(SandboxedCommand { leader: leader.process, sandbox, command, shell });
    }
    found
}

/// Returns the child of the host from which the sandbox `one` descends. Returns `None` if a process
/// between them is not marked, or is neither a shell nor a wrapper: such a process, for example a
/// server, then started the sandbox.
fn topmost_below_host<'m>(
    host: i32,
    one: &'m MarkedProcess,
    by_pid: &HashMap<i32, &'m MarkedProcess>,
) -> Option<&'m MarkedProcess> {
    let mut top = one;
    for _ in 0..MAX_ANCESTOR_DEPTH {
        if top.parent == host {
            return Some(top);
        }
        top =
            by_pid.get(&top.parent).copied().filter(|above| is_wrapper_program(&above.program))?;
    }
    None
}

/// Returns the descendants of a process; parents precede their children.
fn descendants(top: i32, marked: &[MarkedProcess]) -> Vec<&MarkedProcess> {
    let mut found: Vec<&MarkedProcess> = Vec::new();
    let mut next = 0;
    let mut parent = top;
    loop {
        let children = marked.iter().filter(|one| one.parent == parent);
        // A reused pid can create a cycle of parents, so each process is visited once.
        let new: Vec<&MarkedProcess> = children
            .filter(|child| found.iter().all(|known| known.process.pid != child.process.pid))
            .collect();
        found.extend(new);
        let Some(one) = found.get(next) else { return found };
        parent = one.process.pid;
        next += 1;
    }
}

/// Returns the command in a sandbox and the shell that runs it. `below` holds the descendants of
/// the sandbox program; `is_later` says whether a command that is not in the wrapper text of a
/// known host counts.
fn find_command(
    sandbox: &MarkedProcess,
    below: &[&MarkedProcess],
    is_later: bool,
) -> Option<(TaskCommand, Option<ProcRef>)> {
    let known = below.iter().copied().find_map(|one| {
        let is_shell = is_shell_with_dash_c(&one.words);
        is_shell.then(|| Some((host_shell_command(&one.words)?, one.process))).flatten()
    });
    if let Some((command, shell)) = known {
        return Some((command, Some(shell)));
    }
    // The shell inside the sandbox may not have been started yet, but the sandbox program's
    // arguments already contain its text.
    if let Some(command) = find_host_command(&sandbox.words) {
        return Some((command, None));
    }
    if !is_later {
        return None;
    }
    let is_inside = |one: &&&MarkedProcess| !SANDBOX_PROGRAMS.contains(&one.program.as_str());
    let shell = below.iter().filter(is_inside).find(|one| is_shell_with_dash_c(&one.words))?;
    Some((command_from_argv(&shell.words), Some(shell.process)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: i32 = 10;

    fn marked(pid: i32, parent: i32, words: &[&str]) -> MarkedProcess {
        let program = words[0].rsplit('/').next().unwrap_or_default().to_owned();
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let start_ticks = u64::try_from(pid).expect("pids are positive");
        MarkedProcess { process: ProcRef { pid, start_ticks }, parent, program, words }
    }

    /// The process tree of a command in Claude Code 2.1.330.
    fn claude_process_tree() -> Vec<MarkedProcess> {
        let inner = "exec 3<&- || exit 126; source /h/s.sh 2>/dev/null || true && export TMPDIR=/tmp \
                     && \\builtin shopt -u extglob 2>/dev/null || true && eval 'sleep 300' < /dev/null \
                     && pwd -P >| /tmp/cwd-0bdc";
        let outer = format!(
            "{{ socat TCP6-LISTEN:3128 UNIX-CONNECT:/tmp/s; }} &\napply-seccomp /bin/bash -c '{}'",
            inner.replace('\'', r#"'"'"'"#)
        );
        vec![
            marked(HOST, 1, &["/opt/claude"]),
            marked(11, HOST, &["socat", "UNIX-LISTEN:/tmp/claude-http-1.sock", "TCP:localhost:1"]),
            marked(20, HOST, &["/bin/sh", "-c", "if eval \"$1\"; then :; fi", "/bin/sh", "bwrap"]),
            marked(21, 20, &["/bin/sh", "-c", "read -r line <&7"]),
            marked(22, 20, &["bwrap", "--unshare-pid", "--", "/bin/bash", "-c", &outer]),
            marked(23, 22, &["bwrap", "--unshare-pid", "--", "/bin/bash", "-c", &outer]),
            marked(24, 23, &["/bin/bash", "-c", &outer]),
            marked(25, 24, &["socat", "TCP6-LISTEN:3128"]),
            marked(26, 24, &["/proc/self/fd/3", "/bin/bash", "-c", inner]),
            marked(27, 26, &["/bin/bash", "-c", inner]),
        ]
    }

    #[test]
    fn a_sandboxed_command_is_found_with_its_original_text() {
        let found = sandboxed_commands(HOST, &claude_process_tree(), None);
        let [command] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((command.leader.pid, command.sandbox), (20, "bwrap"));
        assert_eq!(command.command.display_text(), "sleep 300");
        assert_eq!(command.shell.map(|shell| shell.pid), Some(27));
    }

    #[test]
    fn a_command_without_a_running_shell_is_read_from_the_sandbox_argv() {
        let mut early = claude_process_tree();
        early.truncate(6);
        let found = sandboxed_commands(HOST, &early, None);
        let [command] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((command.leader.pid, command.shell), (20, None));
        assert_eq!(command.command.display_text(), "sleep 300");
    }

    #[test]
    fn a_sandboxed_server_is_not_a_command() {
        let server = [
            marked(30, HOST, &["bwrap", "--", "sh", "-c", "npx server"]),
            marked(31, 30, &["bwrap", "--", "sh", "-c", "npx server"]),
            marked(32, 31, &["sh", "-c", "npx server"]),
            // The server started this sandbox.
            marked(33, 32, &["node", "server.js"]),
            marked(34, 33, &["bwrap", "--", "sh", "-c", "true"]),
            marked(35, 34, &["sh", "-c", "true"]),
        ];
        assert_eq!(sandboxed_commands(HOST, &server, None), []);
        assert_eq!(sandboxed_commands(HOST, &server, Some(31)), []);
        // A sandbox with an unknown text counts as a command if it was not started before the
        // first command.
        let found = sandboxed_commands(HOST, &server, Some(30));
        let [command] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (command.leader.pid, command.command.display_text().as_str()),
            (30, "npx server")
        );
    }

    #[test]
    fn a_parent_cycle_terminates() {
        let mad = [marked(40, 41, &["bwrap"]), marked(41, 40, &["sh"])];
        assert_eq!(sandboxed_commands(HOST, &mad, Some(0)), []);
    }
}
