//! Events that happen while a task has no shim: the next shim records only what it can prove.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use siding_e2e::{Process, RunningProgram, Sandbox, eventually, eventually_some, processes, words};
use siding_model::lifecycle::Phase;
use siding_model::outcome::{LeaderEnd, Outcome};

use crate::state;
use crate::test_tasks::{self, EXIT_CODE, STOP_GRACE, Task, TaskKind};

/// The environment variable that makes this test program act as a subreaper. Its value is the
/// command line that the subreaper runs.
const REAPER_COMMAND_VARIABLE: &str = "CRASHES_REAPER_RUNS";

#[test]
fn leader_death_without_a_shim_leaves_the_task_lingering() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(TaskKind::Stubborn);
    let id = task.start(&sandbox, &[]);
    let [leader, stray] = task.wait_until_running(&sandbox);
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    leader.kill();
    eventually("init has reaped it", || processes::stat(leader.pid).is_none());
    let shown = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    assert!(stray.is_alive());
    eventually("the task is recorded as lingering", || {
        let state = state::journal(&sandbox, &id).expect("a recorded task").state;
        matches!(state.lifecycle.phase(), Phase::Lingering { .. })
    });
    assert_eq!(shown[0]["outcome"], serde_json::Value::Null);
    let stopped =
        sandbox.siding(&["stop", "--json", "--grace", STOP_GRACE, &id]).run().expect_code(0);
    let outcome = state::assert_ended_cleanly(&sandbox, &id);
    assert!(matches!(outcome, Outcome::Lost { .. }), "{outcome}");
    let ended = &stopped.json()["stop_report"]["ended"];
    assert_eq!(ended[0]["pid"], stray.pid, "{stopped}");
}

fn is_child_of(child: Process, parent: Process) -> bool {
    processes::stat(child.pid).is_some_and(|stat| stat.parent == parent.pid)
}

#[test]
fn unrecorded_leader_is_not_confused_with_its_child() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    // Like the leader, the child leads a session or a process group, but it ends with another
    // status, which must not be mistaken for the leader's.
    for child in ["setsid", "setpgid"] {
        let verbs = format!("fork {child} mark child-{child} read-stdin hang -- exit 3");
        let mut run = ["run", "--background", "--json", "--"].map(str::to_owned).to_vec();
        run.extend(sandbox.puppet_argv(&words(&verbs)));
        let (client, id, shim) =
            test_tasks::spawn_until_paused(&sandbox, sandbox.siding(&run), "spawned");
        let child = sandbox.wait_for_mark(&format!("child-{child}"));
        eventually("the leader has ended", || is_child_of(child, shim));
        state::kill_and_wait(shim);
        let _told = client.wait();
        let _kept = state::wait_for_live_shim(&sandbox, &id);
        child.signal(Signal::TERM);
        let outcome = state::wait_for_outcome(&sandbox, &id);
        assert!(state::is_exit_or_lost(&outcome, 3), "{outcome}");
        state::assert_ended_cleanly(&sandbox, &id);
    }
}

#[test]
fn stop_ends_the_child_of_an_unrecorded_leader() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let line = sandbox.puppet_line(&words("--quiet ignore TERM mark left hang"));
    let run = ["run", "--background", "--json", "--", &format!("{line} & exit 3")];
    let (client, id, shim) =
        test_tasks::spawn_until_paused(&sandbox, sandbox.siding(&run), "spawned");
    let leftover = sandbox.wait_for_mark("left");
    eventually("the shell has ended", || is_child_of(leftover, shim));
    state::kill_and_wait(shim);
    let _told = client.wait();
    let stop = ["stop", "--json", "--grace", STOP_GRACE, &id];
    let stopped = sandbox.siding(&stop).run().expect_code(0);
    assert!(!leftover.is_alive(), "{stopped}");
    let outcome = state::assert_ended_cleanly(&sandbox, &id);
    assert!(state::is_exit_or_lost(&outcome, 3), "{outcome}");
}

