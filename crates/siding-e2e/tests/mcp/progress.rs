//! Progress messages of calls that wait, and the cancellation of such calls.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use siding_e2e::eventually;

use crate::client::{Client, STATELESS_REVISION, sandbox, unread_notices};

fn is_progress(message: &Value) -> bool {
    message["method"] == "notifications/progress"
}

/// Returns a command that ends once a file exists.
fn wait_for_file_command(file: &Path) -> String {
    format!("until [ -e {} ]; do sleep 0.05; done", file.display())
}

/// Shuts the server down and asserts that no call was running. At shutdown the SDK waits 5 s for
/// calls that still run, so a quick exit proves that all calls have ended.
#[track_caller]
fn shutdown_without_running_call(client: Client) {
    let started = Instant::now();
    client.shutdown();
    assert!(started.elapsed() < Duration::from_secs(4), "left after {:?}", started.elapsed());
}

/// Failure F32: a call that waits sends progress, because a client abandons a call after a period
/// of silence.
#[test]
fn wait_reports_progress() {
    let sandbox = sandbox();
    for new in [false, true] {
        let mut client = if new {
            Client::connect_stateless(&sandbox, json!({}))
        } else {
            Client::connect_initialized(&sandbox)
        };
        let progress_seen = sandbox.path(&format!("told-{new}"));
        let command =
            format!("echo '{new} step one'; {}; exit 3", wait_for_file_command(&progress_seen));
        let id = client.start_background_task(&command);
        let params = json!({
            "name": "wait", "arguments": { "ids": [id] }, "_meta": { "progressToken": "p7" },
        });
        let request = client.start_request("tools/call", params);
        let progress = client.wait_for_message("progress is reported", is_progress);
        let params = &progress["params"];
        assert_eq!(params["progressToken"], "p7", "{progress}");
        assert!(params["progress"].as_f64().is_some_and(|done| done > 0.5), "{progress}");
        let message = params["message"].as_str().expect("a message");
        assert!(message.contains(&id) && message.contains("step one"), "{progress}");
        std::fs::write(&progress_seen, "").expect("test file");
        let answer = client.wait_for_answer(request);
        assert!(answer.to_string().contains("exited 3"), "{answer}");
        client.shutdown();
    }
}

#[test]
fn run_reports_progress() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let progress_seen = sandbox.path("told");
    let command = format!("echo going; {}", wait_for_file_command(&progress_seen));
    let params = json!({
        "name": "run", "arguments": { "command": command }, "_meta": { "progressToken": 3 },
    });
    let request = client.start_request("tools/call", params);
    let progress = client.wait_for_message("progress is reported", is_progress);
    assert_eq!(progress["params"]["progressToken"], 3, "{progress}");
    std::fs::write(&progress_seen, "").expect("test file");
    let _answer = client.wait_for_answer(request);
    client.shutdown();
}

#[test]
fn no_progress_without_a_progress_token() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let answer = client.call("run", json!({ "command": "sleep 1.3" }));
    assert!(answer.message.contains("exited 0"), "{answer:?}");
    assert!(!client.messages().iter().any(is_progress));
    client.shutdown();
}

/// Canceling a call stops only the task that this call started (promise P19).
#[test]
fn canceled_run_stops_its_task_and_canceled_wait_does_not() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let other = client.start_background_task("sleep 301");
    let wait = client.start_call("wait", json!({ "ids": [other] }));
    let run = client.start_call("run", json!({ "command": "sleep 302", "budget": 60 }));
    let running = |client: &mut Client| client.call("list", json!({})).message;
    eventually("both run", || running(&mut client).matches(" running ").count() == 2);
    client.cancel(wait);
    client.cancel(run);
    eventually("the command of the call has ended", || {
        let listed = running(&mut client);
        listed.contains("sleep 301") && listed.matches(" running ").count() == 1
    });
    let _stopped = client.call("stop", json!({ "ids": [other] }));
    client.shutdown();
}

/// Failure F32: a call waits longer than 50 s only for a client whose name is known to extend its
/// timeout at each progress message. A progress token in the request does not prove that the client
/// does so.
#[test]
fn wait_limit_depends_on_the_client_name() {
    let sandbox = sandbox();
    for (name, waited, ran) in [("codex-mcp-client", 50.0, 50.0), ("claude-code", 300.0, 200.0)] {
        let mut client = Client::spawn(&sandbox).initialize_as(name);
        let id = client.start_background_task(&format!("sleep 30{waited}"));
        let (_, progress) =
            client.start_call_with_progress("wait", json!({ "ids": [id], "timeout": 300 }));
        assert_eq!(progress["total"], waited, "{name}: {progress}");
        let run = json!({ "command": format!("sleep 31{ran}"), "budget": 200 });
        let (_, progress) = client.start_call_with_progress("run", run);
        assert_eq!(progress["total"], ran, "{name}: {progress}");
        let _gone = client.hang_up();
    }
    for id in sandbox.task_ids() {
        let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
    }
}

/// A canceled `wait` acknowledges nothing, because its result was not delivered. The end is still
/// reported later.
#[test]
fn task_end_seen_by_a_canceled_wait_is_still_reported() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let id = client.start_background_task("while [ ! -e go ]; do echo x; sleep .02; done; exit 5");
    let (wait, _) =
        client.start_call_with_progress("wait", json!({ "ids": [id], "for": ["output:never"] }));
    client.cancel(wait);
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let ended = ["wait", &id];
    let _ended = sandbox.siding(&ended).run().expect_code(5);
    client.shutdown();
    let notices = unread_notices(&sandbox, &id);
    assert_eq!(
        (&notices[0]["kind"], &notices[0]["exit_code"]),
        (&json!("ended"), &json!(5)),
        "{notices}"
    );
}

/// A `wait` for output can be canceled even while the task writes continuously.
#[test]
fn wait_on_a_busy_task_can_be_canceled() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let id = client.start_background_task("while :; do echo x; sleep .02; done");
    let (wait, _) =
        client.start_call_with_progress("wait", json!({ "ids": [id], "for": ["output:never"] }));
    client.cancel(wait);
    shutdown_without_running_call(client);
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

/// `stop` sends progress and can be canceled, because a stop can last as long as the grace.
#[test]
fn stop_reports_progress_and_can_be_canceled() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let id = client.start_background_task("trap '' TERM; echo up; while :; do sleep .1; done");
    let _trapped = client.call("wait", json!({ "ids": [id], "for": "output:up" }));
    let (stop, progress) =
        client.start_call_with_progress("stop", json!({ "ids": [id], "grace": 100 }));
    let message = progress["message"].as_str().expect("a message");
    assert!(message.contains(&id) && message.contains("stopping"), "{progress}");
    client.cancel(stop);
    shutdown_without_running_call(client);
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
}

#[test]
fn stateless_revision_sets_result_type_in_every_result() {
    let sandbox = sandbox();
    let mut client = Client::connect_stateless(&sandbox, json!({}));
    let tools = client.request("tools/list", json!({}));
    assert_eq!(tools["resultType"], "complete", "{STATELESS_REVISION}: {tools}");
    let answer = client.call("run", json!({ "command": "echo hello" }));
    assert_eq!(answer.output, "hello\n");
    client.shutdown();
}
