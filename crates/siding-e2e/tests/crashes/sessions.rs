//! Sessions whose owner is killed, and those whose owner only seems to be.

use std::time::{Duration, Instant};

use siding_e2e::{RunningProgram, Sandbox, eventually, words};
use siding_model::outcome::Outcome;

use crate::state;
use crate::tasks::{GRACE, Kind, Task};

/// Time in which a resumed conversation may take over.
const SESSION_GRACE: &str = "200ms";

/// Starts a host that owns a session.
fn owner(sandbox: &Sandbox, session: &str, verbs: &str) -> RunningProgram {
    let owner = sandbox.puppet(&words(verbs)).spawn();
    take_over(sandbox, session, &owner);
    owner
}

/// Opens a session, or hands it over.
fn take_over(sandbox: &Sandbox, session: &str, owner: &RunningProgram) {
    let pid = owner.process().pid.to_string();
    let args = ["session", "open", session, "--owner-pid", &pid];
    let _opened = sandbox.siding(&args).run().expect_code(0);
}

fn start(sandbox: &Sandbox, task: &Task, flags: &[&str]) -> String {
    let flags = [&["--background"], flags].concat();
    let run = task.run(sandbox, &flags).env("SIDING_SESSION_GRACE", SESSION_GRACE);
    let id = run.run().expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    task.stands(sandbox);
    id
}

fn end(sandbox: &Sandbox, ids: &[&str]) {
    let _ended = sandbox.siding(&[&["stop", "--grace", GRACE], ids].concat()).run().expect_code(0);
    ids.iter().for_each(|id| drop(state::assert_over(sandbox, id)));
}

#[test]
fn the_tasks_of_a_killed_owner_end_and_nobody_elses() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let doomed = owner(&sandbox, "doomed", "--quiet hang");
    let other = owner(&sandbox, "other", "--quiet hang");
    let tasks: Vec<Task> = (0..4).map(|_| Task::new(Kind::Stubborn)).collect();
    let orphan = start(&sandbox, &tasks[0], &["--session", "doomed"]);
    let kept = start(&sandbox, &tasks[1], &["--session", "doomed", "--keep"]);
    let others = start(&sandbox, &tasks[2], &["--session", "other"]);
    let free = start(&sandbox, &tasks[3], &[]);
    drop(doomed);
    assert_eq!(state::ended(&sandbox, &orphan), Outcome::Stopped { by: "session".to_owned() });
    state::assert_over(&sandbox, &orphan);
    for id in [&kept, &others, &free] {
        assert_eq!(state::outcome(&sandbox, id), None);
        assert!(state::keeper(&sandbox, id).is_alive());
    }
    end(&sandbox, &[&kept, &others, &free]);
    drop(other);
}

#[test]
fn a_kept_task_lives_to_its_deadline() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let owner = owner(&sandbox, "s", "--quiet hang");
    let task = Task::new(Kind::Stubborn);
    let id = start(&sandbox, &task, &["--session", "s", "--keep", "--timeout", "900ms"]);
    drop(owner);
    assert_eq!(state::ended(&sandbox, &id), Outcome::Deadline { limit_ms: 900 });
    state::assert_over(&sandbox, &id);
}

#[test]
fn an_owner_is_dead_only_when_all_of_it_is() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    // Its main thread leaves, as the thread of a host that had started siding may.
    let verbs = words("--quiet read-stdin leader-exits mark second hang");
    let mut owner = sandbox.puppet(&verbs).stdin_pipe().spawn();
    take_over(&sandbox, "threads", &owner);
    let task = Task::new(Kind::Stubborn);
    let id = start(&sandbox, &task, &["--session", "threads"]);
    owner.close_stdin();
    sandbox.wait_for_mark("second");
    let outlasts_the_grace = || {
        let since = Instant::now();
        eventually("the grace is over", || since.elapsed() > Duration::from_millis(500));
        assert_eq!(state::outcome(&sandbox, &id), None, "a thread is not the owner");
    };
    outlasts_the_grace();
    take_over(&sandbox, "threads", &owner);
    state::kill(state::keeper(&sandbox, &id));
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    outlasts_the_grace();
    drop(owner);
    assert_eq!(state::ended(&sandbox, &id), Outcome::Stopped { by: "session".to_owned() });
    state::assert_over(&sandbox, &id);
}

