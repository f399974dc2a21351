//! The actions that change a task or a notice, which need `--control`. A stop is recorded as
//! requested by `web`.

use serde_json::json;
use siding_e2e::{eventually, processes};

use crate::client::WebServer;
use crate::{run_task, sandbox, start_task};

#[test]
fn without_control_nothing_changes() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep"], "sleep 300");
    let server = WebServer::start(&sandbox, &[]);
    for act in ["stop", "extend", "input", "release", "keys", "answer", "return"] {
        let reply = server.post(&format!("/api/v1/tasks/{id}/{act}"), &json!({}));
        assert_eq!(reply.status, 403, "{act}");
        assert!(reply.text().contains("--control"), "{}", reply.text());
    }
    let reply = server.post("/api/v1/notices/acknowledge", &json!({ "notice_ids": [] }));
    assert_eq!(reply.status, 403);
    let page = server.get(&format!("/tasks/{id}")).text();
    assert!(!page.contains("data-act") && !page.contains("act.js"), "{page}");
    assert_eq!(server.get(&format!("/api/v1/tasks/{id}")).json()["phase"], "running");
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

#[test]
fn a_stop_ends_the_tree_and_names_its_requester() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep"], "sleep 300 & sleep 300");
    let server = WebServer::start(&sandbox, &["--control"]);
    eventually("the shell has started a process", || {
        let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
        shown["processes"].as_array().is_some_and(|processes| processes.len() >= 2)
    });
    let page = server.get(&format!("/tasks/{id}")).text();
    assert!(page.contains("data-act=\"stop\""), "{page}");
    // A script replaces the elements around the result of an act, and must not replace the result.
    let before = page.split("data-act-result").next().expect("the page");
    assert_eq!(before.matches("<div").count(), before.matches("</div>").count(), "{page}");
    let reply = server.post(&format!("/api/v1/tasks/{id}/stop"), &json!({}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let view = reply.json();
    assert_eq!(view["outcome"]["by"], "web", "{view}");
    assert!(view["stop_report"]["ended_total"].as_u64() >= Some(2), "{view}");
    let again = server.post(&format!("/api/v1/tasks/{id}/extend"), &json!({ "by": "1m" }));
    assert_eq!(again.status, 409, "{}", again.text());
}

#[test]
fn a_deadline_moves_and_a_line_reaches_the_input() {
    let sandbox = sandbox();
    let args = ["--keep", "--timeout", "10m", "--stdin", "pipe"];
    let id = start_task(&sandbox, &args, "read line; echo \"got <$line>\"; read more; echo end");
    let server = WebServer::start(&sandbox, &["--control"]);
    let before = server.get(&format!("/api/v1/tasks/{id}")).json()["deadline_at"].clone();
    let path = format!("/api/v1/tasks/{id}/extend");
    for (body, status) in [
        (json!({ "by": "nonsense" }), 400),
        (json!({ "by": "0s" }), 400),
        (json!({ "by": "1m", "more": 1 }), 400),
        (json!({}), 400),
        (json!({ "by": "20m" }), 200),
    ] {
        let reply = server.post(&path, &body);
        assert_eq!(reply.status, status, "{body}");
        // An error names the field that a program has to change.
        assert!(status == 200 || reply.text().contains("`by`"), "{body}: {}", reply.text());
    }
    let after = server.get(&format!("/api/v1/tasks/{id}")).json()["deadline_at"].clone();
    assert!(after.as_str() > before.as_str(), "{before} {after}");
    let page = server.get(&format!("/tasks/{id}")).text();
    assert!(page.contains("after its start by web"), "{page}");
    let path = format!("/api/v1/tasks/{id}/input");
    assert_eq!(server.post(&path, &json!({ "text": "hello\n" })).status, 200);
    assert_eq!(server.post(&path, &json!({ "eof": true })).status, 200);
    let _ended = sandbox.siding(&["wait", &id]).run().expect_code(0);
    let output = server.get(&format!("/api/v1/tasks/{id}/output")).json();
    assert_eq!(output["text"], "got <hello>\nend\n");
    let page = server.get(&format!("/tasks/{id}")).text();
    assert!(page.contains("received input from web"), "{page}");
    assert_eq!(server.post(&path, &json!({ "text": "late" })).status, 409);
    let unknown = server.post("/api/v1/tasks/b-0000000000001/stop", &json!({}));
    assert_eq!(unknown.status, 404, "{}", unknown.text());
}

/// A task with a terminal has no input pipe, and the refusal names the request that types.
#[test]
fn input_to_a_terminal_names_the_request_that_types() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--pty"], "read -r line");
    let server = WebServer::start(&sandbox, &["--control"]);
    let reply = server.post(&format!("/api/v1/tasks/{id}/input"), &json!({ "text": "yes\n" }));
    assert_eq!(reply.status, 409, "{}", reply.text());
    let keys = format!("/api/v1/tasks/{id}/keys");
    assert!(reply.text().contains(&keys), "{}", reply.text());
    assert_eq!(server.post(&keys, &json!({ "keys": ["yes", "Enter"] })).status, 200);
    let _ended = sandbox.siding(&["wait", &id]).run().expect_code(0);
}

