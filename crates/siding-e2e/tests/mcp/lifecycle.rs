//! Handshakes, and what becomes of tasks when their client goes.

use serde_json::json;
use siding_e2e::{eventually, processes};

use crate::client::{Client, notices_of, sandbox};

#[test]
fn both_handshakes_offer_the_same_tools() {
    let sandbox = sandbox();
    let mut old = Client::old(&sandbox);
    let mut new = Client::new(&sandbox, json!({}));
    let names = |client: &mut Client| {
        let list = client.request("tools/list", json!({}));
        let tools = list["tools"].as_array().expect("tools").clone();
        let name = |tool: &serde_json::Value| tool["name"].as_str().expect("a name").to_owned();
        tools.iter().map(name).collect::<Vec<_>>()
    };
    let wanted = ["run", "output", "wait", "stop", "list", "input", "why"];
    assert_eq!(names(&mut old), wanted);
    assert_eq!(names(&mut new), wanted);
    old.leave();
    new.leave();
}

/// Each word of it is read at the beginning of every conversation, but for what the answers are as data:
/// Claude Code and Codex give that to no model.
#[test]
fn the_tools_are_described_in_few_words() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let mut list = client.request("tools/list", json!({}));
    let mut answers = 0;
    for tool in list["tools"].as_array_mut().expect("tools") {
        answers += tool["outputSchema"].take().to_string().len();
    }
    let list = list.to_string();
    assert!(list.len() < 7_200, "{} bytes", list.len());
    assert!(answers < 28_000, "{answers} bytes");
    client.leave();
}

// PAINS B6: a client that is killed leaves nothing.
#[test]
fn the_tasks_of_a_killed_client_end() {
    let sandbox = sandbox();
    // A shell that stays is the client; the server is its child.
    let line = format!("{}; true", sandbox.siding_line(&["mcp"]));
    let host = sandbox.host("bash", &["-c", &line]).env("SIDING_SESSION_GRACE", "100ms");
    let mut client = Client::over(host.stdin_pipe().spawn()).initialize();
    let id = client.start("setsid sleep 300 & sleep 300");
    assert!(!processes::with_birthmark(&id).is_empty());
    client.process().kill();
    eventually("nothing of the task is left", || processes::with_birthmark(&id).is_empty());
    let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0);
    assert_eq!(shown.json()["outcome"]["by"], "session", "{shown}");
}

#[test]
fn a_server_that_is_started_anew_finds_its_tasks() {
    let sandbox = sandbox();
    let mut first = Client::old(&sandbox);
    let id = first.start("sleep 300");
    first.leave();
    let mut second = Client::old(&sandbox);
    let told = second.call("list", json!({}));
    assert!(told.said.contains(&id) && told.said.contains("running"), "{told:?}");
    let _stopped = second.call("stop", json!({ "ids": [id] }));
    second.leave();
}

/// A server that waits for many must not change what tasks get.
#[test]
fn a_task_has_the_limits_of_the_client() {
    let sandbox = sandbox();
    let line = format!("ulimit -Sn 321; exec {}", sandbox.siding_line(&["mcp"]));
    let mut client = Client::over(sandbox.host("bash", &["-c", &line]).stdin_pipe().spawn());
    client = client.initialize();
    let id = client.start("true");
    let _waited = client.call("wait", json!({ "ids": [id] }));
    assert_eq!(client.call("run", json!({ "command": "ulimit -Sn" })).output, "321\n");
    client.leave();
}

/// A host that hangs up is no interrupt: its commands go on, and its session decides.
#[test]
fn a_client_that_leaves_in_the_middle_of_a_run_ends_nothing() {
    let sandbox = sandbox();
    let mut first = Client::old(&sandbox);
    let _unanswered = first.begin_call("run", json!({ "command": "sleep 300", "budget": 60 }));
    eventually("it runs", || !sandbox.task_ids().is_empty());
    let id = sandbox.task_ids().remove(0);
    eventually("its command runs", || processes::with_birthmark(&id).len() > 1);
    first.leave();
    let mut second = Client::old(&sandbox);
    let told = second.call("stop", json!({ "ids": [id], "grace": 1 }));
    assert!(told.said.contains("stopped by client"), "{told:?}");
    second.leave();
}

