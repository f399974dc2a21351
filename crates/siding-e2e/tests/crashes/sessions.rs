//! Sessions end with their last owner. In these tests an owner is killed, is replaced, loses its
//! main thread, or has a child with copies of its descriptors.

use std::time::{Duration, Instant};

use siding_e2e::{RunningProgram, Sandbox, eventually, words};
use siding_model::outcome::Outcome;

use crate::state;
use crate::test_tasks::{STOP_GRACE, Task, TaskKind};

/// The `session_grace` of these tests: if another owner opens the session again within this time
/// after the exit of the last owner, the tasks continue.
const SESSION_GRACE: &str = "200ms";

/// Starts a puppet that runs `verbs` and owns the session.
fn start_owner(sandbox: &Sandbox, session: &str, verbs: &str) -> RunningProgram {
    let owner = sandbox.puppet(&words(verbs)).spawn();
    open_session(sandbox, session, &owner);
    owner
}

/// Opens a session, or adds an owner to an open one.
fn open_session(sandbox: &Sandbox, session: &str, owner: &RunningProgram) {
    let pid = owner.process().pid.to_string();
    let args = ["session", "open", session, "--owner-pid", &pid];
    let _opened = sandbox.siding(&args).run().expect_code(0);
}

fn start_task(sandbox: &Sandbox, task: &Task, flags: &[&str]) -> String {
    let flags = [&["--background"], flags].concat();
    let run = task.run(sandbox, &flags).env("SIDING_SESSION_GRACE", SESSION_GRACE);
    let id = run.run().expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    task.wait_until_running(sandbox);
    id
}

fn stop_and_check(sandbox: &Sandbox, ids: &[&str]) {
    let _ended =
        sandbox.siding(&[&["stop", "--grace", STOP_GRACE], ids].concat()).run().expect_code(0);
    ids.iter().for_each(|id| drop(state::assert_ended_cleanly(sandbox, id)));
}

#[test]
fn owner_death_ends_only_its_own_unkept_tasks() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let doomed = start_owner(&sandbox, "doomed", "--quiet hang");
    let other = start_owner(&sandbox, "other", "--quiet hang");
    let tasks: Vec<Task> = (0..4).map(|_| Task::new(TaskKind::Stubborn)).collect();
    let orphan = start_task(&sandbox, &tasks[0], &["--session", "doomed"]);
    let kept = start_task(&sandbox, &tasks[1], &["--session", "doomed", "--keep"]);
    let others = start_task(&sandbox, &tasks[2], &["--session", "other"]);
    let free = start_task(&sandbox, &tasks[3], &[]);
    drop(doomed);
    assert_eq!(
        state::wait_for_outcome(&sandbox, &orphan),
        Outcome::Stopped { by: "session".to_owned() }
    );
    state::assert_ended_cleanly(&sandbox, &orphan);
    for id in [&kept, &others, &free] {
        assert_eq!(state::outcome(&sandbox, id), None);
        assert!(state::wait_for_live_shim(&sandbox, id).is_alive());
    }
    stop_and_check(&sandbox, &[&kept, &others, &free]);
    drop(other);
}

#[test]
fn kept_task_lives_to_its_deadline_without_owner() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let owner = start_owner(&sandbox, "s", "--quiet hang");
    let task = Task::new(TaskKind::Stubborn);
    let id = start_task(&sandbox, &task, &["--session", "s", "--keep", "--timeout", "2s"]);
    drop(owner);
    assert_eq!(state::wait_for_outcome(&sandbox, &id), Outcome::Deadline { limit_ms: 2_000 });
    state::assert_ended_cleanly(&sandbox, &id);
}

#[test]
fn owner_is_alive_while_any_of_its_threads_is() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    // The main thread exits while a second thread runs, as in a host that calls siding from a
    // thread.
    let verbs = words("--quiet read-stdin leader-exits mark second hang");
    let mut owner = sandbox.puppet(&verbs).stdin_pipe().spawn();
    open_session(&sandbox, "threads", &owner);
    let task = Task::new(TaskKind::Stubborn);
    let id = start_task(&sandbox, &task, &["--session", "threads"]);
    owner.close_stdin();
    sandbox.wait_for_mark("second");
    let outlasts_the_grace = || {
        let since = Instant::now();
        eventually("the grace is over", || since.elapsed() > Duration::from_millis(500));
        assert_eq!(
            state::outcome(&sandbox, &id),
            None,
            "the session ended with a thread of its owner"
        );
    };
    outlasts_the_grace();
    open_session(&sandbox, "threads", &owner);
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    outlasts_the_grace();
    drop(owner);
    assert_eq!(
        state::wait_for_outcome(&sandbox, &id),
        Outcome::Stopped { by: "session".to_owned() }
    );
    state::assert_ended_cleanly(&sandbox, &id);
}