/// A subreaper that never reaps, so that the orphans that it inherits stay zombies and keep their
/// exit statuses.
struct NonReapingSubreaper {
    process: RunningProgram,
}

impl NonReapingSubreaper {
    /// Starts a subreaper that runs `siding run` with this task. The task's shim stops at the
    /// failpoint `point`.
    fn start_with_task(sandbox: &Sandbox, task: &Task, point: &str) -> Self {
        let own_program = std::env::current_exe().expect("the test program has a path");
        let test_args = ["--exact", "unseen::a_status_that_nobody_took_is_found", "--nocapture"];
        let mut run =
            ["run", "--background", "--grace", STOP_GRACE, "--"].map(str::to_owned).to_vec();
        run.extend(task.command(sandbox));
        let call = sandbox.host(&own_program.display().to_string(), &test_args);
        let call = call.env(REAPER_COMMAND_VARIABLE, sandbox.siding_line(&run)).stdin_pipe();
        Self { process: call.pause_at(point).spawn() }
    }

    /// Acts as the subreaper: runs the command line and then waits until the test kills this
    /// process.
    fn run_as_reaper(line: &OsStr) {
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own)).expect("setting the subreaper succeeded");
        let mut shell = Command::new("sh");
        let client = shell.arg("-c").arg(line).stdout(Stdio::null()).spawn();
        let _done =
            client.expect("`sh` can be started").wait().expect("waiting for the child succeeded");
        let _until_killed = std::io::stdin().lines().count();
    }

    /// Waits until the dead process is a zombie child of the subreaper.
    fn wait_until_reparented(&self, dead: Process) {
        eventually("the zombie is the reaper's child", || {
            let stat = processes::stat(dead.pid);
            stat.is_some_and(|stat| stat.parent == self.process.process().pid && stat.state == 'Z')
        });
    }
}

#[test]
fn a_status_that_nobody_took_is_found() {
    if let Some(line) = std::env::var_os(REAPER_COMMAND_VARIABLE) {
        return NonReapingSubreaper::run_as_reaper(&line);
    }
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(TaskKind::Brief);
    let reaper = NonReapingSubreaper::start_with_task(&sandbox, &task, "running");
    let (id, shim) = state::wait_for_paused_shim(&sandbox, &BTreeSet::new(), "running");
    let leader = eventually_some("the leader has ended", || {
        let leader = state::journal(&sandbox, &id)?.state.leader?.process()?;
        let leader = Process { pid: leader.pid.try_into().ok()?, start: leader.start_ticks };
        (!leader.is_alive()).then_some(leader)
    });
    shim.kill();
    reaper.wait_until_reparented(leader);
    let _waited = sandbox.siding(&["wait", &id]).run().expect_code(EXIT_CODE.into());
    assert_eq!(state::assert_ended_cleanly(&sandbox, &id), Outcome::Exited { code: EXIT_CODE });
}

#[test]
fn late_exit_status_does_not_hide_the_stop_request() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(TaskKind::Stubborn);
    let reaper = NonReapingSubreaper::start_with_task(&sandbox, &task, "killing");
    let [leader, stray] = task.wait_until_running(&sandbox);
    let stopper = sandbox.siding(&["stop", "--all", "--grace", STOP_GRACE]).spawn();
    let (id, shim) = state::wait_for_paused_shim(&sandbox, &BTreeSet::new(), "killing");
    state::kill_and_wait(leader);
    state::kill_and_wait(stray);
    shim.kill();
    reaper.wait_until_reparented(leader);
    let _stopped = stopper.wait().expect_code(0);
    assert_eq!(
        state::assert_ended_cleanly(&sandbox, &id),
        Outcome::Stopped { by: "user".to_owned() }
    );
    let state = state::journal(&sandbox, &id).expect("a recorded task").state;
    assert!(matches!(state.leader_end, Some(LeaderEnd::Signaled { .. })), "{state:?}");
}