/// An answer that could not be written has told nobody.
#[test]
fn the_end_of_a_task_is_told_when_its_client_died_in_a_wait() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let id = client.start("until [ -e go ]; do sleep .02; done; exit 5");
    let _unanswered = client.begin_wait("wait", json!({ "ids": [id] }));
    let server = client.hang_up();
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    let _left = server.wait();
    let told = notices_of(&sandbox, &id);
    assert_eq!((&told[0]["kind"], &told[0]["exit_code"]), (&json!("ended"), &json!(5)), "{told}");
}

#[test]
fn a_named_session_is_joined_and_one_that_is_not_open_refused() {
    let sandbox = sandbox();
    let owner = std::process::id().to_string();
    let open = ["session", "open", "chat", "--owner-pid", &owner];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let server = sandbox.siding(&["mcp"]).env("SIDING_SESSION", "chat").stdin_pipe().spawn();
    let mut client = Client::over(server).initialize();
    let id = client.start("sleep 300");
    let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0);
    assert_eq!(shown.json()["session_id"], "chat", "{shown}");
    let _stopped = client.call("stop", json!({ "ids": [id] }));
    client.leave();
    let refused = sandbox.siding(&["mcp", "--session", "none"]).run().expect_code(125);
    assert!(refused.stderr_text().contains("not open"), "{refused}");
}

/// What is started in a session that is over would be ended by it at once.
#[test]
fn nothing_is_started_in_a_session_that_is_over() {
    let sandbox = sandbox();
    let close = |session: &str| {
        let _closed = sandbox.siding(&["session", "close", session]).run().expect_code(0);
    };
    let owner = std::process::id().to_string();
    let open = ["session", "open", "chat", "--owner-pid", &owner];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let server = sandbox.siding(&["mcp"]).env("SIDING_SESSION", "chat").stdin_pipe().spawn();
    let mut client = Client::over(server).initialize();
    close("chat");
    let told = client.call("run", json!({ "command": "touch started" }));
    assert!(told.is_error && told.said.contains("is over (it was closed); open it"), "{told:?}");
    assert!(!sandbox.path("started").exists() && sandbox.task_ids().is_empty());
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let told = client.call("run", json!({ "command": "echo again" }));
    assert_eq!(told.output, "again\n");
    client.leave();
    close("chat");

    // Its own session is its own to open again.
    let mut client = Client::old(&sandbox);
    let list = sandbox.siding(&["session", "list", "--json"]).run().expect_code(0).json();
    let name = |one: &serde_json::Value| one["session_id"].as_str().map(str::to_owned);
    let mut names = list.as_array().expect("a list").iter().filter_map(name);
    let own = names.find(|name| name.starts_with("mcp-")).expect("is open");
    close(&own);
    let id = client.start("sleep 300");
    let list = sandbox.siding(&["session", "list", "--json"]).run().expect_code(0).json();
    let is_live = |one: &serde_json::Value| one["session_id"] == *own && one["state"] == "live";
    assert!(list.as_array().expect("a list").iter().any(is_live), "{list}");
    let _stopped = client.call("stop", json!({ "ids": [id] }));
    client.leave();
}

/// An agent inherits the variable of the agent that it runs in, or one that has been left over.
#[test]
fn a_session_of_another_owner_is_not_taken_over() {
    let sandbox = sandbox();
    let mut other = sandbox.host("cat", &["-"]).stdin_pipe().spawn();
    let owner = other.process().pid.to_string();
    let open = ["session", "open", "outer", "--owner-pid", &owner];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let own_session = || {
        let server = sandbox.siding(&["mcp"]).env("SIDING_SESSION", "outer").stdin_pipe().spawn();
        let mut client = Client::over(server).initialize();
        let id = client.start("true");
        client.leave();
        let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
        shown["session_id"].as_str().expect("a session").to_owned()
    };
    let while_it_lives = own_session();
    assert!(while_it_lives.starts_with("mcp-"), "{while_it_lives}");
    other.close_stdin();
    let _ended = other.wait();
    assert_eq!(own_session(), while_it_lives, "its owner has gone");
    let strict = sandbox.siding(&["mcp", "--session", "outer"]).run().expect_code(125);
    assert!(strict.stderr_text().contains("is over"), "{strict}");
}

#[test]
fn a_client_that_says_nothing_or_nonsense_is_no_crash() {
    let sandbox = sandbox();
    Client::silent(&sandbox).leave();
    let nonsense = sandbox.siding(&["mcp"]).stdin("hello\n{}\n").run();
    assert!(!nonsense.stderr_text().contains("panicked"), "{nonsense}");
}
