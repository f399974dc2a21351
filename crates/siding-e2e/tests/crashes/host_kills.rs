//! A task continues when the host kills the processes of the shell tool that started the task, in
//! whatever way it kills them (promise P20).

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};

use siding_e2e::{Process, RunningProgram, Sandbox, eventually, eventually_some, processes};
use siding_model::outcome::{BackgroundReason, Outcome, Placement};

use crate::state;
use crate::test_tasks::{STOP_GRACE, Task, TaskKind};

/// The processes that a host kills when it ends the shell of its shell tool.
#[derive(Debug, Clone, Copy)]
enum KillScope {
    /// The shell's process group.
    ProcessGroup,
    /// All processes in the shell's session.
    Session,
    /// The shell and its descendants.
    Tree,
}

/// Returns the shell and the processes that a host kills together with the shell. Lists the
/// processes of the machine only once. With one listing per process, this function took longer on a
/// busy machine than the minute for which a puppet lives.
fn processes_in_scope(shell: Process, scope: KillScope) -> Vec<Process> {
    let own = processes::stat(shell.pid).expect("the shell is alive");
    let with = |is_one: fn(&processes::Stat, &processes::Stat) -> bool| {
        let is_in_scope = |pid: &u32| processes::stat(*pid).is_some_and(|stat| is_one(&stat, &own));
        processes::list_pids().into_iter().filter(is_in_scope).collect::<Vec<_>>()
    };
    let pids = match scope {
        KillScope::ProcessGroup => with(|stat, own| stat.group == own.group),
        KillScope::Session => with(|stat, own| stat.session == own.session),
        KillScope::Tree => [vec![shell.pid], processes::descendants(shell.pid)].concat(),
    };
    pids.into_iter().filter_map(Process::from_pid).collect()
}

/// Starts a shell that leads its own session and runs the text `before` and then the task in the
/// foreground.
fn start_shell_with_task(sandbox: &Sandbox, task: &Task, before: &str) -> RunningProgram {
    let mut run = ["run", "--budget", "none", "--json", "--grace", STOP_GRACE, "--"]
        .map(str::to_owned)
        .to_vec();
    run.extend(task.command(sandbox));
    // Because of the trailing `true`, bash forks the command instead of replacing itself with exec.
    let line = format!("{before}{}; true", sandbox.siding_line(&run));
    sandbox.host("setsid", &["--wait", "bash", "-c", &line]).spawn()
}

/// Waits until the siding client runs, and returns the tool's shell and the client below that
/// shell.
fn wait_for_shell_and_client(host: &RunningProgram) -> (Process, Process) {
    eventually_some("the client runs", || {
        let below = processes::descendants(host.process().pid);
        let named = |name: &str| {
            let found = below.iter().find(|pid| processes::comm(**pid).starts_with(name))?;
            Process::from_pid(*found)
        };
        Some((named("bash")?, named("siding-under-t")?))
    })
}

fn only_task(sandbox: &Sandbox) -> String {
    let tasks = state::task_ids(sandbox);
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    tasks.into_iter().next().expect("a process in scope")
}

/// Asserts that the task continues in the background under the same shim, then stops the task.
fn assert_continues_then_stop(sandbox: &Sandbox, task: [Process; 2], shim: Process) {
    let id = only_task(sandbox);
    let background = Placement::Background { why: BackgroundReason::User };
    eventually("the task is recorded without a waiting caller", || {
        let state = state::journal(sandbox, &id).expect("a recorded task").state;
        state.lifecycle.placement() == background
    });
    assert!(shim.is_alive());
    assert!(task.iter().all(|process| process.is_alive()));
    assert_eq!(state::journal(sandbox, &id).expect("a recorded task").state.takeovers, 0);
    let _stopped = sandbox.siding(&["stop", "--grace", STOP_GRACE, &id]).run().expect_code(0);
    assert_eq!(
        state::assert_ended_cleanly(sandbox, &id),
        Outcome::Stopped { by: "user".to_owned() }
    );
}

#[test]
fn killing_the_tools_shell_spares_the_task() {
    for scope in [KillScope::ProcessGroup, KillScope::Session, KillScope::Tree] {
        let mut sandbox = Sandbox::new();
        sandbox.expect_clean();
        let task = Task::new(TaskKind::Stubborn);
        let host = start_shell_with_task(&sandbox, &task, "");
        let processes = task.wait_until_running(&sandbox);
        let shim = state::wait_for_live_shim(&sandbox, &only_task(&sandbox));
        let (shell, client) = wait_for_shell_and_client(&host);
        let victims = processes_in_scope(shell, scope);
        assert!(victims.contains(&client), "{scope:?} does not reach the client");
        victims.iter().for_each(|victim| victim.kill());
        let _gone = host.wait();
        eventually("the client is dead", || !client.is_alive());
        assert_continues_then_stop(&sandbox, processes, shim);
    }
}

#[test]
fn terminal_hangup_ends_the_client_but_not_the_task() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let (terminal, name) = open_pty();
    let task = Task::new(TaskKind::Stubborn);
    // A session leader without a controlling terminal acquires the terminal that it opens
    // (tty_ioctl(4)).
    let host = start_shell_with_task(&sandbox, &task, &format!("exec <{name} >{name} 2>&1; "));
    let processes = task.wait_until_running(&sandbox);
    let shim = state::wait_for_live_shim(&sandbox, &only_task(&sandbox));
    let (shell, client) = wait_for_shell_and_client(&host);
    drop(terminal);
    eventually("shell and client have exited", || !shell.is_alive() && !client.is_alive());
    assert_continues_then_stop(&sandbox, processes, shim);
    drop(host);
}

/// Opens a new pseudoterminal and returns its master side and the name of its slave side.
fn open_pty() -> (OwnedFd, String) {
    let master =
        File::options().read(true).write(true).open("/dev/ptmx").expect("/dev/ptmx can be opened");
    let mut number: libc::c_uint = 0;
    let mut locked: libc::c_int = 0;
    // SAFETY: `master` is open, and each request accesses only the integer to which it receives a
    // pointer and which lives until the call returns.
    let done = unsafe {
        let fd = master.as_raw_fd();
        libc::ioctl(fd, libc::TIOCSPTLCK, &raw mut locked)
            | libc::ioctl(fd, libc::TIOCGPTN, &raw mut number)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    (master.into(), format!("/dev/pts/{number}"))
}
