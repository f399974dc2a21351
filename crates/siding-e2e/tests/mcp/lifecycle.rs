//! The handshakes, the list of tools, and what happens to the tasks of clients that disconnect.

use serde_json::json;
use siding_e2e::{eventually, processes};

use crate::client::{Client, sandbox, unread_notices};

#[test]
fn both_protocol_revisions_offer_the_same_tools() {
    let sandbox = sandbox();
    let mut old = Client::connect_initialized(&sandbox);
    let mut new = Client::connect_stateless(&sandbox, json!({}));
    let names = |client: &mut Client| {
        let list = client.request("tools/list", json!({}));
        let tools = list["tools"].as_array().expect("tools").clone();
        let name = |tool: &serde_json::Value| tool["name"].as_str().expect("a name").to_owned();
        tools.iter().map(name).collect::<Vec<_>>()
    };
    let wanted = ["run", "output", "wait", "stop", "list", "input", "screen", "keys", "why"];
    assert_eq!(names(&mut old), wanted);
    assert_eq!(names(&mut new), wanted);
    old.shutdown();
    new.shutdown();
}

/// The list of tools must stay small, because a model reads it at the start of every conversation.
/// The output schemas do not count, because Claude Code and Codex do not pass them to a model.
#[test]
fn tool_descriptions_stay_within_their_size_limit() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let mut list = client.request("tools/list", json!({}));
    let mut answers = 0;
    for tool in list["tools"].as_array_mut().expect("tools") {
        answers += tool["outputSchema"].take().to_string().len();
    }
    let list = list.to_string();
    assert!(list.len() < 7_800, "{} bytes", list.len());
    assert!(answers < 29_000, "{answers} bytes");
    client.shutdown();
}

/// Promise P120, failure F11: the tasks of a killed client end.
#[test]
fn tasks_of_a_killed_client_end() {
    let sandbox = sandbox();
    // The shell is the client that the test kills, and the server is its child.
    let line = format!("{}; true", sandbox.siding_line(&["mcp"]));
    let host = sandbox.host("bash", &["-c", &line]).env("SIDING_SESSION_GRACE", "100ms");
    let mut client = Client::from_server(host.stdin_pipe().spawn()).initialize();
    let id = client.start_background_task("setsid sleep 300 & sleep 300");
    assert!(!processes::with_birthmark(&id).is_empty());
    client.process().kill();
    eventually("nothing of the task is left", || processes::with_birthmark(&id).is_empty());
    let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0);
    assert_eq!(shown.json()["outcome"]["by"], "session", "{shown}");
}

#[test]
fn restarted_server_finds_its_tasks() {
    let sandbox = sandbox();
    let mut first = Client::connect_initialized(&sandbox);
    let id = first.start_background_task("sleep 300");
    first.shutdown();
    let mut second = Client::connect_initialized(&sandbox);
    let answer = second.call("list", json!({}));
    assert!(answer.message.contains(&id) && answer.message.contains("running"), "{answer:?}");
    let _stopped = second.call("stop", json!({ "ids": [id] }));
    second.shutdown();
}

/// The server raises its own limit on descriptors to serve many waits. Its tasks must not inherit
/// the raised limit.
#[test]
fn task_has_the_resource_limits_of_the_client() {
    let sandbox = sandbox();
    let line = format!("ulimit -Sn 321; exec {}", sandbox.siding_line(&["mcp"]));
    let mut client = Client::from_server(sandbox.host("bash", &["-c", &line]).stdin_pipe().spawn());
    client = client.initialize();
    let id = client.start_background_task("true");
    let _waited = client.call("wait", json!({ "ids": [id] }));
    assert_eq!(client.call("run", json!({ "command": "ulimit -Sn" })).output, "321\n");
    client.shutdown();
}

/// Promise P20: when a client disconnects during a `run`, the command continues until the session
/// ends.
#[test]
fn client_disconnect_during_a_run_ends_no_task() {
    let sandbox = sandbox();
    let mut first = Client::connect_initialized(&sandbox);
    let _unanswered = first.start_call("run", json!({ "command": "sleep 300", "budget": 60 }));
    eventually("the task runs", || !sandbox.task_ids().is_empty());
    let id = sandbox.task_ids().remove(0);
    eventually("the command runs", || processes::with_birthmark(&id).len() > 1);
    first.shutdown();
    let mut second = Client::connect_initialized(&sandbox);
    let answer = second.call("stop", json!({ "ids": [id], "grace": 1 }));
    assert!(answer.message.contains("stopped by client"), "{answer:?}");
    second.shutdown();
}