#[test]
fn a_child_that_holds_all_of_the_owners_descriptors_is_not_the_owner() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let owner = owner(&sandbox, "tools", "--quiet fork setsid mark tool hang -- hang");
    let tool = sandbox.wait_for_mark("tool");
    let task = Task::new(Kind::Stubborn);
    let id = start(&sandbox, &task, &["--session", "tools"]);
    drop(owner);
    assert_eq!(state::ended(&sandbox, &id), Outcome::Stopped { by: "session".to_owned() });
    state::assert_over(&sandbox, &id);
    assert!(tool.is_alive(), "what the host started without siding is its own affair");
    state::kill(tool);
}

#[test]
fn a_resumed_session_takes_over_within_the_grace() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let first = owner(&sandbox, "s", "--quiet hang");
    let task = Task::new(Kind::Stubborn);
    let long = ["--background", "--session", "s"];
    let run = task.run(&sandbox, &long).env("SIDING_SESSION_GRACE", "1500ms").run();
    let id = run.expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    task.stands(&sandbox);
    drop(first);
    let second = sandbox.puppet(&words("--quiet hang")).spawn();
    take_over(&sandbox, "s", &second);
    let since = Instant::now();
    eventually("the first grace is over", || since.elapsed() > Duration::from_millis(2_000));
    assert_eq!(state::outcome(&sandbox, &id), None, "somebody took over in time");
    drop(second);
    assert_eq!(state::ended(&sandbox, &id), Outcome::Stopped { by: "session".to_owned() });
    state::assert_over(&sandbox, &id);
}

/// A conversation that is open in two processes is over when both have ended, in whichever order.
#[test]
fn a_session_with_two_owners_ends_with_the_last_of_them() {
    for newest_first in [true, false] {
        let mut sandbox = Sandbox::new();
        sandbox.expect_clean();
        let first = owner(&sandbox, "s", "--quiet hang");
        let tasks = [Task::new(Kind::Stubborn), Task::new(Kind::Stubborn)];
        let before = start(&sandbox, &tasks[0], &["--session", "s"]);
        let second = owner(&sandbox, "s", "--quiet hang");
        let after = start(&sandbox, &tasks[1], &["--session", "s"]);
        let (leaves, stays) = if newest_first { (second, first) } else { (first, second) };
        drop(leaves);
        let since = Instant::now();
        eventually("the grace is over", || since.elapsed() > Duration::from_millis(500));
        for id in [&before, &after] {
            assert_eq!(state::outcome(&sandbox, id), None, "the other owner lives");
        }
        let list = sandbox.siding(&["session", "list", "--json"]).run().expect_code(0).json();
        assert_eq!(list[0]["state"], "live");
        assert_eq!(list[0]["owner_pid"], stays.process().pid);
        let run = ["run", "--session", "s", "--", "true"];
        let _still_open = sandbox.siding(&run).run().expect_code(0);
        drop(stays);
        for id in [&before, &after] {
            assert_eq!(state::ended(&sandbox, id), Outcome::Stopped { by: "session".to_owned() });
            state::assert_over(&sandbox, id);
        }
    }
}

#[test]
fn an_owner_that_died_together_with_the_shim_is_missed_by_the_rescuer() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let owner = owner(&sandbox, "s", "--quiet hang");
    let tasks = [Task::new(Kind::Stubborn), Task::new(Kind::Stubborn)];
    let orphan = start(&sandbox, &tasks[0], &["--session", "s"]);
    let kept = start(&sandbox, &tasks[1], &["--session", "s", "--keep"]);
    for id in [&orphan, &kept] {
        state::kill(state::keeper(&sandbox, id));
    }
    drop(owner);
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    assert_eq!(state::ended(&sandbox, &orphan), Outcome::Stopped { by: "session".to_owned() });
    state::assert_over(&sandbox, &orphan);
    assert_eq!(state::outcome(&sandbox, &kept), None);
    end(&sandbox, &[&kept]);
}
