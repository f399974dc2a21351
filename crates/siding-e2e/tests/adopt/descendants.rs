//! The exit of a host ends the descendants of its adopted commands, however they were detached.

use rustix::process::Signal;
use serde_json::json;
use siding_e2e::processes::state;
use siding_e2e::{Process, RunningProgram, Sandbox, eventually, eventually_some, words};

use crate::support::{
    adopted_shell, journal, list_tasks, recorded_shell, sandbox, shims, show_task, start_recorded,
    wait_until_ended, wait_until_no_shims,
};

/// Returns a script that detaches a child from the shell in each of the ways that agents' commands
/// use (failures F7, F11 and F12), and the marks of these children.
fn detaching_children(sandbox: &Sandbox) -> (String, [&'static str; 5]) {
    let puppet = |verbs: &str| sandbox.puppet_line(&words(verbs));
    let text = [
        format!("{} &", puppet("--quiet mark plain hang")),
        format!("setsid {} &", puppet("--quiet mark setsid hang")),
        format!("nohup {} >/dev/null 2>&1 &", puppet("--quiet mark nohup hang")),
        format!(
            "(env -i setsid {} </dev/null >/dev/null 2>&1 &)",
            puppet("--quiet mark cleared hang")
        ),
        format!("{} | cat &", puppet("--quiet daemon mark daemon hang")),
    ];
    (text.join("\n"), ["plain", "setsid", "nohup", "cleared", "daemon"])
}

fn marked_processes(sandbox: &Sandbox, names: [&str; 5]) -> Vec<Process> {
    names.map(|name| sandbox.wait_for_mark(name)).to_vec()
}

/// Starts a host that owns a session with this name.
#[track_caller]
fn spawn_session_owner(sandbox: &Sandbox, session: &str) -> RunningProgram {
    let host = sandbox.puppet(&["hang"]).spawn();
    let owner = host.process().pid.to_string();
    let open = ["session", "open", session, "--owner-pid", &owner];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    host
}

/// Failure F11: when the host is killed, every process of its adopted command ends after
/// `session_grace`.
#[test]
fn host_end_stops_everything_its_commands_started() {
    let sandbox = sandbox();
    let host = spawn_session_owner(&sandbox, "chat");
    let (script, names) = detaching_children(&sandbox);
    let call = recorded_shell(&sandbox, &format!("{script}\nsleep 60"));
    let call = call.env("SIDING_SESSION", "chat").env("SIDING_SESSION_GRACE", "100ms");
    let recorded = start_recorded(&sandbox, call);
    let processes = marked_processes(&sandbox, names);
    assert_eq!(show_task(&sandbox, &recorded.id)["session_id"], "chat");
    host.process().kill();
    eventually("all have exited", || processes.iter().all(|process| !process.is_alive()));
    let _signalled = recorded.shell.wait();
    let view = wait_until_ended(&sandbox, &recorded.id);
    assert_eq!(view["outcome"], json!({"kind": "stopped", "by": "session"}));
    wait_until_no_shims(&sandbox);
}

/// Promise P82: the host is killed before the command is recorded. The end of the host makes the
/// shim record the task and end its processes.
#[test]
fn host_end_is_detected_before_the_task_is_recorded() {
    let sandbox = sandbox();
    let host = spawn_session_owner(&sandbox, "chat");
    let (script, names) = detaching_children(&sandbox);
    let call = adopted_shell(&sandbox, &format!("{script}\nsleep 60"));
    let call = call.env("SIDING_ADOPT_KEEP_AFTER", "1h").env("SIDING_SESSION", "chat");
    let call = call.env("SIDING_SESSION_GRACE", "100ms");
    let shell = call.spawn();
    let processes = marked_processes(&sandbox, names);
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
    host.process().kill();
    eventually("all have exited", || processes.iter().all(|process| !process.is_alive()));
    let _signalled = shell.wait();
    wait_until_no_shims(&sandbox);
    assert_eq!(list_tasks(&sandbox).len(), 1);
}

/// Promise P82: the host is killed after the command was marked and before a shim supervises it.
/// The shim still detects the end of the host and stops the command.
#[test]
fn host_end_during_adoption_is_detected() {
    let sandbox = sandbox();
    let host = spawn_session_owner(&sandbox, "chat");
    let (script, names) = detaching_children(&sandbox);
    let call = adopted_shell(&sandbox, &format!("{script}\nsleep 60")).pause_at("adopted");
    let call = call.env("SIDING_ADOPT_KEEP_AFTER", "1h").env("SIDING_SESSION", "chat");
    let shell = call.env("SIDING_SESSION_GRACE", "100ms").spawn();
    let processes = marked_processes(&sandbox, names);
    let shim = eventually_some("the shim is paused", || {
        shims(&sandbox).into_iter().find(|shim| state(shim.pid) == Some('T'))
    });
    drop(host);
    shim.signal(Signal::CONT);
    eventually("all have exited", || processes.iter().all(|process| !process.is_alive()));
    let _signalled = shell.wait();
    wait_until_no_shims(&sandbox);
    let [task] = &list_tasks(&sandbox)[..] else { panic!("{:#?}", list_tasks(&sandbox)) };
    assert_eq!(task["outcome"], json!({"kind": "stopped", "by": "session"}), "{task:#}");
}

/// Failure F19: a command that exits quickly and leaves children is recorded, with the exit code of
/// the command.
#[test]
fn short_command_with_surviving_children_is_recorded() {
    let sandbox = sandbox();
    let (script, names) = detaching_children(&sandbox);
    let call = adopted_shell(&sandbox, &format!("{script}\nexit 4"));
    let _done = call.env("SIDING_ADOPT_KEEP_AFTER", "1h").run().expect_code(4);
    let processes = marked_processes(&sandbox, names);
    // A task's directory exists before its first record, and only a recorded task can be shown.
    let id = eventually_some("the record exists", || {
        sandbox.task_ids().into_iter().find(|id| journal(&sandbox, id).contains("accepted"))
    });
    eventually("the leader's end is recorded", || show_task(&sandbox, &id)["phase"] == "lingering");
    let view = show_task(&sandbox, &id);
    assert_eq!(view["leader_outcome"], json!({"kind": "exited", "code": 4}));
    let named: Vec<u64> = view["processes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|process| process["pid"].as_u64())
        .collect();
    for process in &processes {
        assert!(named.contains(&u64::from(process.pid)), "{view}");
    }
    let args = ["stop", "--json", "--grace", "0s", &id];
    let stopped = sandbox.siding(&args).run().expect_code(0).json();
    assert!(processes.iter().all(|process| !process.is_alive()), "{stopped}");
    assert_eq!(stopped["outcome"], json!({"kind": "exited", "code": 4}));
}

/// If `SIDING_SESSION` does not name an open session, the adoption opens a session of the host. In
/// an ended session, siding would stop the command immediately.
#[test]
fn ended_session_variable_does_not_end_the_command() {
    let sandbox = sandbox();
    let host = spawn_session_owner(&sandbox, "old");
    host.process().kill();
    let _gone = host.wait();
    for name in ["old", "never-opened", "not a name"] {
        let call = adopted_shell(&sandbox, "echo $SIDING_SESSION").env("SIDING_SESSION", name);
        let out = call.run().expect_code(0).stdout_text();
        assert!(out.starts_with("adopt-"), "{name}: {out}");
    }
    wait_until_no_shims(&sandbox);
}

/// Promise P82: an unrecorded command whose shim is killed continues without supervision, and the
/// reaper does not end it.
#[test]
fn unrecorded_command_survives_the_death_of_its_shim() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("--quiet mark near hang"));
    let call =
        adopted_shell(&sandbox, &format!("{line}; true")).env("SIDING_ADOPT_KEEP_AFTER", "1h");
    let shell = call.spawn();
    let near = sandbox.wait_for_mark("near");
    // The shell continues as soon as it is marked, so its command may run before the shim has
    // started.
    let shim = eventually_some("a shim has started", || shims(&sandbox).first().copied());
    shim.kill();
    wait_until_no_shims(&sandbox);
    let _reaped = sandbox.siding(&["reap"]).run().expect_code(0);
    assert!(near.is_alive(), "the reaper must not end a process without a recorded task");
    assert_eq!(list_tasks(&sandbox), Vec::<serde_json::Value>::new());
    near.kill();
    let _done = shell.wait().expect_code(0);
}
