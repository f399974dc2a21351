//! `siding release` ends the supervision of an adopted process, which continues to run.

use serde_json::json;
use siding_e2e::{Sandbox, eventually, processes, words};

use crate::support::{
    recorded_shell, sandbox, show_task, start_recorded, wait_until_ended, wait_until_no_shims,
};

/// Kills the released puppets with these marks, because siding no longer stops them.
fn kill_marked(sandbox: &Sandbox, marks: &[&str]) {
    for mark in marks {
        sandbox.wait_for_mark(mark).kill();
    }
}

/// Promise P85: a released process and its children survive the deadline and the reaper, and the
/// task is recorded as released.
#[test]
fn released_process_continues_and_is_recorded() {
    let sandbox = sandbox();
    let verbs = words("fork setsid mark child hang -- mark up hang");
    let line = format!("exec {}", sandbox.puppet_line(&verbs));
    let shell =
        recorded_shell(&sandbox, &line).env("SIDING_MAX_ELAPSED", "5s").env("SIDING_SESSION", "");
    let task = start_recorded(&sandbox, shell);
    let (up, child) = (sandbox.wait_for_mark("up"), sandbox.wait_for_mark("child"));
    let released = sandbox.siding(&["release", &task.id]).run().expect_code(0);
    assert!(released.stdout_text().contains("is released"), "{released}");
    assert!(
        released.stdout_text().contains(&up.pid.to_string()),
        "the running process is not named: {released}"
    );
    wait_until_no_shims(&sandbox);
    let view = show_task(&sandbox, &task.id);
    assert_eq!(view["outcome"], json!({ "kind": "released", "by": "user" }));
    assert_eq!((&view["phase"], &view["deadline_at"]), (&json!("ended"), &json!(null)));
    let started = std::time::Instant::now();
    eventually("the deadline would have passed", || started.elapsed().as_secs() >= 5);
    for args in [&["reap", "--json", "--dry-run"][..], &["reap", "--json"]] {
        let reaped = sandbox.siding(args).run().expect_code(0).stdout_text();
        assert!(!reaped.contains("stray"), "{reaped}");
    }
    for process in [up, child] {
        assert!(processes::is_alive(process.pid, process.start), "{process:?} was ended");
    }
    let again = sandbox.siding(&["adopt", &up.pid.to_string()]).run().expect_code(125);
    assert!(again.stderr_text().contains("was released from task"), "{again}");
    let _released_again = sandbox.siding(&["release", &task.id]).run().expect_code(0);
    let listed = sandbox.siding(&["ps", "--all"]).run().expect_code(0);
    assert!(listed.stdout_text().contains("released"), "{listed}");
    kill_marked(&sandbox, &["up", "child"]);
    let _ended = task.shell.wait();
}

/// Promise P85: a released process survives the end of its session, and the agent receives a notice
/// of the release.
#[test]
fn released_process_survives_its_session() {
    let sandbox = sandbox();
    let owner = sandbox.host("sleep", &["300"]).spawn();
    let pid = owner.process().pid.to_string();
    let open = ["session", "open", "chat", "--owner-pid", &pid];
    let _open = sandbox.siding(&open).run().expect_code(0);
    let line = format!("exec {}", sandbox.puppet_line(&words("mark up hang")));
    let task =
        start_recorded(&sandbox, recorded_shell(&sandbox, &line).env("SIDING_SESSION", "chat"));
    let up = sandbox.wait_for_mark("up");
    assert_eq!(show_task(&sandbox, &task.id)["session_id"], "chat");
    let json = sandbox.siding(&["release", "--json", &task.id]).run().expect_code(0).json();
    assert_eq!(json["outcome"]["kind"], "released");
    let notices = sandbox.siding(&["notices", "--json", "--session", "chat"]).run().expect_code(0);
    assert_eq!(notices.json()[0]["status"], "released", "{notices}");
    let _closed = sandbox.siding(&["session", "close", "chat"]).run().expect_code(0);
    assert!(processes::is_alive(up.pid, up.start));
    owner.process().kill();
    kill_marked(&sandbox, &["up"]);
    let (_owner, _shell) = (owner.wait(), task.shell.wait());
}

/// Only an adopted task that is not being stopped can be released.
#[test]
fn only_a_running_adopted_task_can_be_released() {
    let sandbox = sandbox();
    let argv = sandbox.puppet_argv(&["hang"]);
    let args: Vec<&str> = argv.iter().map(String::as_str).collect();
    let run = [&["run", "--background", "--json", "--"], args.as_slice()].concat();
    let id = sandbox.siding(&run).run().expect_code(0).json()["task_id"].clone();
    let id = id.as_str().expect("an id");
    let refused = sandbox.siding(&["release", id]).run().expect_code(125);
    assert!(refused.stderr_text().contains("siding started it"), "{refused}");
    assert_eq!(show_task(&sandbox, id)["phase"], "running");
    let _ended = sandbox.siding(&["stop", id]).run().expect_code(0);
    let line = format!("exec {}", sandbox.puppet_line(&words("ignore TERM mark deaf hang")));
    let task =
        start_recorded(&sandbox, recorded_shell(&sandbox, &line).env("SIDING_KILL_GRACE", "5s"));
    let _deaf = sandbox.wait_for_mark("deaf");
    let stopping = sandbox.siding(&["stop", &task.id]).spawn();
    eventually("the stop has begun", || show_task(&sandbox, &task.id)["phase"] == "stopping");
    let refused = sandbox.siding(&["release", &task.id]).run().expect_code(125);
    assert!(refused.stderr_text().contains("being stopped"), "{refused}");
    let _stopped = stopping.wait().expect_code(0);
    assert_eq!(wait_until_ended(&sandbox, &task.id)["outcome"]["kind"], "stopped");
    let _ended = task.shell.wait();
}
