//! What a client hears while it waits, and what follows when it does not want to wait any more.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use siding_e2e::eventually;

use crate::client::{Client, NEW, notices_of, sandbox};

fn is_progress(message: &Value) -> bool {
    message["method"] == "notifications/progress"
}

/// Returns a command that ends once a file is there.
fn until_there(file: &Path) -> String {
    format!("until [ -e {} ]; do sleep 0.05; done", file.display())
}

// PAINS D3: clients give up after a while of silence.
#[test]
fn a_wait_tells_how_far_it_is() {
    let sandbox = sandbox();
    for new in [false, true] {
        let mut client = if new { Client::new(&sandbox, json!({})) } else { Client::old(&sandbox) };
        let told = sandbox.path(&format!("told-{new}"));
        let command = format!("echo '{new} step one'; {}; exit 3", until_there(&told));
        let id = client.start(&command);
        let params = json!({
            "name": "wait", "arguments": { "ids": [id] }, "_meta": { "progressToken": "p7" },
        });
        let request = client.begin("tools/call", params);
        let progress = client.until("progress is told", is_progress);
        let params = &progress["params"];
        assert_eq!(params["progressToken"], "p7", "{progress}");
        assert!(params["progress"].as_f64().is_some_and(|done| done > 0.5), "{progress}");
        let message = params["message"].as_str().expect("words");
        assert!(message.contains(&id) && message.contains("step one"), "{progress}");
        std::fs::write(&told, "").expect("written");
        let answer = client.answer(request);
        assert!(answer.to_string().contains("exited 3"), "{answer}");
        client.leave();
    }
}

#[test]
fn a_run_tells_how_far_it_is_too() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let told = sandbox.path("told");
    let command = format!("echo going; {}", until_there(&told));
    let params = json!({
        "name": "run", "arguments": { "command": command }, "_meta": { "progressToken": 3 },
    });
    let request = client.begin("tools/call", params);
    let progress = client.until("progress is told", is_progress);
    assert_eq!(progress["params"]["progressToken"], 3, "{progress}");
    std::fs::write(&told, "").expect("written");
    let _answer = client.answer(request);
    client.leave();
}

#[test]
fn nothing_is_told_to_a_client_that_did_not_ask() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let told = client.call("run", json!({ "command": "sleep 1.3" }));
    assert!(told.said.contains("exited 0"), "{told:?}");
    assert!(!client.messages().iter().any(is_progress));
    client.leave();
}

/// Interrupting a call touches what ran for this call alone (SPEC 2.7).
#[test]
fn a_cancelled_run_is_ended_and_a_cancelled_wait_ends_nothing() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let other = client.start("sleep 301");
    let wait = client.begin_call("wait", json!({ "ids": [other] }));
    let run = client.begin_call("run", json!({ "command": "sleep 302", "budget": 60 }));
    let running = |client: &mut Client| client.call("list", json!({})).said;
    eventually("both run", || running(&mut client).matches(" running ").count() == 2);
    client.cancel(wait);
    client.cancel(run);
    eventually("what ran for the call has ended", || {
        let listed = running(&mut client);
        listed.contains("sleep 301") && listed.matches(" running ").count() == 1
    });
    let _stopped = client.call("stop", json!({ "ids": [other] }));
    client.leave();
}

// PAINS D3: a token for progress does not say that the client waits longer for it.
#[test]
fn only_a_client_that_is_known_to_wait_on_is_kept_waiting() {
    let sandbox = sandbox();
    for (name, waited, ran) in [("codex-mcp-client", 50.0, 50.0), ("claude-code", 300.0, 200.0)] {
        let mut client = Client::silent(&sandbox).initialize_as(name);
        let id = client.start(&format!("sleep 30{waited}"));
        let (_, progress) = client.begin_wait("wait", json!({ "ids": [id], "timeout": 300 }));
        assert_eq!(progress["total"], waited, "{name}: {progress}");
        let run = json!({ "command": format!("sleep 31{ran}"), "budget": 200 });
        let (_, progress) = client.begin_wait("run", run);
        assert_eq!(progress["total"], ran, "{name}: {progress}");
        let _gone = client.hang_up();
    }
    for id in sandbox.task_ids() {
        let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
    }
}

/// Nobody was told of an end whose answer nobody wanted.
#[test]
fn the_end_that_a_cancelled_wait_sees_is_still_told() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let id = client.start("while [ ! -e go ]; do echo x; sleep .02; done; exit 5");
    let (wait, _) = client.begin_wait("wait", json!({ "ids": [id], "for": ["output:never"] }));
    client.cancel(wait);
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    let ended = ["wait", &id];
    let _ended = sandbox.siding(&ended).run().expect_code(0);
    client.leave();
    let told = notices_of(&sandbox, &id);
    assert_eq!((&told[0]["kind"], &told[0]["exit_code"]), (&json!("ended"), &json!(5)), "{told}");
}

/// A task that writes without end must not keep its waiter from hearing that it is to stop.
#[test]
fn a_wait_that_is_kept_busy_hears_of_its_cancel() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let id = client.start("while :; do echo x; sleep .02; done");
    let (wait, _) = client.begin_wait("wait", json!({ "ids": [id], "for": ["output:never"] }));
    client.cancel(wait);
    let left = Instant::now();
    client.leave();
    // Calls that go on are waited for 5 s by the SDK.
    assert!(left.elapsed() < Duration::from_secs(4), "left after {:?}", left.elapsed());
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

/// A stop may take as long as the grace is.
#[test]
fn a_stop_tells_how_far_it_is_and_can_be_cancelled() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let id = client.start("trap '' TERM; echo up; while :; do sleep .1; done");
    let _trapped = client.call("wait", json!({ "ids": [id], "for": "output:up" }));
    let (stop, progress) = client.begin_wait("stop", json!({ "ids": [id], "grace": 100 }));
    let message = progress["message"].as_str().expect("words");
    assert!(message.contains(&id) && message.contains("stopping"), "{progress}");
    client.cancel(stop);
    let left = Instant::now();
    client.leave();
    // Calls that go on are waited for 5 s by the SDK.
    assert!(left.elapsed() < Duration::from_secs(4), "left after {:?}", left.elapsed());
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
}

#[test]
fn the_new_revision_says_what_it_is_in_every_result() {
    let sandbox = sandbox();
    let mut client = Client::new(&sandbox, json!({}));
    let tools = client.request("tools/list", json!({}));
    assert_eq!(tools["resultType"], "complete", "{NEW}: {tools}");
    let told = client.call("run", json!({ "command": "echo hello" }));
    assert_eq!(told.output, "hello\n");
    client.leave();
}
