//! Starts the leader of a task: its first process.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use siding_core::net::policy;
use siding_core::processes::cgroup::{self, TaskGroup};
use siding_core::sys::spawn::{self, Leader, Program};
use siding_core::sys::{file, procfs};
use siding_model::journal::TaskState;
use siding_model::limits::OnLimit;
use siding_model::process::LeaderRef;
use siding_model::spec::{TaskCommand, TaskSpec};

use crate::shell_bypass::DirectExec;
use crate::shell_command::{LeaderReporter, ShellCommand};

/// The search path for programs if the environment has no `PATH`, as in glibc's execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The descriptors that the leader inherits, and its marks.
pub(crate) struct LeaderSurroundings<'a> {
    /// The descriptors that become 0, 1 and 2 in the leader.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    /// Whether the first of them is a terminal, which becomes the leader's controlling terminal.
    pub(crate) controls_terminal: bool,
    /// The descriptors that the leader inherits under their present numbers.
    pub(crate) keepalives: &'a [OwnedFd],
    pub(crate) proxy: Option<&'a OwnedFd>,
    /// Whether the leader can get a birthmark.
    pub(crate) can_mark: bool,
}

/// Starts the leader. Returns the leader's identity, and the reporter of its end.
pub(crate) fn start_leader(
    task: &TaskState,
    environment: &[CString],
    surroundings: &LeaderSurroundings<'_>,
) -> io::Result<(LeaderRef, LeaderReporter)> {
    let spec = &task.spec;
    let LeaderSurroundings { keepalives, proxy, can_mark, .. } = surroundings;
    let cwd = file::open_directory(Path::new(&spec.cwd)).map_err(|error| {
        io::Error::new(error.kind(), format!("directory `{}`: {error}", spec.cwd))
    })?;
    // The group is already recorded, so a takeover finds the processes in it. If the group
    // cannot be created, the task runs without one.
    let group = TaskGroup::from_task(task).and_then(|group| group.create().ok());
    if let Some(group) = &group {
        set_memory_limit(spec, group.as_fd());
    }
    let confinement =
        policy::net_sandbox(&spec.net, proxy.map(AsFd::as_fd)).map_err(io::Error::other)?;
    let start = |program: &Program,
                 environment: &[CString],
                 script: Option<&ShellCommand>|
     -> io::Result<LeaderRef> {
        let mut inherited: Vec<_> = keepalives.iter().map(AsFd::as_fd).collect();
        inherited.extend(script.map(ShellCommand::descriptor));
        let pid = spawn::spawn_leader(&Leader {
            program,
            environment,
            cwd: cwd.as_fd(),
            stdio: surroundings.stdio,
            controls_terminal: surroundings.controls_terminal,
            inherited_fds: &inherited,
            birthmark: can_mark.then(|| spec.task_id.birthmark()),
            cgroup: group.as_ref().map(AsFd::as_fd),
            net_sandbox: confinement.as_ref(),
        })?;
        // The leader exists, because this shim has not reaped it yet, but /proc may be unreadable,
        // for example because no descriptor is free.
        Ok(procfs::identify(pid).map_or(LeaderRef::Unidentified { pid }, LeaderRef::from))
    };
    if let Some(DirectExec { path, argv, environment }) = DirectExec::for_task(spec, environment) {
        let program = Program::at_path(&path, &argv).map_err(io::Error::other)?;
        // If the program cannot be executed, bash runs the text, or reports the error in its own
        // words.
        if let Ok(leader) = start(&program, &environment, None) {
            return Ok((leader, LeaderReporter::Direct));
        }
    }
    let path = environment.iter().find_map(|variable| variable.to_bytes().strip_prefix(b"PATH="));
    let path = path.unwrap_or(DEFAULT_PATH.as_bytes());
    let program = |argv: &[String]| Program::new(argv, path).map_err(io::Error::other);
    match &spec.command {
        TaskCommand::Shell { text, shell } => {
            let script = ShellCommand::new(text)?;
            let program = program(&script.argv(shell, text))?;
            let leader = start(&program, environment, Some(&script))?;
            Ok((leader, LeaderReporter::Shell(script)))
        }
        TaskCommand::Argv { argv } => {
            Ok((start(&program(argv)?, environment, None)?, LeaderReporter::Silent))
        }
    }
}

/// Sets the memory limit of the task's control group, for a task that must be stopped at its limit.
/// If that fails, the resource monitor enforces the limit.
fn set_memory_limit(spec: &TaskSpec, group: BorrowedFd<'_>) {
    if spec.limits.memory > 0 && spec.limits.on_limit == OnLimit::Stop {
        let _best_effort =
            cgroup::GroupMemory::at_dir(group).map(|memory| memory.set_limit(spec.limits.memory));
    }
}

/// Returns the text of an error of [`start_leader`]. An error with an errno gets the name of the
/// program.
pub(crate) fn format_spawn_error(spec: &TaskSpec, error: &io::Error) -> String {
    // An error without an errno already has a text for the user; an errno usually comes from
    // execve(2).
    if error.raw_os_error().is_none() {
        return error.to_string();
    }
    let program = match &spec.command {
        TaskCommand::Shell { shell, .. } => shell,
        TaskCommand::Argv { argv } => argv.first().map_or("", String::as_str),
    };
    format!("`{program}`: {error}")
}
