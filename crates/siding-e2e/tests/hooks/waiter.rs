//! Waking an idle host.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use siding_e2e::{Sandbox, eventually, eventually_some, processes};

use crate::support::{
    SESSION, background, begin, ended, event, facts, finish, hook, prepared, sandbox,
};

/// Waits until somebody waits for this sandbox's news, and returns who.
#[track_caller]
fn waiter(sandbox: &Sandbox) -> u32 {
    let waits = |pid: &u32| {
        processes::descriptors(*pid).iter().any(|(_, target)| {
            target.starts_with(sandbox.state_dir()) && target.ends_with("waiting.agent")
        })
    };
    eventually_some("somebody waits", || processes::list_pids().into_iter().find(waits))
}

/// SPEC 5.2: a deadline wakes, at once; an end that nobody is told of wakes too.
#[test]
fn news_wakes_an_idle_host_and_is_told_by_that() {
    let sandbox = sandbox();
    begin(&sandbox);
    let waiting = prepared(&sandbox, &["await-notice"], json!({})).spawn();
    let _pid = waiter(&sandbox);
    // One is enough, however often the host starts it.
    let second = hook(&sandbox, "await-notice", json!({})).expect_code(0);
    assert_eq!(second.stdout_text() + &second.stderr_text(), "");
    let id = ended(&sandbox, "echo over; exit 7");
    let woken = waiting.wait().expect_code(2);
    let said = woken.stderr_text();
    assert!(said.contains(&id) && said.contains("not input from the user"), "{said}");
    assert_eq!(facts(&sandbox, "user-prompt-submit", json!({})), "", "told twice");
    finish(&sandbox);
}

/// SPEC 5.1, 5.2: a deadline that is near wakes too, while it can be moved.
#[test]
fn a_near_deadline_wakes_an_idle_host() {
    let sandbox = sandbox();
    begin(&sandbox);
    let waiting = prepared(&sandbox, &["await-notice"], json!({})).spawn();
    let _pid = waiter(&sandbox);
    let head = ["run", "--background", "--session", SESSION, "--timeout", "10m", "--json"];
    let call = sandbox.siding(&[&head[..], &["--", "sleep 300"]].concat());
    let started = call.env("SIDING_DEADLINE_NOTICE", "9m59s").run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id");
    let said = waiting.wait().expect_code(2).stderr_text();
    assert!(said.contains(&format!("`siding extend {id} 10m`")), "{said}");
    finish(&sandbox);
}

/// While the agent is at work its own events tell, and nobody is woken.
#[test]
fn what_another_event_tells_wakes_nobody() {
    let sandbox = sandbox();
    begin(&sandbox);
    let mut waiting = prepared(&sandbox, &["await-notice"], json!({})).spawn();
    let _pid = waiter(&sandbox);
    let id = ended(&sandbox, "exit 7");
    assert!(facts(&sandbox, "post-tool-use", json!({})).contains(&id));
    // It waits on, for the next.
    let next = ended(&sandbox, "exit 8");
    let said = {
        waiting.close_stdin();
        waiting.wait().expect_code(2).stderr_text()
    };
    assert!(said.contains(&next) && !said.contains(&id), "{said}");
    finish(&sandbox);
}

/// `claude -p` would wait for it before it ends.
#[test]
fn nobody_waits_in_a_host_that_is_never_idle() {
    let sandbox = sandbox();
    begin(&sandbox);
    let id = background(&sandbox, "sleep 60");
    let call = prepared(&sandbox, &["await-notice"], json!({}));
    let done = call.env("CLAUDE_CODE_ENTRYPOINT", "sdk-cli").run().expect_code(0);
    assert_eq!(done.stdout_text() + &done.stderr_text(), "", "{id}");
    finish(&sandbox);
}

/// PAINS B6: a killed host leaves no waiter.
#[test]
fn the_waiter_goes_with_its_host() {
    let sandbox = sandbox();
    // No shell by its name: a host.
    let agent = sandbox.path("agent");
    let _bytes = std::fs::copy("/bin/bash", &agent).expect("own directory");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&agent, executable).expect("own file");
    std::fs::write(sandbox.path("event"), event(&sandbox, json!({}))).expect("own directory");
    let siding = |name: &str| sandbox.siding_line(&["hook", name]);
    let text = format!(
        "{} < event; {} < event 2>heard & wait",
        siding("session-start"),
        siding("await-notice")
    );
    let host = sandbox.host(&agent.to_string_lossy(), &["-c", &text]).spawn();
    let pid = waiter(&sandbox);
    host.process().kill();
    eventually("the waiter has left", || !processes::list_pids().contains(&pid));
    assert_eq!(std::fs::read_to_string(sandbox.path("heard")).expect("is there"), "");
}