/// If the client of a `wait` dies, the answer cannot be written, so the notice is not acknowledged
/// and is delivered later.
#[test]
fn task_end_is_reported_after_its_client_died_in_a_wait() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let id = client.start_background_task("until [ -e go ]; do sleep .02; done; exit 5");
    let _unanswered = client.start_call_with_progress("wait", json!({ "ids": [id] }));
    let server = client.hang_up();
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let _left = server.wait();
    let notices = unread_notices(&sandbox, &id);
    assert_eq!(
        (&notices[0]["kind"], &notices[0]["exit_code"]),
        (&json!("ended"), &json!(5)),
        "{notices}"
    );
}

#[test]
fn named_session_is_joined_only_if_it_is_open() {
    let sandbox = sandbox();
    let owner = std::process::id().to_string();
    let open = ["session", "open", "chat", "--owner-pid", &owner];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let server = sandbox.siding(&["mcp"]).env("SIDING_SESSION", "chat").stdin_pipe().spawn();
    let mut client = Client::from_server(server).initialize();
    let id = client.start_background_task("sleep 300");
    let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0);
    assert_eq!(shown.json()["session_id"], "chat", "{shown}");
    let _stopped = client.call("stop", json!({ "ids": [id] }));
    client.shutdown();
    let refused = sandbox.siding(&["mcp", "--session", "none"]).run().expect_code(125);
    assert!(refused.stderr_text().contains("not open"), "{refused}");
}

/// `run` fails if the session that the server has joined was closed, because a task in a closed
/// session would be stopped immediately.
#[test]
fn closed_session_starts_no_task() {
    let sandbox = sandbox();
    let close = |session: &str| {
        let _closed = sandbox.siding(&["session", "close", session]).run().expect_code(0);
    };
    let owner = std::process::id().to_string();
    let open = ["session", "open", "chat", "--owner-pid", &owner];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let server = sandbox.siding(&["mcp"]).env("SIDING_SESSION", "chat").stdin_pipe().spawn();
    let mut client = Client::from_server(server).initialize();
    close("chat");
    let answer = client.call("run", json!({ "command": "touch started" }));
    assert!(
        answer.is_error && answer.message.contains("has ended (it was closed); open it"),
        "{answer:?}"
    );
    assert!(!sandbox.path("started").exists() && sandbox.task_ids().is_empty());
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let answer = client.call("run", json!({ "command": "echo again" }));
    assert_eq!(answer.output, "again\n");
    client.shutdown();
    close("chat");

    // If the server itself has opened the session, the next `run` opens it again.
    let mut client = Client::connect_initialized(&sandbox);
    let list = sandbox.siding(&["session", "list", "--json"]).run().expect_code(0).json();
    let name = |one: &serde_json::Value| one["session_id"].as_str().map(str::to_owned);
    let mut names = list.as_array().expect("a list").iter().filter_map(name);
    let own = names.find(|name| name.starts_with("mcp-")).expect("the session is listed");
    close(&own);
    let id = client.start_background_task("sleep 300");
    let list = sandbox.siding(&["session", "list", "--json"]).run().expect_code(0).json();
    let is_live = |one: &serde_json::Value| one["session_id"] == *own && one["state"] == "live";
    assert!(list.as_array().expect("a list").iter().any(is_live), "{list}");
    let _stopped = client.call("stop", json!({ "ids": [id] }));
    client.shutdown();
}

/// The server ignores the session in `SIDING_SESSION` if this session has another owner. An agent
/// may have inherited the variable from the agent that started it.
#[test]
fn session_variable_of_another_owner_is_ignored() {
    let sandbox = sandbox();
    let mut other = sandbox.host("cat", &["-"]).stdin_pipe().spawn();
    let owner = other.process().pid.to_string();
    let open = ["session", "open", "outer", "--owner-pid", &owner];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let own_session = || {
        let server = sandbox.siding(&["mcp"]).env("SIDING_SESSION", "outer").stdin_pipe().spawn();
        let mut client = Client::from_server(server).initialize();
        let id = client.start_background_task("true");
        client.shutdown();
        let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
        shown["session_id"].as_str().expect("a session").to_owned()
    };
    let while_it_lives = own_session();
    assert!(while_it_lives.starts_with("mcp-"), "{while_it_lives}");
    other.close_stdin();
    let _ended = other.wait();
    assert_eq!(own_session(), while_it_lives, "the session's owner has exited");
    let strict = sandbox.siding(&["mcp", "--session", "outer"]).run().expect_code(125);
    assert!(strict.stderr_text().contains("has ended"), "{strict}");
}

#[test]
fn silent_or_invalid_client_does_not_crash_the_server() {
    let sandbox = sandbox();
    Client::spawn(&sandbox).shutdown();
    let nonsense = sandbox.siding(&["mcp"]).stdin("hello\n{}\n").run();
    assert!(!nonsense.stderr_text().contains("panicked"), "{nonsense}");
}
