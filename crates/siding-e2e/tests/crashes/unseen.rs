//! What a task did while nobody kept it: the next shim tells what it knows, and no more.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use siding_e2e::{Process, RunningProgram, Sandbox, eventually, eventually_some, processes, words};
use siding_model::lifecycle::Phase;
use siding_model::outcome::{LeaderEnd, Outcome};

use crate::state;
use crate::tasks::{self, CODE, GRACE, Kind, Task};

/// Tells the copy of this program that plays the reaper what to run.
const REAPER_RUNS: &str = "CRASHES_REAPER_RUNS";

#[test]
fn a_leader_that_ended_unseen_leaves_a_task_that_lingers() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Stubborn);
    let id = task.start(&sandbox, &[]);
    let [leader, stray] = task.stands(&sandbox);
    state::kill(state::keeper(&sandbox, &id));
    leader.kill();
    eventually("init has taken its status away", || processes::stat(leader.pid).is_none());
    let shown = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    assert!(stray.is_alive());
    eventually("it is known to linger", || {
        let state = state::journal(&sandbox, &id).expect("recorded").state;
        matches!(state.lifecycle.phase(), Phase::Lingering { .. })
    });
    assert_eq!(shown[0]["outcome"], serde_json::Value::Null);
    let stopped = sandbox.siding(&["stop", "--json", "--grace", GRACE, &id]).run().expect_code(0);
    let outcome = state::assert_over(&sandbox, &id);
    assert!(matches!(outcome, Outcome::Lost { .. }), "{outcome}");
    let ended = &stopped.json()["stop_report"]["ended"];
    assert_eq!(ended[0]["pid"], stray.pid, "{stopped}");
}

fn is_child_of(child: Process, parent: Process) -> bool {
    processes::stat(child.pid).is_some_and(|stat| stat.parent == parent.pid)
}

#[test]
fn a_leader_nobody_noted_is_not_mixed_up_with_what_it_left() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    // The child looks like its parent, leads a session as its parent does, and ends otherwise.
    for child in ["setsid", "setpgid"] {
        let verbs = format!("fork {child} mark child-{child} read-stdin hang -- exit 3");
        let mut run = ["run", "--background", "--json", "--"].map(str::to_owned).to_vec();
        run.extend(sandbox.puppet_argv(&words(&verbs)));
        let (client, id, shim) = tasks::pause(&sandbox, sandbox.siding(&run), "spawned");
        let child = sandbox.wait_for_mark(&format!("child-{child}"));
        eventually("the leader has ended", || is_child_of(child, shim));
        state::kill(shim);
        let _told = client.wait();
        let _kept = state::keeper(&sandbox, &id);
        child.signal(Signal::TERM);
        let outcome = state::ended(&sandbox, &id);
        assert!(state::is_true_or_lost(&outcome, 3), "{outcome}");
        state::assert_over(&sandbox, &id);
    }
}

#[test]
fn a_stop_ends_what_a_leader_left_that_nobody_noted() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let line = sandbox.puppet_line(&words("--quiet ignore TERM mark left hang"));
    let run = ["run", "--background", "--json", "--", &format!("{line} & exit 3")];
    let (client, id, shim) = tasks::pause(&sandbox, sandbox.siding(&run), "spawned");
    let left = sandbox.wait_for_mark("left");
    eventually("the shell has ended", || is_child_of(left, shim));
    state::kill(shim);
    let _told = client.wait();
    let stop = ["stop", "--json", "--grace", GRACE, &id];
    let stopped = sandbox.siding(&stop).run().expect_code(0);
    assert!(!left.is_alive(), "{stopped}");
    let outcome = state::assert_over(&sandbox, &id);
    assert!(state::is_true_or_lost(&outcome, 3), "{outcome}");
}

/// A host that takes in orphans and never reaps them, so that their statuses stay where they are.
struct Reaper {
    process: RunningProgram,
}

impl Reaper {
    /// Starts one that runs a task.
    fn running(sandbox: &Sandbox, task: &Task, point: &str) -> Self {
        let own_program = std::env::current_exe().expect("a test has a program");
        let play = ["--exact", "unseen::a_status_that_nobody_took_is_found", "--nocapture"];
        let mut run = ["run", "--background", "--grace", GRACE, "--"].map(str::to_owned).to_vec();
        run.extend(task.command(sandbox));
        let call = sandbox.host(&own_program.display().to_string(), &play);
        let call = call.env(REAPER_RUNS, sandbox.siding_line(&run)).stdin_pipe();
        Self { process: call.pause_at(point).spawn() }
    }

    /// Is the reaper, in a copy of this program: runs the line and waits to be killed.
    fn play(line: &OsStr) {
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own)).expect("anybody may");
        let mut shell = Command::new("sh");
        let client = shell.arg("-c").arg(line).stdout(Stdio::null()).spawn();
        let _done = client.expect("there is a shell").wait().expect("an own child");
        let _until_killed = std::io::stdin().lines().count();
    }

    /// Waits until it has a dead process.
    fn has(&self, dead: Process) {
        eventually("the dead is the reaper's", || {
            let stat = processes::stat(dead.pid);
            stat.is_some_and(|stat| stat.parent == self.process.process().pid && stat.state == 'Z')
        });
    }
}

#[test]
fn a_status_that_nobody_took_is_found() {
    if let Some(line) = std::env::var_os(REAPER_RUNS) {
        return Reaper::play(&line);
    }
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Brief);
    let reaper = Reaper::running(&sandbox, &task, "running");
    let (id, shim) = state::paused(&sandbox, &BTreeSet::new(), "running");
    let leader = eventually_some("the leader has ended", || {
        let leader = state::journal(&sandbox, &id)?.state.leader?.process()?;
        let leader = Process { pid: leader.pid.try_into().ok()?, start: leader.start_ticks };
        (!leader.is_alive()).then_some(leader)
    });
    shim.kill();
    reaper.has(leader);
    let _waited = sandbox.siding(&["wait", &id]).run().expect_code(0);
    assert_eq!(state::assert_over(&sandbox, &id), Outcome::Exited { code: CODE });
}

#[test]
fn a_status_that_comes_after_the_kill_does_not_hide_who_asked_for_it() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Stubborn);
    let reaper = Reaper::running(&sandbox, &task, "killing");
    let [leader, stray] = task.stands(&sandbox);
    let stopper = sandbox.siding(&["stop", "--all", "--grace", GRACE]).spawn();
    let (id, shim) = state::paused(&sandbox, &BTreeSet::new(), "killing");
    state::kill(leader);
    state::kill(stray);
    shim.kill();
    reaper.has(leader);
    let _stopped = stopper.wait().expect_code(0);
    assert_eq!(state::assert_over(&sandbox, &id), Outcome::Stopped { by: "user".to_owned() });
    let state = state::journal(&sandbox, &id).expect("recorded").state;
    assert!(matches!(state.leader_end, Some(LeaderEnd::Signaled { .. })), "{state:?}");
}
