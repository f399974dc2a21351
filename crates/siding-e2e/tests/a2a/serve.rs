//! `siding a2a serve`, tested with `siding a2a send` and with raw HTTP requests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use siding_e2e::{AgentServer, Sandbox, eventually};

use crate::{TOKEN, printed_task_id, sandbox, send_call, show_task, wait_outcome};

/// A `siding a2a serve` with a scripted agent. Clients authenticate with [`TOKEN`].
struct A2aServer(AgentServer);

impl A2aServer {
    fn start(sandbox: &Sandbox, script: &str) -> Self {
        Self::start_at(sandbox, script, "127.0.0.1:0")
    }

    fn start_at(sandbox: &Sandbox, script: &str, address: &str) -> Self {
        Self(AgentServer::start(sandbox, script, address, TOKEN))
    }

    fn url(&self) -> String {
        self.0.url()
    }

    fn shutdown(self) {
        self.0.stop();
    }

    /// Sends an HTTP request and returns the status and the body of the response. `headers` replace
    /// the default headers of the same names; an empty value removes the header.
    fn send_raw(&self, request: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let host = self.0.address.to_string();
        let token = format!("Bearer {TOKEN}");
        let usual = [
            ("Host", host.as_str()),
            ("Authorization", &token),
            ("Content-Type", "application/json"),
            ("A2A-Version", "1.0"),
            ("Connection", "close"),
        ];
        let mut text = format!("{request} HTTP/1.1\r\n");
        let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        let kept = usual.iter().filter(|(name, _)| !is_given(name));
        for (name, value) in kept.chain(headers).filter(|(_, value)| !value.is_empty()) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        let mut stream = TcpStream::connect(self.0.address).expect("the server listens");
        stream.write_all(text.as_bytes()).expect("writing to the server succeeded");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    /// Calls a JSON-RPC method and returns the whole response.
    fn rpc(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let (status, body) = self.send_raw("POST /a2a", &[], &body.to_string());
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(answer["id"], 7);
        answer
    }
}

fn user_message(text: &str) -> Value {
    json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": text }] })
}

const TWO_TURN_SCRIPT: &str = r#"
    [[answer]]
    expect = "^say hello$"
    text = "I run it."
    [[answer.call]]
    tool = "bash"
    input = { command = "env | grep -c A2A_TOKEN; pwd" }
    [[answer]]
    expect = '(?s)output:\n0\n'
    text = "It said hello."
    [[answer]]
    expect = "^and now\\?$"
    text = "I remember."
"#;

const SLEEP_SCRIPT: &str = r#"
    [[answer]]
    [[answer.call]]
    tool = "bash"
    input = { command = "sleep 300" }
"#;

/// A client sends a task to the server's agent, and a second message with the same context
/// continues the conversation.
#[test]
fn agent_sends_a_task_and_continues_the_conversation() {
    let sandbox = sandbox();
    let server = A2aServer::start(&sandbox, TWO_TURN_SCRIPT);
    let done = send_call(&sandbox, &server.url(), &["say hello", "--context", "talk"])
        .run()
        .expect_code(0);
    let out = done.stdout_text();
    assert!(out.starts_with("task a-") && out.contains(", context talk\n"), "{out}");
    assert!(out.contains("I run it.\n  > bash\n"), "{out}");
    assert!(out.ends_with("artifact answer:\n  It said hello.\ncompleted\n"), "{out}");
    let again =
        send_call(&sandbox, &server.url(), &["and now?", "--context", "talk"]).run().expect_code(0);
    assert!(again.stdout_text().ends_with("  I remember.\ncompleted\n"), "{again}");
    let ps = sandbox.siding(&["ps", "--all", "--json"]).run().expect_code(0).json();
    let kinds: Vec<&str> =
        ps.as_array().expect("a list").iter().filter_map(|task| task["kind"].as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "local_agent").count(), 2, "{ps}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "remote_agent").count(), 2, "{ps}");
    server.shutdown();
}

#[test]
fn model_can_come_from_the_environment() {
    let sandbox = sandbox();
    let serve = ["a2a", "serve", "--addr", "127.0.0.1:0"];
    let none = sandbox.siding(&serve).run().expect_code(125);
    assert!(none.stderr_text().contains("SIDING_MODEL"), "{none}");
    std::fs::write(sandbox.path("own.toml"), "[[answer]]\ntext = \"Mine.\"\n").expect("test file");
    let call = sandbox.siding(&serve).env("SIDING_MODEL", "script:own.toml");
    let server = AgentServer::from_invocation(call.env("SIDING_A2A_TOKEN", TOKEN));
    let done = send_call(&sandbox, &server.url(), &["whose?"]).run().expect_code(0);
    assert!(done.stdout_text().ends_with("  Mine.\ncompleted\n"), "{done}");
    server.stop();
}

#[test]
fn stop_on_the_client_cancels_the_server_task() {
    let sandbox = sandbox();
    let server = A2aServer::start(&sandbox, SLEEP_SCRIPT);
    let client_task_id = printed_task_id(
        &send_call(&sandbox, &server.url(), &["x", "--background"]).run().expect_code(0),
    );
    let running = || server.rpc("ListTasks", json!({ "status": "TASK_STATE_WORKING" }));
    eventually("the task runs", || running()["result"]["totalSize"] == 1);
    let server_task_id = running()["result"]["tasks"][0]["id"].as_str().expect("an id").to_owned();
    let steps = || sandbox.siding(&["output", &client_task_id, "--all"]).run().stdout_text();
    eventually("the step is reported", || steps().contains("> bash"));
    let _stopped = sandbox.siding(&["stop", &client_task_id]).run().expect_code(0);
    assert_eq!(wait_outcome(&sandbox, &client_task_id)["kind"], "stopped");
    assert_eq!(wait_outcome(&sandbox, &server_task_id)["kind"], "stopped");
    let task = server.rpc("GetTask", json!({ "id": server_task_id }));
    assert_eq!(task["result"]["status"]["state"], "TASK_STATE_CANCELED", "{task}");
    let again = server.rpc("CancelTask", json!({ "id": server_task_id }));
    assert_eq!(again["error"]["code"], -32002, "{again}");
    server.shutdown();
}

/// Promise P131: a server that is restarted on the same port finds its earlier tasks, because their
/// state is on disk and not in the server.
#[test]
fn restarted_server_knows_its_tasks() {
    let sandbox = sandbox();
    let server = A2aServer::start(&sandbox, SLEEP_SCRIPT);
    let sent = server.rpc(
        "SendMessage",
        json!({ "message": user_message("x"), "configuration": { "returnImmediately": true } }),
    );
    let task = sent["result"]["task"].clone();
    let id = task["id"].as_str().expect("an id").to_owned();
    let address = server.0.address.to_string();
    eventually("the agent runs", || show_task(&sandbox, &id)["phase"] == "running");
    drop(server);
    let server = A2aServer::start_at(&sandbox, SLEEP_SCRIPT, &address);
    let found = server.rpc("GetTask", json!({ "id": id }));
    assert_eq!(found["result"]["status"]["state"], "TASK_STATE_WORKING", "{found}");
    assert_eq!(found["result"]["contextId"], task["contextId"]);
    let ended = server.rpc("CancelTask", json!({ "id": id }));
    assert_eq!(ended["result"]["status"]["state"], "TASK_STATE_CANCELED", "{ended}");
    server.shutdown();
}

#[test]
fn unauthenticated_client_can_read_only_the_agent_card() {
    let sandbox = sandbox();
    let server = A2aServer::start(&sandbox, SLEEP_SCRIPT);
    let card = "GET /.well-known/agent-card.json";
    let (status, body) = server.send_raw(card, &[("Authorization", "")], "");
    let body: Value = serde_json::from_str(&body).expect("a card");
    assert_eq!((status, &body["capabilities"]["streaming"]), (200, &json!(true)));
    assert_eq!(body["supportedInterfaces"][0]["url"], format!("{}/a2a", server.url()));
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks" }).to_string();
    for wrong in ["", "Bearer x", TOKEN] {
        assert_eq!(
            server.send_raw("POST /a2a", &[("Authorization", wrong)], &call).0,
            401,
            "{wrong}"
        );
    }
    for (name, value) in [("Host", "evil.example"), ("Origin", "http://evil.example")] {
        assert_eq!(server.send_raw("POST /a2a", &[(name, value)], &call).0, 403, "{name}");
        assert_eq!(server.send_raw(card, &[(name, value)], "").0, 403, "{name}");
    }
    assert_eq!(server.send_raw("POST /a2a", &[("Content-Type", "text/plain")], &call).0, 415);
    assert_eq!(server.send_raw("POST /a2a", &[], &"x".repeat(5 << 20)).0, 413);
    assert_eq!(server.send_raw("GET /", &[], "").0, 404);
    let sent = sandbox.siding(&["a2a", "send", &server.url(), "x"]).run().expect_code(1);
    assert!(sent.stdout_text().contains("--bearer-env"), "{sent}");
    server.shutdown();
    let refused =
        sandbox.siding(&["a2a", "serve", "--addr", "0.0.0.0:0", "--model", "script:served.toml"]);
    assert!(refused.run().expect_code(125).stderr_text().contains("--allow-remote"));
}

#[test]
fn unsupported_requests_return_protocol_error_codes() {
    let sandbox = sandbox();
    let server = A2aServer::start(&sandbox, "[[answer]]\ntext = \"Done.\"\n");
    let code = |method: &str, params: Value| server.rpc(method, params)["error"]["code"].clone();
    assert_eq!(code("message/send", json!({})), -32601);
    assert_eq!(code("GetTask", json!({ "id": "a-000000000000" })), -32001);
    assert_eq!(code("GetTask", json!({})), -32602);
    assert_eq!(code("SendMessage", json!({ "message": { "parts": [{ "raw": "aGk=" }] } })), -32005);
    assert_eq!(code("CreateTaskPushNotificationConfig", json!({})), -32003);
    assert_eq!(code("GetExtendedAgentCard", json!({})), -32004);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks" }).to_string();
    let (_, old) = server.send_raw("POST /a2a", &[("A2A-Version", "")], &body);
    assert!(old.contains("-32009"), "{old}");
    // A finished task accepts no further message. A client continues the conversation by sending
    // the context's id without the task's id.
    let done = server.rpc("SendMessage", json!({ "message": user_message("x") }));
    let task = &done["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "Done.");
    let mut more = user_message("y");
    more["taskId"] = task["id"].clone();
    assert_eq!(code("SendMessage", json!({ "message": more.clone() })), -32004);
    assert_eq!(code("SubscribeToTask", json!({ "id": task["id"] })), -32004);
    more["contextId"] = json!("other");
    assert_eq!(code("SendMessage", json!({ "message": more })), -32602);
    server.shutdown();
}