/// A release is recorded as requested by `web`, and the process continues.
#[test]
fn an_adopted_process_is_released_and_continues() {
    processes::assert_no_birthmark();
    let sandbox = sandbox();
    let other = sandbox.host("sleep", &["300"]).spawn();
    let pid = other.process().pid.to_string();
    let adopt = sandbox.siding(&["adopt", "--json", "--session", "cli", &pid]);
    let adopted = adopt.env("SIDING_ADOPT_KEEP_AFTER", "0s").run().expect_code(0).json();
    let id = adopted["task_id"].as_str().expect("an id");
    let server = WebServer::start(&sandbox, &["--control"]);
    eventually("the shim has recorded the task", || {
        server.get("/api/v1/tasks?running=1").json().to_string().contains(id)
    });
    let path = format!("/api/v1/tasks/{id}/release");
    let reply = server.post(&path, &json!({}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let outcome = &reply.json()["outcome"];
    assert_eq!((&outcome["kind"], &outcome["by"]), (&json!("released"), &json!("web")));
    assert!(server.get(&format!("/tasks/{id}")).text().contains("released by web"));
    assert!(other.process().is_alive());
    assert_eq!(server.post(&path, &json!({})).status, 409, "it was released before");
    other.process().kill();
    let _killed = other.wait();
}

#[test]
fn an_acknowledged_notice_is_read() {
    let sandbox = sandbox();
    let gate = sandbox.path("gate");
    let command = format!("until [ -e {} ]; do sleep 0.05; done; exit 3", gate.display());
    let id = start_task(&sandbox, &[], &command);
    std::fs::write(&gate, "").expect("the gate opens");
    let _waited = sandbox.siding(&["wait", "--all", &id]).env("SIDING_SESSION", "other").run();
    let server = WebServer::start(&sandbox, &["--control"]);
    let page = server.get(&format!("/tasks/{id}")).text();
    let Some(notice) = page.split("data-acknowledge=\"").nth(1) else {
        panic!("no unread notice:\n{page}")
    };
    let notice = notice.split('"').next().expect("an id");
    assert!(server.get("/").text().contains("Needs a person"));
    let reply = server.post("/api/v1/notices/acknowledge", &json!({ "notice_ids": [notice] }));
    assert_eq!((reply.status, reply.json()), (200, json!({ "acknowledged": 1 })));
    let page = server.get("/").text();
    assert!(!page.contains("Needs a person"), "{page}");
    let metrics = server.get("/metrics").text();
    for consumer in ["terminal", "web"] {
        let line = format!("\nsiding_notices_delivered{{consumer=\"{consumer}\"}} 1\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn a_large_body_is_refused() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "true");
    let server = WebServer::start(&sandbox, &["--control"]);
    let body = json!({ "text": "x".repeat(70_000) });
    assert_eq!(server.post(&format!("/api/v1/tasks/{id}/input"), &body).status, 413);
}
