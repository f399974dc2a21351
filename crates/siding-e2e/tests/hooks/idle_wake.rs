//! The hook `await-notice` wakes an idle host when a notice is recorded.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::json;
use siding_e2e::{eventually, processes};

use crate::support::{
    SESSION_ID, call_hook, close_session, event_json, hook_call, hook_context, open_session,
    run_ended_task, sandbox, start_background_task, wait_for_waiter,
};

/// Promise P112: the end of a task wakes an idle host immediately, without any other event.
#[test]
fn task_end_wakes_an_idle_host_and_is_reported_once() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let waiting = hook_call(&sandbox, &["await-notice"], json!({})).spawn();
    let _pid = wait_for_waiter(&sandbox);
    // A second waiter for the same conversation exits immediately.
    let second = call_hook(&sandbox, "await-notice", json!({})).expect_code(0);
    assert_eq!(second.stdout_text() + &second.stderr_text(), "");
    let id = run_ended_task(&sandbox, "echo over; exit 7");
    let finished = waiting.wait().expect_code(2);
    let text = finished.stderr_text();
    assert!(text.contains(&id) && text.contains("not input from the user"), "{text}");
    assert_eq!(hook_context(&sandbox, "user-prompt-submit", json!({})), "", "delivered twice");
    close_session(&sandbox);
}

/// Promises P65 and P112: an approaching deadline wakes an idle host while the agent can still
/// extend the deadline.
#[test]
fn approaching_deadline_wakes_an_idle_host() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let waiting = hook_call(&sandbox, &["await-notice"], json!({})).spawn();
    let _pid = wait_for_waiter(&sandbox);
    let head = ["run", "--background", "--session", SESSION_ID, "--timeout", "10m", "--json"];
    let call = sandbox.siding(&[&head[..], &["--", "sleep 300"]].concat());
    let started = call.env("SIDING_DEADLINE_NOTICE", "9m59s").run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id");
    let text = waiting.wait().expect_code(2).stderr_text();
    assert!(text.contains(&format!("`siding extend {id} 10m`")), "{text}");
    close_session(&sandbox);
}

/// While the agent works, the hooks of its events deliver the notices, and the waiter prints
/// nothing.
#[test]
fn notice_delivered_by_another_event_does_not_wake() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let mut waiting = hook_call(&sandbox, &["await-notice"], json!({})).spawn();
    let pid = wait_for_waiter(&sandbox);
    // While it is stopped, the time that it leaves to other hooks does not elapse.
    waiting.signal(Signal::STOP);
    eventually("the waiter is stopped", || processes::state(pid) == Some('T'));
    let id = run_ended_task(&sandbox, "exit 7");
    assert!(hook_context(&sandbox, "post-tool-use", json!({})).contains(&id));
    waiting.signal(Signal::CONT);
    // The waiter continues to wait for the next notice.
    let next = run_ended_task(&sandbox, "exit 8");
    let text = {
        waiting.close_stdin();
        waiting.wait().expect_code(2).stderr_text()
    };
    assert!(text.contains(&next) && !text.contains(&id), "{text}");
    close_session(&sandbox);
}

/// In a headless run `await-notice` exits immediately, because `claude -p` would otherwise run
/// until the waiter exits.
#[test]
fn headless_host_starts_no_waiter() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let id = start_background_task(&sandbox, "sleep 60");
    let call = hook_call(&sandbox, &["await-notice"], json!({}));
    let done = call.env("CLAUDE_CODE_ENTRYPOINT", "sdk-cli").run().expect_code(0);
    assert_eq!(done.stdout_text() + &done.stderr_text(), "", "{id}");
    close_session(&sandbox);
}

/// Failure F11: a killed host leaves no waiter.
#[test]
fn waiter_ends_with_its_host() {
    let sandbox = sandbox();
    // The copy has another name, because siding does not treat a shell as a host.
    let agent = sandbox.path("agent");
    let _bytes = std::fs::copy("/bin/bash", &agent).expect("test directory");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&agent, executable).expect("test file");
    std::fs::write(sandbox.path("event"), event_json(&sandbox, json!({}))).expect("test directory");
    let siding = |name: &str| sandbox.siding_line(&["hook", name]);
    let text = format!(
        "{} < event; {} < event 2>heard & wait",
        siding("session-start"),
        siding("await-notice")
    );
    let host = sandbox.host(&agent.to_string_lossy(), &["-c", &text]).spawn();
    let pid = wait_for_waiter(&sandbox);
    host.process().kill();
    eventually("the waiter has exited", || !processes::list_pids().contains(&pid));
    assert_eq!(std::fs::read_to_string(sandbox.path("heard")).expect("the entry exists"), "");
}
