//! The hooks at the start and the end of a conversation.

use serde_json::json;
use siding_e2e::{eventually, words};

use crate::support::{
    SESSION_ID, close_session, event_json, hook_call, hook_context, open_session, sandbox,
    start_background_task,
};

/// The hook opens a session that is owned by the host's process, and the host's shells are adopted
/// into this session.
#[test]
fn session_is_opened_and_its_shells_are_adopted() {
    let sandbox = sandbox();
    let env_file = sandbox.path("env");
    std::fs::write(&env_file, "export MINE=1").expect("test directory");
    for source in ["startup", "compact"] {
        let more = json!({ "source": source });
        let call = hook_call(&sandbox, &["session-start"], more);
        let done = call.env("CLAUDE_ENV_FILE", &env_file).run().expect_code(0);
        assert_eq!(done.stdout_text() + &done.stderr_text(), "");
    }
    let sessions = sandbox.siding(&["session", "list", "--json"]).run().expect_code(0).json();
    assert_eq!(sessions[0]["session_id"], SESSION_ID);
    assert_eq!(sessions[0]["owner_pid"], std::process::id());
    assert_eq!(sessions.as_array().map(Vec::len), Some(1));
    let journal = sandbox.state_dir().join("sessions").join(SESSION_ID).join("journal");
    let opened = std::fs::read_to_string(journal).expect("a journal");
    assert_eq!(opened.lines().count(), 1, "opened once: {opened}");
    let text = std::fs::read_to_string(&env_file).expect("the entry exists");
    assert!(text.starts_with("export MINE=1\n") && text.matches("Lets siding adopt").count() == 1);
    // The host sources this file in each shell that runs a command.
    let shell = "source ./env; echo $MINE $SIDING_SESSION";
    let call = sandbox.host("bash", &["-c", shell]).env("SIDING_ADOPT_WAIT", "20");
    assert_eq!(call.run().expect_code(0).stdout_text(), format!("1 {SESSION_ID}\n"));
    close_session(&sandbox);
}

/// Promise P68: after a resume or a compaction, the agent immediately receives the list of running
/// tasks.
#[test]
fn running_tasks_are_listed_after_a_compaction() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let id = start_background_task(&sandbox, "sleep 60");
    let context = hook_context(&sandbox, "session-start", json!({"source": "compact"}));
    assert!(context.contains(&id) && context.contains("sleep 60"), "{context}");
    close_session(&sandbox);
}

/// Failure F11: the tasks of a killed host end, and the next conversation is informed of these
/// tasks once.
#[test]
fn next_session_reports_tasks_of_a_killed_one() {
    let sandbox = sandbox();
    let host = sandbox.puppet(&words("--quiet hang")).spawn();
    let pid = host.process().pid.to_string();
    let open = ["session", "open", "claude-gone", "--owner-pid", &pid];
    let _open = sandbox.siding(&open).run().expect_code(0);
    let run = ["run", "--background", "--session", "claude-gone", "--json", "--", "sleep 61"];
    let task = sandbox.siding(&run).run().expect_code(0).json();
    let id = task["task_id"].as_str().expect("an id").to_owned();
    host.process().kill();
    eventually("the task has ended", || {
        let shown = sandbox.siding(&["show", "--json", &id]).run().json();
        shown["phase"] == "ended"
    });
    let context = hook_context(&sandbox, "session-start", json!({"source": "startup"}));
    assert!(context.contains("claude-gone") && context.contains(&id), "{context}");
    assert!(context.contains("sleep 61"), "{context}");
    let again = hook_context(&sandbox, "session-start", json!({"source": "compact"}));
    assert!(!again.contains("claude-gone"), "{again}");
    // The old session can still be resumed.
    let own = std::process::id().to_string();
    let open = ["session", "open", "claude-gone", "--owner-pid", &own];
    let _open = sandbox.siding(&open).run().expect_code(0);
    let _closed = sandbox.siding(&["session", "close", "claude-gone"]).run().expect_code(0);
    close_session(&sandbox);
}

/// A container that shares the state directory has another PID namespace. Inside and outside,
/// siding cannot see session owners in the other namespace, so it does not close the sessions of
/// such owners.
#[test]
fn session_of_another_pid_namespace_is_not_closed() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let hook = sandbox.siding_line(&["hook", "session-start"]);
    let script = format!("{hook} && {}", sandbox.siding_line(&["session", "list", "--json"]));
    let args = ["-Urpf", "--mount-proc", "sh", "-c", &script];
    let event = event_json(&sandbox, json!({"session_id": "inside", "source": "startup"}));
    let done = sandbox.host("unshare", &args).stdin(event).run();
    if done.stderr_text().contains("unshare:") {
        println!("left out: no user namespaces here: {done}");
        return close_session(&sandbox);
    }
    let list = done.expect_code(0).json();
    let outer = list.as_array().expect("a list").iter().find(|one| one["session_id"] == SESSION_ID);
    assert_eq!(outer.expect("the session is listed")["state"], "elsewhere", "{list}");
    let run = ["run", "--session", SESSION_ID, "--", "true"];
    let _still_open = sandbox.siding(&run).run().expect_code(0);
    let context = hook_context(&sandbox, "session-start", json!({"source": "compact"}));
    assert!(!context.contains("claude-inside"), "{context}");
    let _closed = sandbox.siding(&["session", "close", "claude-inside"]).run().expect_code(0);
    close_session(&sandbox);
}

/// The SessionEnd hook stops no tasks: the host gives the hook only 1.5 seconds, and the shims stop
/// the tasks when the host has exited.
#[test]
fn session_end_hook_stops_no_tasks() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let id = start_background_task(&sandbox, "sleep 62");
    let done = hook_call(&sandbox, &["session-end"], json!({"reason": "clear"})).run();
    assert_eq!(done.expect_code(0).stdout_text(), "");
    let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
    assert_eq!(shown["phase"], "running");
    close_session(&sandbox);
}