#[test]
fn child_with_the_owners_descriptors_is_not_the_owner() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let owner = start_owner(&sandbox, "tools", "--quiet fork setsid mark tool hang -- hang");
    let tool = sandbox.wait_for_mark("tool");
    let task = Task::new(TaskKind::Stubborn);
    let id = start_task(&sandbox, &task, &["--session", "tools"]);
    drop(owner);
    assert_eq!(
        state::wait_for_outcome(&sandbox, &id),
        Outcome::Stopped { by: "session".to_owned() }
    );
    state::assert_ended_cleanly(&sandbox, &id);
    assert!(tool.is_alive(), "the host's own process must survive");
    state::kill_and_wait(tool);
}

#[test]
fn new_owner_within_the_grace_keeps_the_tasks() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let first = start_owner(&sandbox, "s", "--quiet hang");
    let second = sandbox.puppet(&words("--quiet hang")).spawn();
    let task = Task::new(TaskKind::Stubborn);
    let long = ["--background", "--session", "s"];
    let run = task.run(&sandbox, &long).env("SIDING_SESSION_GRACE", "2s").run();
    let id = run.expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    task.wait_until_running(&sandbox);
    drop(first);
    open_session(&sandbox, "s", &second);
    let since = Instant::now();
    eventually("the first grace is over", || since.elapsed() > Duration::from_millis(2_500));
    assert_eq!(state::outcome(&sandbox, &id), None, "the new owner must keep the task alive");
    drop(second);
    assert_eq!(
        state::wait_for_outcome(&sandbox, &id),
        Outcome::Stopped { by: "session".to_owned() }
    );
    state::assert_ended_cleanly(&sandbox, &id);
}

/// A session with two owners ends when both owners have exited, in either order.
#[test]
fn session_with_two_owners_ends_with_the_last() {
    for newest_first in [true, false] {
        let mut sandbox = Sandbox::new();
        sandbox.expect_clean();
        let first = start_owner(&sandbox, "s", "--quiet hang");
        let tasks = [Task::new(TaskKind::Stubborn), Task::new(TaskKind::Stubborn)];
        let before = start_task(&sandbox, &tasks[0], &["--session", "s"]);
        let second = start_owner(&sandbox, "s", "--quiet hang");
        let after = start_task(&sandbox, &tasks[1], &["--session", "s"]);
        let (leaves, stays) = if newest_first { (second, first) } else { (first, second) };
        drop(leaves);
        let since = Instant::now();
        eventually("the grace is over", || since.elapsed() > Duration::from_millis(500));
        for id in [&before, &after] {
            assert_eq!(state::outcome(&sandbox, id), None, "the other owner is alive");
        }
        let list = sandbox.siding(&["session", "list", "--json"]).run().expect_code(0).json();
        assert_eq!(list[0]["state"], "live");
        assert_eq!(list[0]["owner_pid"], stays.process().pid);
        let run = ["run", "--session", "s", "--", "true"];
        let _still_open = sandbox.siding(&run).run().expect_code(0);
        drop(stays);
        for id in [&before, &after] {
            assert_eq!(
                state::wait_for_outcome(&sandbox, id),
                Outcome::Stopped { by: "session".to_owned() }
            );
            state::assert_ended_cleanly(&sandbox, id);
        }
    }
}

#[test]
fn takeover_detects_an_owner_that_died_with_the_shim() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let owner = start_owner(&sandbox, "s", "--quiet hang");
    let tasks = [Task::new(TaskKind::Stubborn), Task::new(TaskKind::Stubborn)];
    let orphan = start_task(&sandbox, &tasks[0], &["--session", "s"]);
    let kept = start_task(&sandbox, &tasks[1], &["--session", "s", "--keep"]);
    for id in [&orphan, &kept] {
        state::kill_and_wait(state::wait_for_live_shim(&sandbox, id));
    }
    drop(owner);
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    assert_eq!(
        state::wait_for_outcome(&sandbox, &orphan),
        Outcome::Stopped { by: "session".to_owned() }
    );
    state::assert_ended_cleanly(&sandbox, &orphan);
    assert_eq!(state::outcome(&sandbox, &kept), None);
    stop_and_check(&sandbox, &[&kept]);
}
